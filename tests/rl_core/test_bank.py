"""The reference bank: two halves for ever, every label once, and a file that survives a kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_core.bank import ReferenceBank, half_of
from rl_core.edits import Scope
from rl_core.errors import InputError
from rl_core.rollout import Group, Rollout
from rl_core.rubric import Criterion, Rubric
from rl_core.task import Task, TaskSet

RUBRIC = Rubric(criteria=(Criterion(id="a", text="a"),))
TASKS = TaskSet([Task(id=f"t{i}", prompt=f"do {i}", domain="x" if i % 2 else "y", rubric=RUBRIC) for i in range(40)])


def group(task_id: str, name: str = "", step: int = 0, size: int = 4) -> Group:
    name = name or f"{step}-{task_id}"
    rolls = [
        Rollout(
            f"{name}-{j}",
            task_id,
            name,
            step,
            f'say "{j}"\né',
            policy_version=2,
            harness_version=3,
            guidance_id="h" if j == 0 else None,
            reward=None if j == 1 else j / 4,
            tokens=5,
            truncated=j == 2,
            logprob=-0.5,
            logprob_plain=-1.5,
        )
        for j in range(size)
    ]
    return Group(name, task_id, step, rolls)


def filled(path: Path | None = None, *, max_age: int = 100) -> ReferenceBank:
    bank = ReferenceBank(path, tasks=TASKS, max_age_steps=max_age)
    for i in range(40):
        bank.add(group(f"t{i}"), [0.1, None, 0.9, 1.0], step=0)
    return bank


def test_halves_are_disjoint_complete_and_stable() -> None:
    bank = filled()
    evidence = {e.group.task_id for e in bank.evidence(step=0)}
    test = {e.group.task_id for e in bank.test(step=0)}
    assert not evidence & test
    assert evidence | test == set(TASKS.ids)
    assert min(len(evidence), len(test)) >= 12
    # pinned: a change would hand test groups of old runs to the proposer
    assert [half_of(f"t{i}") for i in range(6)] == ["test", "evidence", "evidence", "evidence", "evidence", "evidence"]


@given(st.text(max_size=40))
def test_a_task_stays_in_its_half(task_id: str) -> None:
    assert half_of(task_id) == half_of(task_id)
    assert half_of(task_id) in ("evidence", "test")


def test_a_group_is_kept_once(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    bank = ReferenceBank(path, tasks=TASKS, max_age_steps=9)
    assert bank.add(group("t0"), [0.0, 0.1, 0.2, 0.3], step=4) is True
    assert bank.add(group("t0"), [1.0, 1.0, 1.0, 1.0], step=5) is False
    assert len(bank) == 1
    assert bank.labels == 4
    assert "0-t0" in bank
    assert "0-t1" not in bank
    assert len(path.read_text().splitlines()) == 1
    assert bank.entries(half_of("t0"), step=5)[0].values == [0.0, 0.1, 0.2, 0.3]


def test_labels_count_what_was_paid_for() -> None:
    bank = ReferenceBank(None, tasks=TASKS, max_age_steps=9)
    bank.add(group("t0"), [0.5, None, None, 0.2], step=0)
    bank.add(group("t1", size=2), [None, None], step=0)
    assert bank.labels == 6


def test_values_must_fit_the_group() -> None:
    bank = ReferenceBank(None, tasks=TASKS, max_age_steps=9)
    with pytest.raises(ValueError, match="4 rollouts but 2"):
        bank.add(group("t0"), [0.1, 0.2], step=0)
    assert len(bank) == 0


def test_it_reads_back_all_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    first = filled(path)
    again = ReferenceBank(path, tasks=TASKS, max_age_steps=100)
    assert len(again) == 40
    assert again.labels == 160
    assert again.test(step=0) == first.test(step=0)
    assert again.evidence(step=0) == first.evidence(step=0)


@pytest.mark.parametrize("keep", [1, 40, -1])
def test_a_torn_last_line_is_cut_away(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "bank.jsonl"
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:keep])
    bank = ReferenceBank(path, tasks=TASKS, max_age_steps=100)
    assert len(bank) == 39
    assert path.read_bytes() == b"".join(lines[:-1])
    assert bank.add(group("t39"), [0.1, None, 0.9, 1.0], step=0)
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize(
    "broken", ["{torn", "{}", '"text"', '{"group": "g", "task": "t0", "step": 0, "values": [], "rollouts": []}']
)
def test_a_broken_line_in_the_middle_is_refused(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "bank.jsonl"
    filled(path)
    lines = path.read_text().splitlines()
    lines[2] = broken
    text = "\n".join(lines) + "\n"
    path.write_text(text)
    with pytest.raises(InputError, match=r"bank\.jsonl, line 3: .*restore"):
        ReferenceBank(path, tasks=TASKS, max_age_steps=100)
    assert path.read_text() == text


def test_groups_of_tasks_that_are_gone_stay_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    filled(path)
    before = path.read_bytes()
    bank = ReferenceBank(path, tasks=TaskSet([TASKS["t0"]]), max_age_steps=100)
    assert len(bank) == 1
    assert path.read_bytes() == before


def test_old_groups_retire_and_later_ones_are_not_seen_yet() -> None:
    bank = ReferenceBank(None, tasks=TASKS, max_age_steps=10)
    bank.add(group("t0", step=5), [0.0, 0.1, 0.2, 0.3], step=5)
    half = half_of("t0")
    assert [len(bank.entries(half, step=s)) for s in (4, 5, 15, 16)] == [0, 1, 1, 0]
    assert bank.labels == 4


def test_scope_filters() -> None:
    bank = filled()
    odd = bank.test(step=0, scope=Scope(domains=("x",)))
    assert odd
    assert all(TASKS[e.group.task_id].domain == "x" for e in odd)
    one = bank.test(step=0, scope=Scope(tasks=("t0", "t2")))
    assert {e.group.task_id for e in one} == {t for t in ("t0", "t2") if half_of(t) == "test"}


def test_the_file_is_plain_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    filled(path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["values"] == [0.1, None, 0.9, 1.0]
    assert rows[0]["rollouts"][0]["completion"] == 'say "0"\né'
