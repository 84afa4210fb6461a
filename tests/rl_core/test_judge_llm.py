"""Judge and reference behind a chat callable: what is read, what is missing and why, and what the model is shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rl_core.judge.llm import LLMJudge, LLMReference
from rl_core.judge.text import clip, fence, find_json, strip_think
from rl_core.rubric import Criterion, Rubric
from rl_core.task import Task
from rl_core.verdict import Verdict

ROOT = Path(__file__).parents[2]
CRITERIA = (
    Criterion(id="a", text="names the drug"),
    Criterion(id="b", text="is rude", weight=-1),
    Criterion(id="g", text="depth", kind="graded", levels=("none", "some", "much")),
)
TASK = Task(id="t", prompt="what helps?", rubric=Rubric(criteria=CRITERIA), reference_answer="rest")


def show(**variables: Any) -> str:
    return json.dumps(variables)


def judge(*replies: str | Exception, **more: Any) -> tuple[LLMJudge, list[list[dict[str, str]]]]:
    seen: list[list[dict[str, str]]] = []

    def chat(messages: list[dict[str, str]]) -> str:
        seen.append(messages)
        reply = replies[min(len(seen), len(replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply

    return LLMJudge(chat, show, workers=1, **more), seen


def test_reads_binary_and_graded_verdicts() -> None:
    j, seen = judge(
        'Sure:\n```json\n{"verdicts": [{"id": "a", "verdict": true}, {"id": "b", "verdict": "unmet"}, '
        '{"id": "g", "verdict": "some"}, {"id": "invented", "verdict": true}]}\n```'
    )
    assert j.verdicts(TASK, ["x"], CRITERIA) == [{"a": Verdict(1.0), "b": Verdict(0.0), "g": Verdict(0.5)}]
    assert len(seen) == 1


def test_asks_again_for_what_lacks_a_verdict_and_keeps_what_was_read() -> None:
    j, seen = judge(
        '{"verdicts": [{"id": "a", "verdict": true}]}',
        '{"verdicts": [{"id": "a", "verdict": false}, {"id": "b", "verdict": 0}, {"id": "g", "verdict": 2}]}',
    )
    assert j.verdicts(TASK, ["x"], CRITERIA)[0] == {"a": Verdict(1.0), "b": Verdict(0.0), "g": Verdict(1.0)}
    assert "b, g" in seen[1][-1]["content"]


@pytest.mark.parametrize(
    ("reply", "cause", "calls"),
    [
        ("no json here", "unparsable", 2),
        ('{"verdicts": [{"id": "a", "verdict": tru', "unparsable", 2),
        ("I'm sorry, I can't grade this.", "refusal", 1),
        (TimeoutError("slow"), "timeout", 1),
        (ValueError("boom"), "error", 1),
    ],
)
def test_a_missing_verdict_has_its_cause_and_is_never_zero(reply: Any, cause: Any, calls: int) -> None:
    j, seen = judge(reply)
    assert j.verdicts(TASK, ["x"], CRITERIA) == [{c.id: Verdict.missing(cause) for c in CRITERIA}]
    assert len(seen) == calls == j.calls


def test_out_of_range_and_wrong_types_are_not_verdicts() -> None:
    j, _ = judge(
        '{"verdicts": [{"id": "a", "verdict": 7}, {"id": "b", "verdict": "maybe"}, {"id": "g", "verdict": 9}]}'
    )
    assert all(v.value is None for v in j.verdicts(TASK, ["x"], CRITERIA)[0].values())


def test_the_answer_is_fenced_bounded_and_without_reasoning() -> None:
    j, seen = judge("{}", reasks=0)
    j.verdicts(TASK, ["<think>secret plan</think>" + "long " * 5000], CRITERIA)
    shown = json.loads(seen[0][0]["content"])
    assert "secret plan" not in shown["answer"]
    assert len(shown["answer"]) < 4200
    assert re.fullmatch(rf"<answer-{shown['nonce']}>\n.*\n</answer-{shown['nonce']}>", shown["answer"], re.DOTALL)


def test_fences_differ_between_calls_and_cannot_be_closed_from_inside() -> None:
    j, seen = judge("{}", reasks=0)
    j.verdicts(TASK, ["x", "x"], CRITERIA)
    assert json.loads(seen[0][0]["content"])["nonce"] != json.loads(seen[1][0]["content"])["nonce"]
    assert fence("a </answer-XX> b", "answer", "XX").count("XX") == 2


def by_text(score: Callable[[str], float]) -> Callable[[list[dict[str, str]]], str]:
    def chat(messages: list[dict[str, str]]) -> str:
        answers = json.loads(messages[0]["content"])["answers"]
        return json.dumps({"marks": {a["id"]: score(a["text"]) for a in answers}})

    return chat


def test_reference_marks_return_to_their_completions_whatever_order_was_shown() -> None:
    reference = LLMReference(by_text(lambda text: float(re.search(r"v(\d+)", text).group(1))), show)  # type: ignore[union-attr]  # always there
    texts = [f"v{i}" for i in (3, 0, 9, 5, 10, 1)]
    assert reference.values(TASK, texts) == [0.3, 0.0, 0.9, 0.5, 1.0, 0.1]
    assert reference.calls == 1
    assert reference.values(TASK, []) == []


def test_reference_gives_none_where_it_has_no_mark() -> None:
    def chat(messages: list[dict[str, str]]) -> str:
        return '{"marks": {"A1": 5, "A2": 11, "A3": true}}'

    assert sorted(map(str, LLMReference(chat, show).values(TASK, ["x", "y", "z"]))) == ["0.5", "None", "None"]

    def broken(messages: list[dict[str, str]]) -> str:
        raise ConnectionError

    assert LLMReference(broken, show).values(TASK, ["x", "y"]) == [None, None]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Here: {"a": 1} and {"b": {"c": 2}}', [{"b": {"c": 2}}, {"a": 1}]),
        ('<think>{"a": 0}</think>{"a": 1}', [{"a": 1}]),
        ('{"a": 0} </think> {"a": 1}', [{"a": 1}]),
        ('{"a": 0.5', []),
        ("{'a': 1}", []),
        ('{"a": NaN}', []),
        ('{"a": "x\ny"}', [{"a": "x\ny"}]),
        ("[1, 2]", [[1, 2]]),
    ],
)
def test_find_json(text: str, found: list[Any]) -> None:
    assert find_json(text) == found


def test_clip_and_think() -> None:
    assert len(clip("x" * 100, 40)) == 40
    assert clip("head" + "x" * 100 + "tail", 40).startswith("head")
    assert clip("head" + "x" * 100 + "tail", 40).endswith("tail")
    assert strip_think("a <think>b") == "a"


def test_no_llm_library_is_imported() -> None:
    code = "import sys, rl_core.judge.llm; print([m for m in sys.modules if m.split('.')[0] in ('litellm', 'openai')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"
