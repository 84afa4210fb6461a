"""How much of a group is guided: a hint's dose falls with the unguided success of each task, not with the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rl_core.guidance import guided_count
from rl_core.rollout import Rollout
from rl_core.rubric import Rubric
from rl_core.state import HarnessState
from rl_core.task import TaskSet


class DoseBook:
    """Plain (unguided) successes on guided tasks since their hint was accepted.

    Success is the share of positive weight that a rollout earns: the reward itself would also
    count what a penalty leaves to an empty answer.

    dose(task) = item.dose · max(0, 1 − mean unguided success / drop_at).
    """

    def __init__(self, tasks: TaskSet, drop_at: float) -> None:
        self._tasks, self._drop_at = tasks, drop_at
        self._seen: dict[str, dict[str, list[float]]] = {}

    def observe(self, rollouts: Iterable[Rollout], state: HarnessState) -> None:
        """Count plain training rollouts of tasks that a hint of ``state`` covers."""
        for r in rollouts:
            if r.phase not in ("train", "control") or r.guidance_id is not None or r.reward is None:
                continue
            item = state.guidance_for(self._tasks[r.task_id]) if r.task_id in self._tasks else None
            success = None if item is None else positive_share(state.rubric_for(self._tasks[r.task_id]), r)
            if item is not None and success is not None:
                row = self._seen.setdefault(item.id, {}).setdefault(r.task_id, [0.0, 0.0])
                row[0] += 1
                row[1] += success

    def doses(self, state: HarnessState) -> dict[str, float]:
        """Task id -> dose now, for tasks whose dose is known to differ from the item's own.

        Once half of a hint's tasks were seen unguided, the others take the mean of those.
        """
        out: dict[str, float] = {}
        for item in state.guidance:
            means = {t: total / n for t, (n, total) in self._seen.get(item.id, {}).items()}
            covered = [t.id for t in self._tasks if state.guidance_for(t) == item]
            seen = [means[t] for t in covered if t in means]
            pooled = sum(seen) / len(seen) if seen and 2 * len(seen) >= len(covered) else None
            for task_id in covered:
                mean = means.get(task_id, pooled)
                if mean is not None:
                    out[task_id] = item.dose * max(0.0, 1.0 - mean / self._drop_at)
        return out

    def idle(self, state: HarnessState, group_size: int) -> list[str]:
        """Hints that guide no rollout of any task they cover any more."""
        doses = self.doses(state)
        out = []
        for item in state.guidance:
            covered = [t for t in self._tasks if state.guidance_for(t) == item]
            if covered and all(guided_count(doses.get(t.id, item.dose), group_size) == 0 for t in covered):
                out.append(item.id)
        return out

    def keep_only(self, state: HarnessState) -> None:
        """Forget the figures of hints that are gone."""
        known = {i.id for i in state.guidance}
        self._seen = {k: v for k, v in self._seen.items() if k in known}

    def state_dict(self) -> dict[str, Any]:
        return {item: {t: list(row) for t, row in rows.items()} for item, rows in self._seen.items()}

    def load_state_dict(self, data: Mapping[str, Mapping[str, Any]]) -> None:
        self._seen = {
            item: {t: [float(x) for x in row] for t, row in rows.items() if t in self._tasks}
            for item, rows in data.items()
        }


def positive_share(rubric: Rubric, rollout: Rollout) -> float | None:
    """Σ w·v / Σ w over the positive criteria with a verdict; the reward itself where there is none."""
    known = [
        (c.weight, v.value)
        for c in rubric.criteria
        if c.weight > 0 and (v := rollout.verdicts.get(c.id)) is not None and v.value is not None
    ]
    if not known:
        return rollout.reward
    return sum(w * v for w, v in known) / sum(w for w, _ in known)
