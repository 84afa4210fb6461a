"""Draw tasks from the current weights: a pure function of (seed, counter, state)."""

from __future__ import annotations

import numpy as np

from rl_core.state import HarnessState
from rl_core.task import Task, TaskSet


def stream(seed: int, *names: int | str) -> np.random.Generator:
    """Independent random stream for a purpose; no hidden global state."""
    import hashlib

    digest = hashlib.sha256("/".join(map(str, (seed, *names))).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def draw(state: HarnessState, tasks: TaskSet, n: int, *, seed: int, counter: int) -> list[Task]:
    """``n`` tasks for one generation batch, without replacement while there are enough of them.

    ``counter`` is the number of the draw (a training step). Same arguments, same tasks, on every rank.
    """
    probability = state.sampler.distribution(tasks)
    ids = list(probability)
    p = np.fromiter(probability.values(), float, len(ids))
    p /= p.sum()
    rng = stream(seed, "draw", counter)
    picked = rng.choice(len(ids), size=n, replace=n > len(ids), p=p)
    return [tasks[ids[i]] for i in picked]
