"""What the loss does with guided rollouts: importance ratios and group baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from rl_core.errors import InputError
from rl_core.rollout import advantages


@dataclass(frozen=True)
class GuidedLoss:
    """How a guided rollout y, drawn from π(·|x, hint) and trained on the plain prompt x, enters the gradient.

    The loss of a row is ``−A · mean_t log π(y_t|x)`` on policy, so its gradient is proportional to A.

    importance:
        ``truncated``: A is multiplied by c = exp(mean_t [log π(y_t|x) − log π(y_t|x, hint)]), clipped to
        [ratio_floor, ratio_cap]. c is a constant for the gradient. It is the length-normalised (geometric mean)
        importance ratio: the whole-sequence ratio would be e to the minus many nats and silence every hint.
        A guided answer that the policy can hardly reach without the hint moves the policy less. Still biased,
        less than ``none``; a cap of 1 only discounts.
        ``none``: A is left alone; the gradient imitates hinted answers as if they were on policy (RuscaRL's bias).
    ratio_floor, ratio_cap: bounds of c; floor 0 lets a row vanish, equal bounds fix c.
    baseline:
        ``shared``: TRL's group mean over guided and plain rollouts. When hints raise the reward, plain rollouts
        get negative advantages for a reason that is not their quality.
        ``separate``: mean (and sd) over guided and over plain rollouts of a group on their own; a part with one
        rewarded rollout gives advantage 0. The gradient then never compares a guided with a plain answer.
    """

    importance: Literal["truncated", "none"] = "truncated"
    ratio_cap: float = 1.0
    ratio_floor: float = 0.0
    baseline: Literal["shared", "separate"] = "shared"

    def __post_init__(self) -> None:
        for name, allowed in (("importance", ("truncated", "none")), ("baseline", ("shared", "separate"))):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"unknown value {getattr(self, name)!r}",
                    where="GuidedLoss",
                    field=name,
                    mend="choose one of: " + ", ".join(allowed),
                )
        if not 0 <= self.ratio_floor <= self.ratio_cap or not 0 < self.ratio_cap < math.inf:
            raise InputError(
                f"need 0 <= ratio_floor <= ratio_cap, got {self.ratio_floor} and {self.ratio_cap}",
                where="GuidedLoss",
                field="ratio_cap",
                mend="correct the bounds",
            )


def loss_of(harness: Any) -> GuidedLoss:
    """The ``guidance`` section of the harness's own config, when it has one; else the defaults.

    Read by attribute names: a harness of another make need not have a config.
    """
    section = getattr(getattr(harness, "config", None), "guidance", None)
    if section is None:
        return GuidedLoss()
    return GuidedLoss(**{f.name: getattr(section, f.name) for f in fields(GuidedLoss) if hasattr(section, f.name)})


def ratio(plain: float, guided: float, loss: GuidedLoss) -> float:
    """c of one guided rollout from its two mean log-probs (nats per token); 1 for ``importance: none``.

    Without finite log-probs nothing is known about the rollout, so it gets 0 and leaves the gradient.
    """
    if loss.importance == "none":
        return 1.0
    if not (math.isfinite(plain) and math.isfinite(guided)):
        return 0.0
    return min(max(math.exp(min(plain - guided, 700.0)), loss.ratio_floor), loss.ratio_cap)


def separate_advantages(
    rewards: Sequence[float | None],
    guided: Sequence[bool],
    group_size: int,
    *,
    scale: Literal["group", "batch", "none"],
) -> list[float]:
    """GRPO advantages with one baseline for guided and one for plain rollouts of each group.

    ``rewards`` and ``guided`` are row by row, groups one after the other. ``scale`` is TRL's ``scale_rewards``:
    the sd divides per part of a group, over the whole batch, or not at all.
    """
    out = [0.0] * len(rewards)
    for start in range(0, len(rewards), group_size):
        rows = range(start, min(start + group_size, len(rewards)))
        for part in (True, False):
            members = [i for i in rows if guided[i] is part]
            values = advantages([rewards[i] for i in members], scale=scale == "group")
            for i, a in zip(members, values, strict=True):
                out[i] = a
    if scale == "batch":
        known = [r for r in rewards if r is not None]
        if len(known) < 2:
            return [0.0] * len(rewards)
        mean = sum(known) / len(known)
        sd = math.sqrt(sum((r - mean) ** 2 for r in known) / (len(known) - 1))
        out = [a / (sd + 1e-4) for a in out]
    return out


def neutralise_vllm_correction(output: dict[str, Any], rows: Any) -> None:
    """Take guided ``rows`` (index tensor) out of TRL's vLLM correction, which would weigh them a second time.

    TRL compares vLLM's log-probs (under the hint) with its own (plain prompt) and would mask or shrink these
    rows; ``GuidedLoss`` alone decides about them.
    """
    weight = output.get("importance_sampling_ratio")
    if weight is not None:
        weight[rows] = 1.0
    sampled, old = output.get("sampling_per_token_logps"), output.get("old_per_token_logps")
    if sampled is not None and old is not None:
        sampled[rows] = old[rows]
