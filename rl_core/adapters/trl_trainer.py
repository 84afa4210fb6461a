"""HarnessGRPOTrainer: GRPOTrainer with a harness from the start (imports trl; reached through adapters.trl)."""

from __future__ import annotations

from typing import Any

from trl import GRPOTrainer

from rl_core.adapters.guided_loss import GuidedLoss, loss_of
from rl_core.adapters.loop import LoopHarness
from rl_core.adapters.reward import RubricReward
from rl_core.adapters.trl import (
    AttachOptions,
    HarnessMixin,
    _install_reward,
    _refuse_unsupported,
    agree,
    harness_dataset,
    options_of,
)
from rl_core.task import TaskSet


class HarnessGRPOTrainer(HarnessMixin, GRPOTrainer):
    """``GRPOTrainer`` whose reward function and data set come from ``harness`` unless given.

    Raises InputError as ``attach`` does.
    """

    def __init__(
        self,
        harness: LoopHarness,
        *args: Any,
        loss: GuidedLoss | None = None,
        options: AttachOptions | None = None,
        eval_tasks: TaskSet | None = None,
        reward_funcs: Any = None,
        train_dataset: Any = None,
        **kwargs: Any,
    ) -> None:
        if reward_funcs is None:
            reward_funcs = RubricReward(harness, tasks=eval_tasks)
        if train_dataset is None:
            train_dataset = harness_dataset(harness)
        super().__init__(*args, reward_funcs=reward_funcs, train_dataset=train_dataset, **kwargs)
        loss = loss or loss_of(harness)
        _refuse_unsupported(self, loss)
        agree(self, harness)
        reward = _install_reward(self, harness, None, eval_tasks)
        self._install_harness(harness, reward, loss, options or options_of(harness))
