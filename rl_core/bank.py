"""Reference bank: every label is bought once and used many times.

Referenced groups are kept in two halves by a hash of the task id: the evidence half, which
evolver and proposer may read, and the test half, which only the gate sees.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rl_core.edits import Scope
from rl_core.errors import InputError
from rl_core.rollout import Group, Rollout
from rl_core.run_folder import append_line
from rl_core.task import TaskSet

Half = Literal["evidence", "test"]


def half_of(task_id: str) -> Half:
    """Which half a task belongs to, for ever and on every machine."""
    return "test" if hashlib.sha256(task_id.encode()).digest()[0] & 1 else "evidence"


@dataclass(frozen=True)
class Entry:
    """One referenced group: its rollouts and their reference values (None: could not judge)."""

    group: Group
    values: list[float | None]
    step: int


class ReferenceBank:
    """Append-only store of referenced groups, in memory and (with a path) in one JSONL file.

    A last line that a kill tore off is cut away. Raises InputError when an earlier line is broken.
    """

    def __init__(self, path: Path | None, *, tasks: TaskSet, max_age_steps: int) -> None:
        self._path, self._tasks, self._max_age = path, tasks, max_age_steps
        self._entries: dict[str, Entry] = {}
        if path is not None and path.exists():
            self._load(path)

    @property
    def labels(self) -> int:
        """Reference values held (None counted too: the call was paid for)."""
        return sum(len(e.values) for e in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._entries

    def add(self, group: Group, values: Sequence[float | None], *, step: int) -> bool:
        """Keep a referenced group; False when it is there already."""
        if group.id in self._entries:
            return False
        if len(values) != len(group.rollouts):
            raise ValueError(f"group {group.id}: {len(group.rollouts)} rollouts but {len(values)} reference values")
        entry = Entry(group, list(values), step)
        if self._path is not None:
            append_line(self._path, _dump(entry))
        self._entries[group.id] = entry
        return True

    def entries(self, half: Half, *, step: int, scope: Scope | None = None) -> list[Entry]:
        """Groups of one half within scope that are not older than ``max_age_steps`` at ``step``."""
        return [
            e
            for e in self._entries.values()
            if half_of(e.group.task_id) == half
            and step - self._max_age <= e.step <= step
            and (scope is None or scope.covers(e.group.task_id, self._tasks[e.group.task_id].domain))
        ]

    def evidence(self, *, step: int, scope: Scope | None = None) -> list[Entry]:
        return self.entries("evidence", step=step, scope=scope)

    def test(self, *, step: int, scope: Scope | None = None) -> list[Entry]:
        return self.entries("test", step=step, scope=scope)

    def _load(self, path: Path) -> None:
        good = 0
        raw = path.read_bytes()
        for line in raw.splitlines(keepends=True):
            try:
                entry = _parse(json.loads(line))
            except (ValueError, LookupError, TypeError):
                if good + len(line) < len(raw):  # only a torn last line is forgivable
                    place = f"{path.name}, line {raw[:good].count(10) + 1}"
                    raise InputError(
                        "not a referenced group", where=place, mend="restore the file or delete it"
                    ) from None
                break
            if not line.endswith(b"\n"):
                break
            good += len(line)
            if entry.group.task_id in self._tasks:
                self._entries[entry.group.id] = entry
        if good < len(raw):
            with path.open("r+b") as f:
                f.truncate(good)


def _dump(e: Entry) -> dict[str, object]:
    return {
        "group": e.group.id,
        "task": e.group.task_id,
        "step": e.step,
        "values": e.values,
        "rollouts": [
            {
                "id": r.id,
                "step": r.step,
                "completion": r.completion,
                "policy_version": r.policy_version,
                "harness_version": r.harness_version,
                "phase": r.phase,
                "guidance_id": r.guidance_id,
                "reward": r.reward,
                "tokens": r.tokens,
                "truncated": r.truncated,
                "logprob": r.logprob,
                "logprob_plain": r.logprob_plain,
            }
            for r in e.group.rollouts
        ],
    }


def _parse(d: dict[str, object]) -> Entry:
    rollouts = [
        Rollout(task_id=str(d["task"]), group_id=str(d["group"]), **r)
        for r in d["rollouts"]  # type: ignore[attr-defined]  # JSON: a list of objects, checked by the constructor
    ]
    step = int(d["step"])  # type: ignore[call-overload]  # JSON number
    values: list[float | None] = list(d["values"])  # type: ignore[call-overload]  # JSON list
    return Entry(Group(str(d["group"]), str(d["task"]), rollouts[0].step, rollouts), values, step)
