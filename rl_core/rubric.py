"""Criterion, Rubric and the named aggregations that turn verdicts into one reward.

The same verdicts give different rewards under the published rules, so the rule is
part of the rubric and is logged. Missing verdicts are never counted as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rl_core.verdict import Verdict

Aggregation = Literal["positive_sum", "absolute_sum", "inverted_negatives", "category_mean", "levels_mean"]

#: A reward is withheld when more than this share of the absolute weight has no verdict.
MAX_MISSING_WEIGHT = 0.25


class JudgeRoute(BaseModel):
    """The criterion is read by the configured judge."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["judge"] = "judge"


class CheckRoute(BaseModel):
    """The criterion is decided by a registered deterministic check (``rl_core.judge.checks``)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["check"] = "check"
    name: str
    params: dict[str, str | int | float | bool | list[str] | None] = Field(default_factory=dict)


Route = Annotated[JudgeRoute | CheckRoute, Field(discriminator="kind")]


class Criterion(BaseModel):
    """One yes/no (or graded) requirement with a signed weight.

    ``family`` names what the criterion has in common across tasks (``category`` when it
    is set, else the id): a global re-weighting speaks of families.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1, max_length=120)
    text: str = Field(min_length=1, max_length=2000)
    weight: float = 1.0
    kind: Literal["binary", "graded"] = "binary"
    levels: tuple[str, ...] = ()
    category: str | None = None
    tags: tuple[str, ...] = ()
    route: Route = Field(default_factory=JudgeRoute)
    protected: bool = False
    origin: str = "task"
    version: int = 1

    @model_validator(mode="after")
    def _sound(self) -> Criterion:
        if not math.isfinite(self.weight) or self.weight == 0:
            raise ValueError(f"criterion {self.id!r}: weight must be finite and not 0 (retire the criterion instead)")
        if self.kind == "graded" and len(self.levels) < 2:
            raise ValueError(f"criterion {self.id!r}: a graded criterion needs at least 2 ordered levels")
        return self

    @property
    def family(self) -> str:
        return self.category or self.id


class Rubric(BaseModel):
    """Ordered criteria and the rule that aggregates their verdicts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    criteria: tuple[Criterion, ...] = Field(min_length=1)
    aggregation: Aggregation = "inverted_negatives"

    @model_validator(mode="after")
    def _sound(self) -> Rubric:
        seen: set[str] = set()
        for c in self.criteria:
            if c.id in seen:
                raise ValueError(f"duplicate criterion id {c.id!r}")
            seen.add(c.id)
        if self.aggregation == "positive_sum" and not any(c.weight > 0 for c in self.criteria):
            raise ValueError("aggregation 'positive_sum' needs a criterion with positive weight")
        return self

    def __getitem__(self, criterion_id: str) -> Criterion:
        for c in self.criteria:
            if c.id == criterion_id:
                return c
        raise KeyError(criterion_id)

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.family for c in self.criteria))


def aggregate(rubric: Rubric, values: Mapping[str, float], weights: Mapping[str, float] | None = None) -> float:
    """Reward of one completion from criterion values in [0, 1].

    ``values`` must hold every criterion that is to count; criteria without a value are
    left out of numerator and denominator (``group_rewards`` decides when that is allowed).

    - ``positive_sum``: Σ w·v / Σ⁺ w (HealthBench; may be negative)
    - ``absolute_sum``: Σ w·v / Σ |w| (open-instruct)
    - ``inverted_negatives``: (Σ⁺ w·v + Σ⁻ |w|·(1 − v)) / Σ |w| (arXiv 2605.12474)
    - ``category_mean``: mean over categories of ``inverted_negatives`` (POW3R, arXiv 2605.20164)
    - ``levels_mean``: mean of v, weights ignored but for their sign (graded sets)
    """
    present = [
        (c, (weights or {}).get(c.id, c.weight), values[c.id])
        for c in rubric.criteria
        if c.id in values and (weights or {}).get(c.id, c.weight) != 0
    ]
    if not present:
        raise ValueError("no criterion has a value")
    rule = rubric.aggregation
    if rule == "positive_sum":
        positive = sum(w for _, w, _ in present if w > 0)
        if positive == 0:
            raise ValueError("no criterion with positive weight has a value")
        return sum(w * v for _, w, v in present) / positive
    if rule == "absolute_sum":
        return sum(w * v for _, w, v in present) / sum(abs(w) for _, w, _ in present)
    if rule == "inverted_negatives":
        return _inverted((w, v) for _, w, v in present)
    if rule == "levels_mean":
        return sum(v if w > 0 else 1 - v for _, w, v in present) / len(present)
    by_category: dict[str, list[tuple[float, float]]] = {}
    for c, w, v in present:
        by_category.setdefault(c.category or "", []).append((w, v))
    return sum(_inverted(part) for part in by_category.values()) / len(by_category)


def _inverted(pairs: Iterable[tuple[float, float]]) -> float:
    total = got = 0.0
    for w, v in pairs:
        total += abs(w)
        got += w * v if w > 0 else -w * (1 - v)
    return got / total


def group_rewards(rubric: Rubric, verdicts: Sequence[Mapping[str, Verdict]]) -> list[float | None]:
    """Rewards of one group (all rollouts of one task drawn together), None where withheld.

    A rollout gets no reward when a negative or protected criterion, or more than 25 % of
    the absolute weight, has no verdict. A criterion with a gap in any rollout that is still
    rewarded is dropped for the whole group, so that a gap never makes spread.
    """
    total = sum(abs(c.weight) for c in rubric.criteria)
    usable: list[bool] = []
    for row in verdicts:
        missing = [c for c in rubric.criteria if c.id not in row or row[c.id].value is None]
        lost = sum(abs(c.weight) for c in missing)
        usable.append(not any(c.weight < 0 or c.protected for c in missing) and lost <= MAX_MISSING_WEIGHT * total)
    kept = [
        c
        for c in rubric.criteria
        if all(c.id in row and row[c.id].value is not None for row, ok in zip(verdicts, usable, strict=True) if ok)
    ]
    lost = total - sum(abs(c.weight) for c in kept)
    undefined = rubric.aggregation == "positive_sum" and not any(c.weight > 0 for c in kept)
    if not kept or undefined or lost > MAX_MISSING_WEIGHT * total:
        return [None] * len(verdicts)
    out: list[float | None] = []
    for row, ok in zip(verdicts, usable, strict=True):
        if not ok:
            out.append(None)
            continue
        values = {c.id: v for c in kept if (v := row[c.id].value) is not None}
        out.append(aggregate(rubric, values))
    return out


def spread_tolerance(rubric: Rubric) -> float:
    """Largest reward spread that still counts as none: half the smallest step one verdict can make."""
    total = sum(abs(c.weight) for c in rubric.criteria)
    smallest = min(abs(c.weight) / (max(len(c.levels) - 1, 1)) for c in rubric.criteria)
    return max(0.5 * smallest / total, 1e-9)
