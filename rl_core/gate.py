r"""The gate: accept an edit only when paired evidence on the frozen policy says it helps.

Evidence is an e-process in x = d − δ0, d = lift(candidate) − lift(current) ∈ [−1, 1]. It may be
looked at after every pair: under the null P(sup E ≥ 1/α) ≤ α (Ville's inequality).

- ``self_normalised``: mean over λ of exp(λ·Σx − λ²/2·Σx²), valid when x is symmetric about a
  mean ≤ 0 (de la Peña 1999; Howard et al. 2020). Scale-free and quick, but wrong when an edit
  gains a little often and loses much rarely; so never below ``min_pairs`` and never against
  the betting form (E_b < 1).
- ``betting``: mean over λ of Π(1 + λ·x), λ < 1/(1 + δ0): valid for every bounded null
  (Waudby-Smith & Ramdas 2024); needs about three times the pairs.

Thresholds: 1/α per edit, or T/(α·(1 + A)) over a run of T planned tests with A acceptances so
far (e-LOND, Xu & Ramdas 2024). Stopping for futility costs no error and uses no evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from rl_core.probe import GROUPS_OF_KEY, Pair

Form = Literal["self_normalised", "betting"]
Status = Literal["accepted", "rejected", "inconclusive"]

_LAMBDA_SELF = np.geomspace(0.5, 40.0, 12)
_LAMBDA_BET = np.linspace(0.05, 0.95, 12)
#: Pairs before the first look for futility; until ``min_pairs`` only a clearly hopeless edit is stopped.
EARLY_LOOK = 10
#: Points kept of the e-value path for the report.
PATH_POINTS = 64


def log_e_value(xs: np.ndarray, form: Form, margin: float = 0.0) -> float:
    """log of the mixture e-value of all pairs so far; 0 for no pairs."""
    if not len(xs):
        return 0.0
    if form == "self_normalised":
        logs = _LAMBDA_SELF * xs.sum() - 0.5 * _LAMBDA_SELF**2 * (xs**2).sum()
    else:
        lambdas = _LAMBDA_BET / (1.0 + margin)
        logs = np.log1p(np.outer(lambdas, np.clip(xs, -(1.0 + margin), 1.0 + margin))).sum(1)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).mean()))


@dataclass(frozen=True)
class AcceptanceRule:
    """How much evidence an edit needs. ``margin`` is δ0; negative for a non-inferiority test."""

    mode: Literal["per_edit", "run_wise"] = "per_edit"
    form: Form = "self_normalised"
    alpha: float = 0.05
    planned_tests: int = 16
    accepted_so_far: int = 0
    margin: float = 0.0
    min_pairs: int = 24
    max_pairs: int = 60

    @property
    def threshold(self) -> float:
        if self.mode == "per_edit":
            return 1.0 / self.alpha
        return self.planned_tests / (self.alpha * (1 + self.accepted_so_far))


@dataclass
class Decision:
    """What the gate decided, why, and the figures behind it (ledger format)."""

    status: Status
    reason: str
    figures: dict[str, Any]
    carry: dict[str, Any] = field(default_factory=dict)


def decide(pairs: Iterable[Pair], rule: AcceptanceRule, *, carried: Mapping[str, Any] | None = None) -> Decision:
    """Take pairs one by one until the evidence decides, hope is gone, or the pairs or the cap run out.

    ``carried`` is the ``carry`` of an earlier inconclusive decision on the same edit: its pairs count
    on, and a (group, edit) pair counts once. ``max_pairs`` bounds the pairs that are added now. An edit
    whose source of pairs fails is inconclusive.
    """
    ds: list[float] = list((carried or {}).get("ds", []))
    keys: list[str] = list((carried or {}).get("keys", []))
    seen = {group for key in keys for group in key.split(GROUPS_OF_KEY)}
    current: list[float] = list((carried or {}).get("current", []))
    path: list[float] = []
    log_threshold = math.log(rule.threshold)
    status: Status | None = None
    why = ""
    failure = ""
    source = iter(pairs)
    cap = len(ds) + rule.max_pairs
    while status is None and len(ds) < cap:
        try:
            pair = next(source, None)
        except Exception as e:  # a backend that fails is a reason to stop, never to accept
            failure = f"{e.__class__.__name__}: {e}"[:200]
            break
        if pair is None:
            break
        groups = pair.key.split(GROUPS_OF_KEY)
        if not seen.isdisjoint(groups):
            continue
        if not (math.isfinite(pair.d) and math.isfinite(pair.current)):
            failure = "a lift is not a finite number"
            break
        seen.update(groups)
        keys.append(pair.key)
        ds.append(pair.d)
        current.append(pair.current)
        xs = np.asarray(ds) - rule.margin
        log_e = log_e_value(xs, rule.form, rule.margin)
        path.append(log_e)
        status, why = _look(xs, log_e, log_threshold, rule, cap)
    xs = np.asarray(ds) - rule.margin
    log_e = log_e_value(xs, rule.form, rule.margin)
    if status is None:
        hopeful = len(ds) < 2 or _projected(xs, cap + rule.max_pairs, rule, spread=1.0) >= log_threshold
        if failure:
            status, why = "inconclusive", f"the probe failed ({failure})"
        elif len(ds) < cap:
            status, why = "inconclusive", "no more pairs to test on"
        elif hopeful:
            status, why = "inconclusive", "the cap on pairs was reached"
        else:
            status, why = "rejected", "futility at the cap on pairs"
    figures = _figures(np.asarray(ds), current, log_e, path, rule)
    reason = (
        f"{status}: lift {figures['lift_current']:+.3f} to {figures['lift_candidate']:+.3f} a rollout, "
        f"E = {figures['e_value']:.3g} of {rule.threshold:.3g} needed after {len(ds)} pairs"
        + (f", {why}" if why else "")
    )
    carry = {"ds": ds, "keys": keys, "current": current} if status == "inconclusive" else {}
    return Decision(status, reason, figures, carry)


def _look(
    xs: np.ndarray, log_e: float, log_threshold: float, rule: AcceptanceRule, cap: int
) -> tuple[Status | None, str]:
    n = len(xs)
    if log_e >= log_threshold and (
        rule.form == "betting" or (n >= rule.min_pairs and log_e_value(xs, "betting", rule.margin) >= 0.0)
    ):
        return "accepted", ""
    if log_e_value(-xs, rule.form, rule.margin) >= log_threshold:
        return "rejected", "harm"
    if n >= cap:  # what is still hopeful then goes on at the next update
        return None, ""
    if n >= rule.min_pairs and _projected(xs, cap, rule, spread=1.0) < log_threshold:
        return "rejected", "futility"
    if n >= EARLY_LOOK and _projected(xs, cap, rule, spread=2.5) < log_threshold:
        return "rejected", "futility"
    return None, ""


def _projected(xs: np.ndarray, n: int, rule: AcceptanceRule, *, spread: float) -> float:
    """log e-value at ``n`` pairs if the rest came at the mean seen plus ``spread`` standard errors."""
    have = len(xs)
    if have < 2 or n <= have:
        return log_e_value(xs, rule.form, rule.margin)
    sd = float(xs.std(ddof=1))
    mean = float(xs.mean()) + spread * sd / math.sqrt(have)
    more = n - have
    sides = np.where(np.arange(more) % 2, 1.0, -1.0)
    sides[more - more % 2 :] = 0.0  # an odd one out stands at the mean itself
    ahead = np.concatenate([xs, mean + sd * sides])
    return log_e_value(np.clip(ahead, -1.0 - rule.margin, 1.0 - rule.margin), rule.form, rule.margin)


def _figures(
    ds: np.ndarray, current: list[float], log_e: float, path: list[float], rule: AcceptanceRule
) -> dict[str, Any]:
    n = len(ds)
    base = float(np.mean(current)) if n else 0.0
    mean = float(ds.mean()) if n else 0.0
    interval = [-1.0, 1.0]
    if n >= 2:  # for display only: with few tasks a bootstrap interval is anti-conservative
        rng = np.random.default_rng(n)
        means = ds[rng.integers(0, n, (400, n))].mean(1)
        interval = [float(q) for q in np.quantile(means, [0.025, 0.975])]
    kept = range(len(path)) if len(path) <= PATH_POINTS else np.linspace(0, len(path) - 1, PATH_POINTS).astype(int)
    return {
        "pairs": n,
        "mean_d": mean,
        "sd_d": float(ds.std(ddof=1)) if n > 1 else 0.0,
        "lift_current": base,
        "lift_candidate": base + mean,
        "e_value": math.exp(min(log_e, 60.0)),
        "threshold": rule.threshold,
        "interval": interval,
        "e_path": [math.exp(min(path[i], 60.0)) for i in kept],
        "form": rule.form,
        "mode": rule.mode,
        "margin": rule.margin,
    }
