"""What a scorer makes of judges and references that fail or answer wrongly, and of hostile text."""

from __future__ import annotations

import json
import logging
import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from rl_core.errors import InputError
from rl_core.judge.checks import Scorer
from rl_core.judge.text import MAX_FAILED_STARTS, find_json, strip_think
from rl_core.reference import reference_values
from rl_core.rubric import Criterion, Rubric
from rl_core.task import Task
from rl_core.verdict import Verdict

RUBRIC = Rubric(criteria=(Criterion(id="a", text="is kind"),))
TASK = Task(id="t1", prompt="do", rubric=RUBRIC)


class Says:
    """Judge and reference in one: answers with what it is given."""

    name = "says"

    def __init__(self, answer: Any) -> None:
        self.answer, self.seen = answer, []

    def verdicts(self, task: Task, completions: Any, criteria: Any) -> Any:
        self.seen += completions
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def values(self, task: Task, completions: Any) -> Any:
        return self.answer


def test_reference_values_become_floats_or_none() -> None:
    got = reference_values(Says([np.float32(0.5), 1, None, float("nan"), float("inf")]), TASK, ["x"] * 5)
    assert got == [0.5, 1.0, None, None, None]
    assert type(got[0]) is float


@pytest.mark.parametrize("answer", [[0.5], [0.5, 1.5], [-0.1, 0], ["0.5", 0], [0.5, object()], 0.5, None])
def test_wrong_reference_values_name_reference_and_task(answer: Any) -> None:
    with pytest.raises(InputError, match=r"reference 'says', task 't1'") as e:
        reference_values(Says(answer), TASK, ["x", "y"])
    assert "\n" not in str(e.value)


def test_a_judge_that_raises_leaves_no_verdict_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    scorer = Scorer(Says(RuntimeError("down")))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert scorer.verdicts(TASK, ["x", "y"], RUBRIC) == [{"a": Verdict.missing("error")}] * 2
    assert len(caplog.records) == 1


@pytest.mark.parametrize("answer", [None, [], [{"a": Verdict(1.0)}], [{"a": 1.0}, {"a": 0.0}], [1, 2]])
def test_a_judge_of_the_wrong_shape_is_named(answer: Any) -> None:
    with pytest.raises(InputError, match="judge Says"):
        Scorer(Says(answer)).verdicts(TASK, ["x", "y"], RUBRIC)


def test_the_judge_sees_no_reasoning() -> None:
    judge = Says([{"a": Verdict(1.0)}] * 2)
    Scorer(judge).verdicts(TASK, ["<THINK>plan</THINK> yes", " as is "], RUBRIC)
    assert judge.seen == ["yes", " as is "]


def by_regex(text: str) -> str:
    flags = re.DOTALL | re.IGNORECASE
    text = re.sub(r"<think>.*?</think>", "", text, flags=flags)
    text = re.sub(r"\A(?:(?!<think>).)*?</think>", "", text, flags=flags)
    return re.sub(r"<think>.*\Z", "", text, flags=flags).strip()


def test_strip_think_is_what_the_patterns_said() -> None:
    for parts in product(("<think>", "</Think>", "a", "İ\n", "<thi", "nk>"), repeat=5):
        assert strip_think("".join(parts)) == by_regex("".join(parts)), parts


class Counted(str):
    """Text that counts the searches in its lower-case form."""

    searches = 0

    def lower(self) -> Counted:
        return Counted(super().lower())

    def find(self, *args: Any) -> int:
        Counted.searches += 1
        return super().find(*args)


def test_hostile_text_costs_a_bounded_number_of_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert strip_think(Counted("<think>" * 30_000)) == ""
    assert Counted.searches < 10
    calls = 0
    decode = json.JSONDecoder.raw_decode

    def spy(self: Any, s: str, idx: int = 0) -> Any:
        nonlocal calls
        calls += 1
        return decode(self, s, idx)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", spy)
    assert find_json("[" * 200_000) == []
    assert calls == MAX_FAILED_STARTS
