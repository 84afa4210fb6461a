"""Rollout and Group: what the policy answered and what it was worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rl_core.verdict import Verdict

Phase = Literal["train", "control", "probe", "eval"]


@dataclass(slots=True)
class Rollout:
    """One completion of one task.

    ``group_id`` names the group it was drawn in (one task, one step, one state version).
    ``guidance_id`` is None for a plain rollout. Log-probs are means per completion token
    in nats: ``logprob`` under the prompt it was generated with, ``logprob_plain`` under the
    unguided prompt; None when the loop cannot give them.
    """

    id: str
    task_id: str
    group_id: str
    step: int
    completion: str
    policy_version: int = 0
    harness_version: int = 0
    phase: Phase = "train"
    guidance_id: str | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    reward: float | None = None
    tokens: int = 0
    truncated: bool = False
    logprob: float | None = None
    logprob_plain: float | None = None


@dataclass(slots=True)
class Group:
    """The G rollouts of one task drawn together: the unit of GRPO's baseline."""

    id: str
    task_id: str
    step: int
    rollouts: list[Rollout]

    @property
    def rewards(self) -> list[float | None]:
        return [r.reward for r in self.rollouts]


def groups_of(rollouts: Iterable[Rollout]) -> list[Group]:
    """Groups in order of first appearance."""
    out: dict[str, Group] = {}
    for r in rollouts:
        g = out.get(r.group_id)
        if g is None:
            out[r.group_id] = g = Group(r.group_id, r.task_id, r.step, [])
        g.rollouts.append(r)
    return list(out.values())


def advantages(rewards: Sequence[float | None], *, scale: bool = True, eps: float = 1e-4) -> list[float]:
    """GRPO advantages ``(r − mean) / (sd + eps)`` (arXiv 2402.03300; eps as in TRL).

    Rollouts without a reward are left out of mean and sd and get advantage 0.
    """
    known = [r for r in rewards if r is not None]
    if len(known) < 2:
        return [0.0] * len(rewards)
    mean = sum(known) / len(known)
    var = sum((r - mean) ** 2 for r in known) / (len(known) - 1)
    sd = var**0.5
    return [0.0 if r is None else (r - mean) / ((sd + eps) if scale else 1.0) for r in rewards]
