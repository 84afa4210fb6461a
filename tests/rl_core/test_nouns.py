"""Task, Rollout, policy, verdict and the user's error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_core.errors import InputError
from rl_core.policy import CallablePolicy, Capabilities, FrozenPolicy
from rl_core.rollout import Rollout, advantages, groups_of
from rl_core.rubric import Criterion, Rubric
from rl_core.task import Message, Task, TaskSet
from rl_core.verdict import Verdict

RUBRIC = Rubric(criteria=(Criterion(id="c", text="t"),))


def test_duplicate_task_ids_and_empty_sets_are_refused() -> None:
    twice = [Task(id="a", prompt="p", rubric=RUBRIC), Task(id="a", prompt="q", rubric=RUBRIC)]
    with pytest.raises(InputError, match=r"rows.jsonl, row 2, field 'id': duplicate task id 'a'"):
        TaskSet(twice, source="rows.jsonl")
    with pytest.raises(InputError, match="no tasks"):
        TaskSet([])


def test_task_set_keeps_the_order() -> None:
    tasks = TaskSet([Task(id=i, prompt="p", domain=d, rubric=RUBRIC) for i, d in (("b", "y"), ("a", "x"), ("c", "y"))])
    assert tasks.ids == ["b", "a", "c"]
    assert tasks.domains == ["y", "x"]
    assert [t.id for t in tasks] == tasks.ids
    assert (len(tasks), "a" in tasks, "z" in tasks, tasks["c"].domain) == (3, True, False, "y")


def test_prompt_text_of_a_chat() -> None:
    chat = (Message(role="system", content="be brief"), Message(role="user", content="hi"))
    assert Task(id="a", prompt=chat, rubric=RUBRIC).prompt_text == "be brief\nhi"


def test_advantages_are_grpo_s() -> None:
    assert advantages([1.0, 0.0]) == pytest.approx([0.5 / (0.5**0.5 + 1e-4), -0.5 / (0.5**0.5 + 1e-4)])
    assert advantages([1.0, 0.0], scale=False) == [0.5, -0.5]
    assert advantages([0.3, 0.3, 0.3]) == pytest.approx([0, 0, 0])


def test_a_rollout_without_reward_neither_gains_nor_counts() -> None:
    with_gap = advantages([1.0, None, 0.0])
    assert with_gap[1] == 0.0
    assert [with_gap[0], with_gap[2]] == advantages([1.0, 0.0])
    assert advantages([None, 1.0]) == [0.0, 0.0]


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_advantages_sum_to_zero(rewards: list[float]) -> None:
    assert sum(advantages(rewards)) == pytest.approx(0, abs=1e-9)


def test_groups_keep_order_and_members() -> None:
    rollouts = [
        Rollout(id=f"r{i}", task_id="t", group_id=g, step=1, completion="", reward=float(i))
        for i, g in enumerate(["g2", "g1", "g2"])
    ]
    groups = groups_of(rollouts)
    assert [(g.id, g.rewards) for g in groups] == [("g2", [0.0, 2.0]), ("g1", [1.0])]


def test_verdicts() -> None:
    assert (Verdict.of(True), Verdict.of(False), Verdict.of(0.5)) == ((1.0, None), (0.0, None), (0.5, None))
    assert Verdict.missing("timeout") == (None, "timeout")


def test_guidance_needs_log_probs() -> None:
    assert Capabilities().guidance
    for missing in ("logprobs", "plain_prompt_loss", "per_rollout_prompts", "probe"):
        assert not Capabilities(**{missing: False}).guidance


def test_any_function_is_a_policy() -> None:
    policy = CallablePolicy(lambda prompts, n, seed: [[f"{p} {seed}"] * n for p in prompts], version=3)
    assert isinstance(policy, FrozenPolicy)
    assert [[c.text for c in row] for row in policy.generate(["a", "b"], n=2, seed=5)] == [["a 5"] * 2, ["b 5"] * 2]
    assert policy.logprobs(["a", "b"], ["x", "y"]) == [None, None]


def test_the_error_is_place_problem_mend() -> None:
    assert str(InputError("is bad", where="f.yaml", field="x", mend="mend it")) == "f.yaml, field 'x': is bad; mend it"
    assert str(InputError("is bad")) == "is bad"
    assert isinstance(InputError("x"), ValueError)
