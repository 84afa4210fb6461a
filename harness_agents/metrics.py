"""Rows of metrics.jsonl that the harness writes: one a training step, one a harness update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_core.reward_report import GroupStats
from rl_core.rollout import Rollout
from rl_core.run_folder import append_line, read_jsonl, write_atomic
from rl_core.state import HarnessState
from rl_core.statistics import diagnose
from rl_core.task import TaskSet


def step_row(
    rollouts: Sequence[Rollout], tasks: TaskSet, state: HarnessState, counts: Mapping[str, int]
) -> dict[str, Any]:
    """The row of one step: plain shares and means; None where nothing was scored."""
    report = diagnose(rollouts, tasks, state, features={})
    g = report.overall.groups
    return {
        "kind": "step",
        "step": report.last_step,
        **_shares(g),
        "state_version": state.version,
        "guided_share": sum(r.guidance_id is not None for r in rollouts) / len(rollouts),
        "rollouts": counts["train_rollouts"] + counts["probe_rollouts"],
        "labels": counts["labels"],
        "domains": {
            name: {("live" if k == "live_share" else k): v for k, v in _shares(s.groups).items()}
            for name, s in report.domains.items()
        },
    }


def _shares(g: GroupStats) -> dict[str, float | None]:
    return {
        "reward": g.mean_reward.value,
        "live_share": g.live.value,
        "dead_low": g.dead_low.value,
        "dead_high": g.dead_high.value,
        "dead_flat": g.dead_flat.value,
    }


def append_once(path: Path, row: Mapping[str, Any], *, key: tuple[str, ...]) -> None:
    """Append unless a row with the same values under ``key`` is there."""
    if not any(all(old.get(k) == row.get(k) for k in key) for old in read_jsonl(path)):
        append_line(path, row)


def forget_later(path: Path, *, rollout_step: int, update: int) -> None:
    """For resuming: drop rows of later steps and updates. An evaluation belongs to the step before it."""
    rows = read_jsonl(path)
    kept = []
    for row in rows:
        kind, step = row.get("kind"), row.get("step", 0)
        late = (
            row.get("update", 0) > update
            if kind == "update"
            else step > rollout_step + 1
            if kind == "eval"
            else step > rollout_step
        )
        if not late:
            kept.append(row)
    if len(kept) < len(rows):
        import json

        write_atomic(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept))
