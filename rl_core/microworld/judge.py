"""The microworld's training judge (checks, with planted flips) and its reference (gold plus noise)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from rl_core.judge.checks import Scorer
from rl_core.microworld.world import World
from rl_core.rubric import Rubric
from rl_core.task import Task
from rl_core.verdict import Verdict

#: Standard deviation of the reference judge around gold.
REFERENCE_NOISE = 0.05


def _unit(*parts: object) -> float:
    """Uniform number in [0, 1) that depends only on the parts."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") / 2**64


class MicroworldScorer(Scorer):
    """Checks whose verdicts flip at the world's rate; a repeated run flips the same ones."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def verdicts(self, task: Task, completions: Sequence[str], rubric: Rubric) -> list[dict[str, Verdict]]:
        rows = super().verdicts(task, completions, rubric)
        rate = self._world.flip_rate(task.domain)
        if rate <= 0:
            return rows
        out = []
        for i, (row, text) in enumerate(zip(rows, completions, strict=True)):
            flipped = {}
            for cid, v in row.items():
                flip = v.value is not None and _unit(self._world.seed, task.id, cid, text, i) < rate
                flipped[cid] = Verdict(1.0 - v.value) if flip and v.value is not None else v
            out.append(flipped)
        return out


class MicroworldReference:
    """Gold plus Gaussian noise, clipped to [0, 1]; the same answer gets the same value."""

    name = "microworld"

    def __init__(self, world: World, noise: float = REFERENCE_NOISE) -> None:
        self._world, self._noise = world, noise

    def values(self, task: Task, completions: Sequence[str]) -> list[float | None]:
        out: list[float | None] = []
        for text in completions:
            # sum of 12 uniforms: a normal deviate that needs no generator state
            z = sum(_unit(self._world.seed, "reference", task.id, text, j) for j in range(12)) - 6.0
            out.append(min(max(self._world.gold(task.id, text) + self._noise * z, 0.0), 1.0))
        return out
