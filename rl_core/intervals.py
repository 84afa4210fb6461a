"""Intervals and tests that cluster by task, in plain numpy.

Rollouts of one task resemble each other, so a plain Wilson interval covers far less than it
says. Everything here takes one sum per task (the cluster) and uses

- the ratio estimator r = Σy/Σm with the cluster-robust variance
  K/(K−1) · Σ(y_k − r·m_k)² / (Σm)² (Cochran 1977, Sampling Techniques, ch. 6 and 9A; also
  Liang & Zeger 1986) and a t quantile with K − 1 degrees of freedom;
- for a correlation the same with the linearised influence of each task (Binder 1983).

With fewer than ``MIN_TASKS`` tasks nothing is known: the interval is the whole range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

Array = NDArray[np.float64]

#: Below this many tasks an interval is the whole range and a p value is 1.
MIN_TASKS = 3


class Estimate(BaseModel):
    """A figure with its 95 % interval, its support (rows, groups or pairs) and the number of tasks behind it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    value: float | None
    low: float
    high: float
    n: int = 0
    tasks: int = 0

    def __str__(self) -> str:
        if self.value is None:
            return f"unknown (n {self.n})"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}] (n {self.n}, {self.tasks} tasks)"


@dataclass(frozen=True)
class Fit:
    """A point estimate with the standard error of its task-clustered distribution.

    ``bounds``: the range the figure can take. A standard error of 0 inside the range means
    that it could not be estimated: the interval is the whole range and the p value 1. At an end of
    the range (every task agrees) the exact binomial bound over tasks is used instead.
    """

    value: float | None
    se: float
    n: int
    tasks: int
    bounds: tuple[float, float] = (0.0, 1.0)

    def estimate(self) -> Estimate:
        lo, hi = self.bounds
        if self.value is None or self.tasks < MIN_TASKS:
            return Estimate(value=self.value, low=lo, high=hi, n=self.n, tasks=self.tasks)
        if self.se > 0:
            half = t_quantile(0.975, self.tasks - 1) * self.se
            low, high = max(lo, self.value - half), min(hi, self.value + half)
        else:
            edge = (hi - lo) * (1 - 0.025 ** (1 / self.tasks))
            low = hi - edge if self.value >= hi else lo
            high = lo + edge if self.value <= lo else hi
        return Estimate(value=self.value, low=low, high=high, n=self.n, tasks=self.tasks)

    def p_above(self, floor: float) -> float:
        """One-sided p value against "the true figure is at most ``floor``"."""
        if self.value is None or self.tasks < MIN_TASKS:
            return 1.0
        if self.se > 0:
            return t_upper((self.value - floor) / self.se, self.tasks - 1)
        lo, hi = self.bounds
        return float(((floor - lo) / (hi - lo)) ** self.tasks) if self.value >= hi else 1.0

    def p_below(self, ceiling: float) -> float:
        """One-sided p value against "the true figure is at least ``ceiling``"."""
        lo, hi = self.bounds
        mirrored = None if self.value is None else -self.value
        return Fit(mirrored, self.se, self.n, self.tasks, (-hi, -lo)).p_above(-ceiling)


def cluster_ratio(
    y: Array, m: Array, *, n: int | None = None, bounds: tuple[float, float] = (0.0, 1.0), binary: bool = True
) -> Fit:
    """Σy/Σm over tasks; ``y``, ``m``: shape [tasks], tasks with m = 0 are left out.

    ``binary``: the rows are 0/1, and the variance is not taken below that of independent rows
    (a handful of tasks can agree by chance).
    """
    used = m > 0
    y, m = y[used], m[used]
    k, total = len(m), float(m.sum())
    support = round(total) if n is None else n
    if k == 0:
        return Fit(None, 0.0, support, 0, bounds)
    lo, hi = bounds
    r = min(max(float(y.sum()) / total, lo), hi)
    if k < MIN_TASKS:
        return Fit(r, 0.0, support, k, bounds)
    var = k / (k - 1) * float(((y - r * m) ** 2).sum()) / total**2
    if binary and lo < r < hi:
        var = max(var, r * (1 - r) / total)
    # Rounding can leave a variance of 1e-34 where every task agrees.
    return Fit(r, math.sqrt(var) if var > 1e-18 else 0.0, support, k, bounds)


@dataclass(frozen=True)
class Correlation:
    """Pooled correlation of two variables that were centred within groups; ``influence``: one per task."""

    fit: Fit
    influence: Array


def cluster_correlation(sxy: Array, sxx: Array, syy: Array, *, n: int) -> Correlation:
    """Σsxy / √(Σsxx·Σsyy) with task-clustered standard error.

    Inputs are per-task sums of products, shape [tasks]. Only tasks in which a variable varies count.
    """
    live = (sxx > 1e-15) | (syy > 1e-15)
    both = int(((sxx > 1e-15) & (syy > 1e-15)).sum())
    xx, yy = float(sxx.sum()), float(syy.sum())
    if xx <= 1e-12 or yy <= 1e-12:
        return Correlation(Fit(None, 0.0, n, 0, (-1.0, 1.0)), np.zeros_like(sxy))
    scale = math.sqrt(xx * yy)
    r = min(max(float(sxy.sum()) / scale, -1.0), 1.0)
    influence = (sxy - 0.5 * r * (sxx * math.sqrt(yy / xx) + syy * math.sqrt(xx / yy))) / scale
    k = int(live.sum())
    var = k / (k - 1) * float((influence**2).sum()) if k > 1 else 0.0
    se = math.sqrt(var) if var > 1e-18 else 0.0
    return Correlation(Fit(r, se, n, both, (-1.0, 1.0)), influence)


def correlation_difference(a: Correlation, b: Correlation) -> Fit:
    """a − b measured on the same rows; bounds ±2."""
    if a.fit.value is None or b.fit.value is None:
        return Fit(None, 0.0, a.fit.n, 0, (-2.0, 2.0))
    e = a.influence - b.influence
    k = min(a.fit.tasks, b.fit.tasks)
    var = k / (k - 1) * float((e**2).sum()) if k > 1 else 0.0
    return Fit(a.fit.value - b.fit.value, math.sqrt(var), a.fit.n, k, (-2.0, 2.0))


def holm(p_values: Sequence[float]) -> list[float]:
    """Step-down adjusted p values (Holm 1979): reject where adjusted <= alpha, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    out = [1.0] * len(p_values)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[i]))
        out[i] = running
    return out


def binomial_upper(count: int, trials: int, p: float) -> float:
    """P(X >= count) for X ~ Binomial(trials, p)."""
    if count <= 0:
        return 1.0
    if count > trials:
        return 0.0
    return _beta_inc(float(count), float(trials - count + 1), p)


def t_upper(t: float, df: int) -> float:
    """P(T > t) of Student's t."""
    tail = 0.5 * _beta_inc(df / 2, 0.5, df / (df + t * t))
    return tail if t >= 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t for p > 0.5, by bisection."""
    lo, hi = 0.0, 1e3
    for _ in range(80):
        mid = (lo + hi) / 2
        lo, hi = (mid, hi) if t_upper(mid, df) > 1 - p else (lo, mid)
    return (lo + hi) / 2


def _beta_inc(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b) by its continued fraction (DLMF 8.17.22)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast only on this side
        return 1 - _beta_inc(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    h = d
    for m in range(1, 400):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + top * d
            c = 1 + top / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            h *= d * c
        if abs(d * c - 1) < 1e-14:
            break
    return front * h
