"""Diagnosis of rollouts: groups, criteria, reference, spurious features. Arithmetic only.

Everything is pooled over tasks but computed *within* groups: pooled over all rows a
criterion that flips a coin per task looks discriminating (rewards differ between tasks, too).

Definitions (sources in brackets):

- Dead group: reward spread within ``rubric.spread_tolerance``. With lo the reward of an answer
  that meets nothing and hi of one that meets everything and violates nothing, the group is
  ``dead_low`` when its mean lies in the lowest quarter of [lo, hi], ``dead_high`` in the highest,
  else ``dead_flat``. [0, 1] for rubrics without penalties.
- D index (Kelley 1939): share met in the upper minus the lower 27 % of a live group, ranked by the
  reward *without* that criterion; rank ties share their members' mean. Groups in which the rest does not
  vary cannot rank and are left out.
- Item-total: point-biserial (Pearson) correlation of verdict and reward without the criterion,
  both centred within the live group.
- Flip rate e: identical completions of one task, judged more than once: P(differ) = 2e(1 − e).
- Reference figures: values given for some rollouts; only pairs within a group are compared.

Intervals: ``rl_core.intervals``. Alarms: ``rl_core.alarms``. Rollouts of phase ``eval`` and
``probe`` are left out: they are no training signal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rl_core.alarms import find_alarms
from rl_core.columns import B, Columns, F, I, build_columns, tally
from rl_core.errors import InputError
from rl_core.intervals import Correlation, Estimate, Fit, cluster_correlation, cluster_ratio, correlation_difference
from rl_core.reward_report import (
    Alarm,
    CriterionStats,
    FeatureStats,
    GroupStats,
    RewardReport,
    Section,
    TaskStats,
    Validity,
)
from rl_core.rollout import Rollout
from rl_core.spurious import DEFAULT_FEATURES, Feature
from rl_core.state import HarnessState
from rl_core.task import TaskSet

__all__ = ["Alarm", "RewardReport", "diagnose"]

#: The reference separates a pair when its values differ by at least this much.
REFERENCE_MARGIN = 0.1

#: Redundancy is computed among the families with the most verdicts.
MAX_PHI_FAMILIES = 64
MIN_PHI = 0.5

KINDS = ("live", "dead_low", "dead_high", "dead_flat")
LIVE, LOW, HIGH, FLAT, UNSCORED = 0, 1, 2, 3, 4


@dataclass
class Tables:
    """Sums per task (or per task and family) from which every scope is put together."""

    cols: Columns
    kind: I
    mean: F
    sd: F
    rewarded: B
    tf_task: I
    tf_family: I
    tf: dict[str, F]
    features: dict[str, F]
    feature_sums: dict[str, dict[str, F]]
    validity: dict[str, F]
    pairs: dict[str, NDArray[Any]]
    flip_rows: dict[int, list[int]] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        return len(self.cols.task_ids)


def diagnose(
    rollouts: Sequence[Rollout],
    tasks: TaskSet,
    state: HarnessState,
    reference: Mapping[str, float] | None = None,
    previous: RewardReport | None = None,
    *,
    features: Mapping[str, Feature] = DEFAULT_FEATURES,
) -> RewardReport:
    """Diagnosis of one window of rollouts.

    ``state`` gives the rubrics; ``reference`` maps rollout ids to values in [0, 1] (labels of the
    evidence half only); ``previous`` the report before, for the trend. Raises InputError when there
    is nothing to diagnose or a rollout names an unknown task.
    """
    used = [r for r in rollouts if r.phase in ("train", "control")]
    if rollouts and not used:
        raise InputError("only eval and probe rollouts", field="rollouts", mend="pass training rollouts")
    t = _tables(build_columns(used, tasks, state, reference), features)
    everything = np.ones(t.n_tasks, np.bool_)
    overall, fits = _section(t, everything)
    domains: dict[str, Section] = {}
    scopes: dict[str | None, tuple[Section, ScopeFits]] = {None: (overall, fits)}
    for i, name in enumerate(t.cols.domains):
        domains[name], domain_fits = _section(t, t.cols.task_domain == i)
        scopes[name] = (domains[name], domain_fits)
    task_stats = _task_stats(t)
    alarms, tests = find_alarms(t, scopes, task_stats)
    steps = [r.step for r in t.cols.rollouts]
    report = RewardReport(
        rollouts=len(t.cols.rollouts),
        first_step=min(steps),
        last_step=max(steps),
        state_version=state.version,
        labels=int((~np.isnan(t.cols.reference)).sum()),
        overall=overall,
        domains=domains,
        tasks=task_stats,
        alarms=alarms,
        tests=tests,
    )
    return report if previous is None else report.model_copy(update={"trend": _trend(previous, report)})


def _tables(c: Columns, features: Mapping[str, Feature]) -> Tables:
    n_groups, n_tasks, n_fam = len(c.group_task), len(c.task_ids), max(len(c.families), 1)
    rewarded = ~np.isnan(c.reward)
    count = tally(c.group, rewarded, n_groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = tally(c.group, np.where(rewarded, c.reward, 0.0), n_groups) / count
        centred = np.where(rewarded, c.reward - mean[c.group], 0.0)
        sd = np.sqrt(tally(c.group, centred**2, n_groups) / (count - 1))
    top = np.maximum.reduceat(np.where(rewarded, c.reward, -np.inf), c.group_start)
    bottom = np.minimum.reduceat(np.where(rewarded, c.reward, np.inf), c.group_start)
    lo, hi = c.worst[c.group_task], c.best[c.group_task]
    scored = count >= 2
    with np.errstate(invalid="ignore"):
        place = (mean - lo) / (hi - lo)
        dead = top - bottom <= c.tolerance[c.group_task] * (1 + 1e-9)
    kind = np.full(n_groups, UNSCORED, np.int64)
    kind[scored] = LIVE
    kind[scored & dead] = FLAT
    kind[scored & dead & (place <= 0.25 + 1e-9)] = LOW
    kind[scored & dead & (place >= 0.75 - 1e-9)] = HIGH

    e_group = c.group[c.e_row]
    e_task = c.group_task[e_group]
    uniq, tf_of = np.unique(e_task * n_fam + c.e_family, return_inverse=True)
    tf: dict[str, F] = {}

    def add(name: str, of: I, x: F | B) -> None:
        tf[name] = tally(of, x, len(uniq))

    have = ~np.isnan(c.e_value)
    add("asked", tf_of, np.ones(len(tf_of)))
    add("missing", tf_of, c.e_missing)
    add("judged", tf_of, have)
    add("met", tf_of, np.where(have, c.e_raw, 0.0))
    add("sign", tf_of, c.e_sign)
    add("weight", tf_of, c.e_weight)

    # Rest score: the other families of the same group, all of them judged in every rewarded rollout.
    gf = e_group * n_fam + c.e_family
    e_live = rewarded[c.e_row] & (kind[e_group] == LIVE)
    gf_uniq, gf_of = np.unique(gf, return_inverse=True)
    judged_here = tally(gf_of, e_live & ~np.isnan(c.e_part), len(gf_uniq))
    ok = e_live & (judged_here[gf_of] == count[e_group])
    families_ok = tally(e_group, ok, n_groups) / np.maximum(count, 1)
    ok &= families_ok[e_group] > 1.5
    total = tally(c.e_row[ok], c.e_part[ok], len(c.reward))
    rest = total[c.e_row[ok]] - c.e_part[ok]
    x, y = _centre(c.e_value[ok], gf_of[ok], len(gf_uniq)), _centre(rest, gf_of[ok], len(gf_uniq))
    _add_products(tf, "item", tf_of[ok], x, y, len(uniq))
    _add_discrimination(tf, tf_of[ok], gf_of[ok], c.e_value[ok], rest, y, len(uniq))

    lab = have & ~np.isnan(c.reference[c.e_row])
    x, y = (
        _centre(c.e_value[lab], gf_of[lab], len(gf_uniq)),
        _centre(c.reference[c.e_row[lab]], gf_of[lab], len(gf_uniq)),
    )
    _add_products(tf, "ref", tf_of[lab], x, y, len(uniq))

    t = Tables(c, kind, mean, sd, rewarded, uniq // n_fam, uniq % n_fam, tf, {}, {}, {}, {})
    _add_flips(t, tf_of)
    _add_features(t, features, n_tasks)
    _add_validity(t, n_tasks)
    return t


def _centre(x: F, of: I, n: int) -> F:
    """x minus its mean within each cell ``of``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return x - (tally(of, x, n) / tally(of, np.ones_like(x), n))[of]


def _add_products(into: dict[str, F], name: str, of: I, x: F, y: F, n: int) -> None:
    for key, v in (("xy", x * y), ("xx", x * x), ("yy", y * y), ("n", np.ones_like(x))):
        into[f"{name}_{key}"] = tally(of, v, n)


def _add_discrimination(tf: dict[str, F], tf_of: I, gf_of: I, value: F, rest: F, rest_centred: F, n: int) -> None:
    if not len(value):
        tf["d_sum"], tf["d_n"] = np.zeros(n), np.zeros(n)
        return
    order = np.lexsort((np.round(rest, 9), gf_of))
    g, v, r = gf_of[order], value[order], np.round(rest, 9)[order]
    cell_start = np.r_[True, g[1:] != g[:-1]]
    start = np.flatnonzero(cell_start)
    cell = np.cumsum(cell_start) - 1
    size = np.diff(np.r_[start, len(g)])
    tie = np.cumsum(cell_start | np.r_[True, r[1:] != r[:-1]]) - 1
    v = (tally(tie, v) / tally(tie, np.ones_like(v)))[tie]
    rank = np.arange(len(g)) - start[cell]
    m = np.maximum(1, np.rint(0.27 * size))
    signed = np.where(rank >= (size - m)[cell], v, 0.0) - np.where(rank < m[cell], v, 0.0)
    varies = tally(cell, rest_centred[order] ** 2) > 1e-15
    d = tally(cell, signed) / m
    of = tf_of[order][start]
    tf["d_sum"] = tally(of, np.where(varies, d, 0.0), n)
    tf["d_n"] = tally(of, varies, n)


def _add_flips(t: Tables, tf_of: I) -> None:
    """Within identical completions of a task under one state: Σ 2·SS and Σ (n − 1) (E[2s²] = P(two differ))."""
    c = t.cols
    same: dict[tuple[str, int, str], int] = {}
    ident = np.fromiter(
        (same.setdefault((r.task_id, r.harness_version, r.completion), len(same)) for r in c.rollouts),
        np.int64,
        len(c.rollouts),
    )
    have = ~np.isnan(c.e_value) & (np.bincount(ident)[ident] > 1)[c.e_row]
    n = len(t.tf_task)
    key = ident[c.e_row[have]] * max(len(c.families), 1) + c.e_family[have]
    uniq, of = np.unique(key, return_inverse=True)
    centred = _centre(c.e_value[have], of, len(uniq))
    size = np.bincount(of, minlength=len(uniq))
    cell_tf = np.zeros(len(uniq), np.int64)
    cell_tf[of] = tf_of[have]
    ss = tally(of, centred**2, len(uniq))
    t.tf["flip"] = tally(cell_tf, 2 * ss, n)
    t.tf["flip_n"] = tally(cell_tf, np.maximum(size - 1, 0), n)
    noisy = np.flatnonzero((ss > 1e-9)[of])
    rows, fams = c.e_row[have][noisy], c.e_family[have][noisy]
    for f in np.unique(fams):
        t.flip_rows[int(f)] = [int(x) for x in rows[fams == f][:12]]


def _add_features(t: Tables, features: Mapping[str, Feature], n_tasks: int) -> None:
    c = t.cols
    live = t.rewarded & (t.kind[c.group] == LIVE)
    labelled = ~np.isnan(c.reference)
    wanted = np.flatnonzero(live | labelled)
    n_groups = len(c.group_task)
    for name, fn in features.items():
        x = np.full(len(c.rollouts), np.nan)
        x[wanted] = [fn(c.rollouts[i].completion) for i in wanted]
        sums: dict[str, F] = {}
        for key, mask, other in (
            ("reward", live, c.reward),
            ("reference", labelled, c.reference),
            ("both_reward", live & labelled, c.reward),
            ("both_reference", live & labelled, c.reference),
        ):
            g = c.group[mask]
            _add_products(
                sums, key, c.group_task[g], _centre(x[mask], g, n_groups), _centre(other[mask], g, n_groups), n_tasks
            )
        t.features[name], t.feature_sums[name] = x, sums


def _add_validity(t: Tables, n_tasks: int) -> None:
    c = t.cols
    usable = t.rewarded & ~np.isnan(c.reference)
    live = usable & (t.kind[c.group] == LIVE)
    g = c.group[live]
    n_groups = len(c.group_task)
    _add_products(
        t.validity,
        "corr",
        c.group_task[g],
        _centre(c.reward[live], g, n_groups),
        _centre(c.reference[live], g, n_groups),
        n_tasks,
    )
    rows = np.flatnonzero(usable)
    size = np.bincount(c.group[rows], minlength=n_groups)
    first: list[I] = []
    second: list[I] = []
    start = np.cumsum(size) - size
    for s in np.unique(size[size >= 2]):
        block = rows[start[size == s][:, None] + np.arange(s)]  # [groups of this size, s]
        i, j = np.triu_indices(int(s), 1)
        first.append(block[:, i].ravel())
        second.append(block[:, j].ravel())
    a = np.concatenate(first) if first else np.zeros(0, np.int64)
    b = np.concatenate(second) if second else np.zeros(0, np.int64)
    gap = c.reference[a] - c.reference[b]
    keep = np.abs(gap) >= REFERENCE_MARGIN - 1e-9
    a, b, gap = a[keep], b[keep], gap[keep]
    delta = c.reward[a] - c.reward[b]
    task = c.row_task[a]
    tied = np.abs(delta) <= c.tolerance[task] * (1 + 1e-9)
    against = ~tied & (delta * gap < 0)
    t.pairs = {"a": a, "b": b, "gap": np.abs(gap), "tied": tied, "against": against, "task": task}
    for name, x in (("pairs", np.ones(len(a))), ("tied", tied), ("against", against)):
        t.validity[name] = tally(task, x, n_tasks)


@dataclass
class ScopeFits:
    """The fits behind a Section's estimates, for tests."""

    groups: dict[str, Fit]
    criteria: dict[str, dict[str, Fit]]
    features: dict[str, dict[str, Fit]]
    validity: dict[str, Fit]
    share: float


def _section(t: Tables, mask: B) -> tuple[Section, ScopeFits]:
    groups, group_fits = _groups(t, mask)
    criteria, criterion_fits = _criteria(t, mask)
    features, feature_fits = _features(t, mask)
    validity, validity_fits = _validity(t, mask)
    share = float(mask[t.cols.row_task].mean())
    return (
        Section(groups=groups, criteria=criteria, features=features, validity=validity),
        ScopeFits(group_fits, criterion_fits, feature_fits, validity_fits, share),
    )


def _groups(t: Tables, mask: B) -> tuple[GroupStats, dict[str, Fit]]:
    c, n = t.cols, t.n_tasks
    inside = mask[c.group_task]
    scored = t.kind != UNSCORED

    def per_task(x: NDArray[Any]) -> F:
        return tally(c.group_task, x, n)[mask]

    scored_n = per_task(scored)
    fits = {name: cluster_ratio(per_task(t.kind == k), scored_n) for k, name in enumerate(KINDS)}
    row_task = c.row_task
    lost = ~t.rewarded | (t.kind[c.group] != LIVE)
    rows_n = np.bincount(row_task, minlength=n)[mask].astype(np.float64)
    fits["wasted"] = cluster_ratio(tally(row_task, lost, n)[mask], rows_n)
    rewards = np.where(t.rewarded, c.reward, 0.0)
    lo, hi = min(0.0, float(rewards.min())), max(1.0, float(rewards.max()))
    rewarded_n = tally(row_task, t.rewarded, n)[mask]
    fits["mean_reward"] = cluster_ratio(tally(row_task, rewards, n)[mask], rewarded_n, bounds=(lo, hi), binary=False)
    spread = np.where(scored, t.sd, 0.0)
    fits["mean_spread"] = cluster_ratio(per_task(np.nan_to_num(spread)), scored_n, bounds=(0.0, hi - lo), binary=False)
    estimates = {k: f.estimate() for k, f in fits.items()}
    return GroupStats(groups=int(inside.sum()), unscored=int((inside & ~scored).sum()), **estimates), fits


def _correlation(sums: Mapping[str, F], name: str, pick: B | I) -> Correlation:
    n = int(sums[f"{name}_n"][pick].sum())
    return cluster_correlation(*(sums[f"{name}_{k}"][pick] for k in ("xy", "xx", "yy")), n=n)


def _criteria(t: Tables, mask: B) -> tuple[dict[str, CriterionStats], dict[str, dict[str, Fit]]]:
    inside = np.flatnonzero(mask[t.tf_task])
    order = inside[np.argsort(t.tf_family[inside], kind="stable")]
    fams = t.tf_family[order]
    if not len(fams):
        return {}, {}
    cuts = np.flatnonzero(np.r_[True, fams[1:] != fams[:-1]])
    phi = _redundancy(t, mask)
    stats: dict[str, CriterionStats] = {}
    fits: dict[str, dict[str, Fit]] = {}
    for start, stop in zip(cuts, np.r_[cuts[1:], len(fams)], strict=True):
        pick = order[start:stop]
        f = int(fams[start])
        tf = {k: v[pick] for k, v in t.tf.items()}
        asked = tf["asked"]
        sign = tf["sign"].sum() / asked.sum()
        fit = {
            "pass_rate": cluster_ratio(tf["met"], tf["judged"]),
            "no_verdict": cluster_ratio(tf["missing"], asked),
            "discrimination": cluster_ratio(tf["d_sum"], tf["d_n"], bounds=(-1.0, 1.0), binary=False),
            "item_total": _correlation(t.tf, "item", pick).fit,
            "disagreement": cluster_ratio(tf["flip"], tf["flip_n"], bounds=(0.0, 1.0)),
            "reference": _correlation(t.tf, "ref", pick).fit,
        }
        name = t.cols.families[f]
        flips = fit["disagreement"].estimate()
        stats[name] = CriterionStats(
            tasks=len(pick),
            rollouts=int(asked.sum()),
            sign=0 if abs(sign) < 1 - 1e-9 else int(np.sign(sign)),
            weight_share=float(tf["weight"].sum() / asked.sum()),
            flip_rate=flips.model_copy(
                update={
                    "value": None if flips.value is None else flip_rate(flips.value),
                    "low": flip_rate(flips.low),
                    "high": flip_rate(flips.high),
                }
            ),
            redundancy=phi.get(f, {}),
            **{k: fit[k].estimate() for k in ("pass_rate", "no_verdict", "discrimination", "item_total", "reference")},
        )
        fits[name] = fit
    return stats, fits


def flip_rate(disagreement: float) -> float:
    """e from P(two verdicts of one completion differ) = 2e(1 − e); at most 0.5."""
    return 0.5 * (1 - math.sqrt(max(0.0, 1 - 2 * disagreement)))


def _redundancy(t: Tables, mask: B) -> dict[int, dict[str, Estimate]]:
    """Family -> its (at most 3) strongest partners: phi of the verdicts centred within groups."""
    c = t.cols
    have = ~np.isnan(c.e_value) & mask[c.row_task[c.e_row]]
    support = np.bincount(c.e_family[have], minlength=len(c.families))
    chosen = np.argsort(-support, kind="stable")[:MAX_PHI_FAMILIES]
    chosen = chosen[support[chosen] > 0]
    if len(chosen) < 2:
        return {}
    slot = np.full(len(c.families), -1, np.int64)
    slot[chosen] = np.arange(len(chosen))
    have &= slot[c.e_family] >= 0
    cell = c.group[c.e_row[have]] * len(c.families) + c.e_family[have]
    _, of = np.unique(cell, return_inverse=True)
    x = np.zeros((len(c.rollouts), len(chosen)))
    known = np.zeros_like(x)
    at = (c.e_row[have], slot[c.e_family[have]])
    x[at], known[at] = _centre(c.e_value[have], of, int(of.max()) + 1), 1.0
    xy, xx = x.T @ x, (x**2).T @ known
    with np.errstate(invalid="ignore", divide="ignore"):
        phi = np.nan_to_num(xy / np.sqrt(xx * xx.T))
    np.fill_diagonal(phi, 0.0)
    out: dict[int, dict[str, Estimate]] = {}
    task = c.row_task
    for i, f in enumerate(chosen):
        for j in np.argsort(-np.abs(phi[i]), kind="stable")[:3]:
            if abs(phi[i, j]) < MIN_PHI:
                break
            both = known[:, i] * known[:, j]
            sums = [tally(task, v * both, t.n_tasks) for v in (x[:, i] * x[:, j], x[:, i] ** 2, x[:, j] ** 2)]
            fit = cluster_correlation(*sums, n=int(both.sum())).fit
            out.setdefault(int(f), {})[c.families[int(chosen[j])]] = fit.estimate()
    return out


def _features(t: Tables, mask: B) -> tuple[dict[str, FeatureStats], dict[str, dict[str, Fit]]]:
    stats: dict[str, FeatureStats] = {}
    fits: dict[str, dict[str, Fit]] = {}
    for name, sums in t.feature_sums.items():
        fit = {key: _correlation(sums, key, mask).fit for key in ("reward", "reference")}
        fit["excess"] = correlation_difference(
            _correlation(sums, "both_reward", mask), _correlation(sums, "both_reference", mask)
        )
        fits[name] = fit
        stats[name] = FeatureStats(**{k: f.estimate() for k, f in fit.items()})
    return stats, fits


def _validity(t: Tables, mask: B) -> tuple[Validity | None, dict[str, Fit]]:
    c = t.cols
    labels = int((~np.isnan(c.reference) & mask[c.row_task]).sum())
    if not labels:
        return None, {}
    v = {k: x[mask] for k, x in t.validity.items()}
    alike = v["pairs"] - v["tied"] - v["against"]
    fits = {
        "correlation": _correlation(t.validity, "corr", mask).fit,
        "tied": cluster_ratio(v["tied"], v["pairs"]),
        "inverted": cluster_ratio(v["against"], v["pairs"]),
        "blind": cluster_ratio(v["pairs"] - alike + v["against"], v["pairs"], binary=False),
    }
    return Validity(labels=labels, pairs=int(v["pairs"].sum()), **{k: f.estimate() for k, f in fits.items()}), fits


def _task_stats(t: Tables) -> dict[str, TaskStats]:
    c = t.cols
    n = t.n_tasks
    counts = np.zeros((n, 5), np.int64)
    np.add.at(counts, (c.group_task, t.kind), 1)
    rows = np.bincount(c.row_task, minlength=n)
    lost = tally(c.row_task, ~t.rewarded | (t.kind[c.group] != LIVE), n)
    rewarded = tally(c.row_task, t.rewarded, n)
    total = tally(c.row_task, np.where(t.rewarded, c.reward, 0.0), n)
    last = np.full(n, UNSCORED)
    run = np.zeros(n, np.int64)
    for task, kind in zip(c.group_task.tolist(), t.kind.tolist(), strict=True):
        if kind == UNSCORED:
            continue
        run[task] = run[task] + 1 if kind == last[task] else 1
        last[task] = kind
    names: tuple[Literal["live", "dead_low", "dead_high", "dead_flat", "none"], ...] = (
        "live",
        "dead_low",
        "dead_high",
        "dead_flat",
        "none",
    )
    return {
        task_id: TaskStats(
            domain=c.domains[c.task_domain[i]],
            groups=int(counts[i].sum()),
            live=int(counts[i, LIVE]),
            dead_low=int(counts[i, LOW]),
            dead_high=int(counts[i, HIGH]),
            dead_flat=int(counts[i, FLAT]),
            unscored=int(counts[i, UNSCORED]),
            wasted=float(lost[i] / rows[i]),
            mean_reward=float(total[i] / rewarded[i]) if rewarded[i] else None,
            last=names[last[i]],
            run=int(run[i]),
        )
        for i, task_id in enumerate(c.task_ids)
    }


def _trend(before: RewardReport, now: RewardReport) -> dict[str, float]:
    def figures(r: RewardReport) -> dict[str, float | None]:
        g, v = r.overall.groups, r.overall.validity
        out = {k: getattr(g, k).value for k in (*KINDS, "wasted", "mean_reward")}
        out["validity"] = v.correlation.value if v else None
        out["blind"] = v.blind.value if v else None
        return out

    a, b = figures(before), figures(now)
    return {k: y - x for k, y in b.items() if y is not None and (x := a[k]) is not None}
