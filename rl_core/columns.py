"""Rollouts as numpy columns: one row per rollout, one entry per (rollout, criterion family)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_core.errors import InputError
from rl_core.rollout import Rollout
from rl_core.rubric import Rubric, aggregate, spread_tolerance
from rl_core.state import HarnessState
from rl_core.task import TaskSet

F = NDArray[np.float64]
I = NDArray[np.int64]  # noqa: E741
B = NDArray[np.bool_]


def tally(of: I, x: NDArray[Any], n: int = 0) -> F:
    """Sum of ``x`` in each of the cells ``of``; at least ``n`` cells."""
    return np.asarray(np.bincount(of, x, n), np.float64)


@dataclass
class Columns:
    """Rows are sorted by group, groups by step. Shapes: rows [N], groups [G], tasks [T], entries [E].

    An entry's ``value`` is the verdict oriented by the sign of the weight (met penalty = 0), NaN
    where there is none; ``part`` is what it adds to the rubric's score of that rollout.
    """

    rollouts: list[Rollout]
    domains: list[str]
    families: list[str]
    task_ids: list[str]
    task_domain: I
    reward: F
    reference: F
    group: I
    group_start: I
    group_task: I
    e_row: I
    e_family: I
    e_value: F
    e_raw: F
    e_part: F
    e_missing: F
    e_sign: F
    e_weight: F
    tolerance: F
    worst: F
    best: F

    @property
    def row_task(self) -> I:
        return self.group_task[self.group]


def build_columns(
    rollouts: Sequence[Rollout], tasks: TaskSet, state: HarnessState, reference: Mapping[str, float] | None
) -> Columns:
    """Of rollouts with the same id the last counts. Raises InputError for an unknown task or an empty list."""
    unique = list({r.id: r for r in rollouts}.values())
    if not unique:
        raise InputError("no rollouts to diagnose", field="rollouts", mend="pass the rollouts of at least one group")
    first: dict[tuple[str, str], int] = {}
    for r in unique:
        key = (r.group_id, r.task_id)
        if key not in first or r.step < first[key]:
            first[key] = r.step
    group_order = {key: i for i, key in enumerate(sorted(first, key=lambda k: first[k]))}
    unique.sort(key=lambda r: group_order[(r.group_id, r.task_id)])

    task_index: dict[str, int] = {}
    family_index: dict[str, int] = {}
    domain_index: dict[str, int] = {}
    task_domain: list[int] = []
    bounds: list[tuple[float, float, float]] = []
    plans: list[list[tuple[str, int, float, float, float]]] = []
    for _, task_id in group_order:
        if task_id in task_index:
            continue
        if task_id not in tasks:
            raise InputError(
                f"a rollout names the unknown task {task_id!r}",
                field="task_id",
                mend="pass the task set the rollouts were drawn from",
            )
        task = tasks[task_id]
        task_index[task_id] = len(task_index)
        task_domain.append(domain_index.setdefault(task.domain, len(domain_index)))
        rubric = state.rubric_for(task)
        slopes, worst, best = _slopes(rubric)
        bounds.append((spread_tolerance(rubric), worst, best))
        total = sum(abs(c.weight) for c in rubric.criteria)
        plans.append(
            [
                (
                    c.id,
                    family_index.setdefault(c.family, len(family_index)),
                    1.0 if c.weight > 0 else -1.0,
                    slopes[c.id],
                    abs(c.weight) / total,
                )
                for c in rubric.criteria
            ]
        )

    n = len(unique)
    group = np.fromiter((group_order[(r.group_id, r.task_id)] for r in unique), np.int64, n)
    row_task = [task_index[r.task_id] for r in unique]
    reward = np.fromiter((np.nan if r.reward is None else r.reward for r in unique), np.float64, n)
    reward[~np.isfinite(reward)] = np.nan
    known = reference or {}
    ref = np.fromiter((known.get(r.id, np.nan) for r in unique), np.float64, n)

    rows: list[int] = []
    fams: list[int] = []
    raw: list[float] = []
    sign: list[float] = []
    slope: list[float] = []
    weight: list[float] = []
    for i, r in enumerate(unique):
        verdicts = r.verdicts
        for cid, f, s, a, w in plans[row_task[i]]:
            v = verdicts.get(cid)
            if v is None:  # not asked when this rollout was judged: no evidence either way
                continue
            rows.append(i)
            fams.append(f)
            raw.append(np.nan if v[0] is None else v[0])
            sign.append(s)
            slope.append(a)
            weight.append(w)
    group_task = np.zeros(len(group_order), np.int64)
    group_task[group] = row_task
    starts = np.searchsorted(group, np.arange(len(group_order)))
    tol, worst_a, best_a = (np.array(x, np.float64) for x in zip(*bounds, strict=True))
    merged = _merge(
        len(family_index),
        np.array(rows, np.int64),
        np.array(fams, np.int64),
        np.array(raw, np.float64),
        np.array(sign, np.float64),
        np.array(slope, np.float64),
        np.array(weight, np.float64),
    )
    return Columns(
        rollouts=unique,
        domains=list(domain_index),
        families=list(family_index),
        task_ids=list(task_index),
        task_domain=np.array(task_domain, np.int64),
        reward=reward,
        reference=ref,
        group=group,
        group_start=starts,
        group_task=group_task,
        **merged,
        tolerance=tol,
        worst=worst_a,
        best=best_a,
    )


def _slopes(rubric: Rubric) -> tuple[dict[str, float], float, float]:
    """What each criterion adds to the reward when met (every aggregation is linear in the verdicts),
    the reward of an answer that meets nothing, and of one that meets all and violates nothing.
    """
    none = {c.id: 0.0 for c in rubric.criteria}
    base = aggregate(rubric, none)
    slopes = {cid: aggregate(rubric, {**none, cid: 1.0}) - base for cid in none}
    best = aggregate(rubric, {c.id: float(c.weight > 0) for c in rubric.criteria})
    if best - base < 1e-9:  # penalties only: meeting nothing is already the best
        base = aggregate(rubric, {cid: 1.0 for cid in none})
    return slopes, base, best


def _merge(n_families: int, rows: I, fams: I, raw: F, sign: F, slope: F, weight: F) -> dict[str, Any]:
    """One entry per (rollout, family): values are means over the family's criteria, parts are sums."""
    missing = np.isnan(raw).astype(np.float64)
    value = np.where(sign > 0, raw, 1 - raw)
    part = slope * raw
    key = rows * max(n_families, 1) + fams
    uniq, inverse = np.unique(key, return_inverse=True)
    if len(uniq) == len(key):
        return {
            "e_row": rows,
            "e_family": fams,
            "e_value": value,
            "e_raw": raw,
            "e_part": part,
            "e_missing": missing,
            "e_sign": sign,
            "e_weight": weight,
        }

    def total(x: F) -> F:
        return tally(inverse, x, len(uniq))

    have = total(1 - missing)
    count = total(np.ones_like(raw))
    with np.errstate(invalid="ignore", divide="ignore"):

        def mean(x: F) -> F:
            return np.where(have > 0, total(np.where(missing > 0, 0.0, x)) / have, np.nan)

        return {
            "e_row": uniq // n_families,
            "e_family": uniq % n_families,
            "e_value": mean(value),
            "e_raw": mean(raw),
            "e_part": total(part),  # one gap in the family and its part is unknown
            "e_missing": total(missing) / count,
            "e_sign": total(sign) / count,
            "e_weight": total(weight),
        }
