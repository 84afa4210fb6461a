"""Slow: the world leaves room to tell arms apart (about 5 minutes on 2 cores).

The oracle is the same trainer with gold as its reward; static GRPO trains on the rubrics as they are.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from rl_core.judge.checks import Scorer
from rl_core.microworld.world import World
from rl_core.rubric import Rubric, group_rewards
from rl_core.task import Task
from rl_core.verdict import Verdict

SEEDS = (0, 1)
ROOM = 0.20


class GoldScorer(Scorer):
    """Every criterion reads gold, so the reward is gold whatever the weights."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def verdicts(self, task: Task, completions: Sequence[str], rubric: Rubric) -> list[dict[str, Verdict]]:
        return [{c.id: Verdict.of(self._world.gold(task.id, text)) for c in rubric.criteria} for text in completions]


def test_the_oracle_is_paid_gold() -> None:
    world = World(SEEDS[0])
    for task in list(world.tasks)[::20]:
        texts = [" ".join(world.truth(task.id).facts[:k]) for k in range(4)]
        rewards = group_rewards(task.rubric, GoldScorer(world).verdicts(task, texts, task.rubric))
        assert rewards == pytest.approx([world.gold(task.id, t) for t in texts])


def train(seed: int, oracle: bool, folder: str) -> tuple[float, float]:
    """Gold on held-out tasks before and after training with the demo's settings and no harness update."""
    os.environ["OMP_NUM_THREADS"] = "1"
    from harness_agents.demo import demo_config
    from harness_agents.train import run_training

    world = World(seed)
    summary = run_training(
        demo_config(seed, harness=False),
        out=Path(folder),
        judge=GoldScorer(world) if oracle else None,
        report=False,
    )
    return summary["gold_first"], summary["gold_last"]


@pytest.mark.slow
def test_the_oracle_ends_well_above_static_grpo(tmp_path: Path) -> None:
    arms = [(seed, oracle) for seed in SEEDS for oracle in (True, False)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        ends = pool.map(train, *zip(*arms, strict=True), [str(tmp_path / f"{s}-{o}") for s, o in arms])
        gold = dict(zip(arms, ends, strict=True))
    for (seed, oracle), (first, last) in gold.items():
        print(f"seed {seed}, {'oracle' if oracle else 'static'}: gold {first:.3f} to {last:.3f}")
    for seed in SEEDS:
        assert gold[seed, True][0] == pytest.approx(gold[seed, False][0])  # the same start
        assert gold[seed, True][1] >= gold[seed, False][1] + ROOM
