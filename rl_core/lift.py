r"""Lift: what a group of rollouts would teach, measured in reference value.

Tilting the policy along the advantages, π' ∝ π·exp(η·A), changes the expected reference
value at first order by η·E[c·A·(Ref − mean Ref)], with c the (truncated) importance ratio of
a rollout drawn under a hint. We estimate the expectation by the mean over the group:

    lift = mean_i c_i · A_i · (Ref_i − mean Ref)

With standardised A and no hints this is corr(R, Ref)·sd(Ref), inside [−1/2, 1/2]. A dead
group gives 0; judge noise and shortcuts that the reference does not value add nothing; an
inverted criterion is negative.
"""

from __future__ import annotations

from collections.abc import Sequence

from rl_core.rollout import advantages


def lift(
    rewards: Sequence[float | None], reference: Sequence[float | None], ratios: Sequence[float] | None = None
) -> float | None:
    """Lift of one group (all sequences of length G), or None with fewer than 2 reference values.

    Rollouts without a reward have advantage 0; rollouts without a reference value are left out.
    """
    adv = advantages(rewards)
    ratio = ratios if ratios is not None else [1.0] * len(adv)
    rows = [(a, c, ref) for a, c, ref in zip(adv, ratio, reference, strict=True) if ref is not None]
    if len(rows) < 2:
        return None
    mean = sum(ref for _, _, ref in rows) / len(rows)
    return sum(c * a * (ref - mean) for a, c, ref in rows) / len(rows)
