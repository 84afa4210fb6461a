"""LoopHarness: what a training loop needs of a harness, as a Protocol (rl_core does not import harness_agents)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from rl_core.policy import FrozenPolicy, Prompt
from rl_core.rollout import Rollout
from rl_core.state import HarnessState
from rl_core.task import Task, TaskSet
from rl_core.verdict import Verdict


class GuidedPromptLike(Protocol):
    """One rollout's prompts: drawn under ``generate_with``, trained under ``train_on``."""

    @property
    def generate_with(self) -> Prompt: ...
    @property
    def train_on(self) -> Prompt: ...
    @property
    def guidance_id(self) -> str | None: ...


class ScoredLike(Protocol):
    """Reward (None: withheld) and verdicts of one rollout."""

    @property
    def reward(self) -> float | None: ...
    @property
    def verdicts(self) -> Mapping[str, Verdict]: ...


class OutcomeLike(Protocol):
    """What came of one harness update; ``error`` is None unless it failed."""

    @property
    def error(self) -> str | None: ...


@runtime_checkable
class LoopHarness(Protocol):
    """The calls of a loop, in this order: draw, guide, (generate), score, observe; checkpoint when due.

    ``draw`` and ``guide`` are pure functions of (seed, step, state): a resumed loop gets the same tasks.
    ``checkpoint`` never raises; a failed update leaves the state as it was and says so in ``error``.
    """

    @property
    def state(self) -> HarnessState: ...
    @property
    def tasks(self) -> TaskSet: ...
    def draw(self, n: int, step: int) -> list[Task]: ...
    def guide(self, tasks: Sequence[Task], group_size: int, step: int) -> Sequence[Sequence[GuidedPromptLike]]: ...
    def score(
        self, tasks: Sequence[Task], completions: Sequence[Sequence[str]], version: int | None = None
    ) -> Sequence[Sequence[ScoredLike]]: ...
    def observe(self, rollouts: Sequence[Rollout]) -> None: ...
    def due(self, step: int) -> bool: ...
    def checkpoint(self, step: int, policy: FrozenPolicy) -> OutcomeLike: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, d: dict[str, Any]) -> None: ...
    def counts(self) -> Mapping[str, Any]: ...
