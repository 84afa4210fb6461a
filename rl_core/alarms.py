"""Alarms: which figures of a diagnosis are bad enough to act on, Holm-controlled at 5 %.

Every test that had support counts in the correction, also those that found nothing. An alarm
needs both: its interval beyond the floor below, and its adjusted p value at most ``ALPHA``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rl_core.edits import Scope
from rl_core.intervals import Fit, binomial_upper, cluster_ratio, holm
from rl_core.reward_report import DEAD_KINDS, MAX_EVIDENCE, Alarm, AlarmKind, DeadKind, Section, TaskStats

if TYPE_CHECKING:
    from rl_core.columns import B, F, I
    from rl_core.statistics import ScopeFits, Tables

ALPHA = 0.05

#: Share of a domain's groups that may be dead. A group of 8 with success 0.8 is dead in 17 % by chance alone.
DEAD_FLOOR: Mapping[DeadKind, float] = {"dead_low": 0.25, "dead_high": 0.25, "dead_flat": 0.2}
#: A task is listed when at least this many of its last groups in a row were dead.
MIN_RUN = 2
#: Share of the pairs told apart by the reference that the reward may tie or order at random.
BLIND_FLOOR = 0.5
#: Correlation of reward and feature: beyond the reference's own, and alone when there is no reference.
EXCESS_FLOOR = 0.15
FEATURE_FLOOR = 0.3
#: A rewarded criterion whose correlation with the reference is surely below this is spurious.
CRITERION_CEILING = 0.15
MIN_WEIGHT_SHARE = 0.05
#: Judge flips per verdict.
FLIP_FLOOR = 0.05
#: Fewer tasks in which both sides vary: no test of a correlation.
MIN_CORRELATION_TASKS = 8
MIN_GROUPS = 6
MIN_PAIRS = 30


@dataclass
class _Candidate:
    kind: AlarmKind
    scope: Scope
    family: str | None
    feature: str | None
    fit: Fit
    statistic: float
    interval: tuple[float, float]
    p: float
    beyond: bool
    severity: float
    rows: Sequence[int]
    text: str


def find_alarms(
    t: Tables, scopes: Mapping[str | None, tuple[Section, ScopeFits]], tasks: Mapping[str, TaskStats]
) -> tuple[tuple[Alarm, ...], int]:
    """Alarms, worst first, and the number of tests made. ``scopes``: None for all tasks, else a domain."""
    found: list[_Candidate] = []
    single = len(scopes) == 2
    for name, (section, fits) in scopes.items():
        mask = np.ones(t.n_tasks, np.bool_) if name is None else t.cols.task_domain == t.cols.domains.index(name)
        scope = Scope() if name is None else Scope(domains=(name,))
        if name is not None:
            found += _dead(t, name, scope, mask, fits)
            found += _dead_tasks(t, name, mask, fits, tasks)
            if single:  # the only domain: everything else was said for all tasks
                continue
        found += _against_reference(t, scope, mask, section, fits)
        found += _criteria(t, scope, mask, section, fits)
        found += _features(t, scope, mask, section, fits)
    adjusted = holm([c.p for c in found])
    alarms = [
        Alarm(
            kind=c.kind,
            where=c.scope,
            family=c.family,
            feature=c.feature,
            statistic=c.statistic,
            interval=c.interval,
            support=c.fit.n,
            p=p,
            severity=min(max(c.severity, 0.0), 1.0),
            evidence=tuple(t.cols.rollouts[i].id for i in dict.fromkeys(int(r) for r in c.rows))[:MAX_EVIDENCE],
            text=c.text,
        )
        for c, p in zip(found, adjusted, strict=True)
        if c.beyond and p <= ALPHA
    ]
    inverted = {(a.where, a.family) for a in alarms if a.kind == "inverted" and a.family}
    alarms = [a for a in alarms if not (a.kind == "spurious" and (a.where, a.family) in inverted)]
    return tuple(sorted(alarms, key=lambda a: -a.severity)), len(found)


def _candidate(
    kind: AlarmKind,
    scope: Scope,
    fit: Fit,
    share: float,
    p: float,
    *,
    floor: float | None = None,
    ceiling: float | None = None,
    family: str | None = None,
    feature: str | None = None,
    rows: Sequence[int] | I,
    text: str,
    effect: float | None = None,
) -> _Candidate:
    e = fit.estimate()
    value = fit.value if fit.value is not None else 0.0
    beyond = (floor is not None and e.low > floor) or (ceiling is not None and e.high < ceiling)
    effect = abs(value) if effect is None else effect
    return _Candidate(
        kind,
        scope,
        family,
        feature,
        fit,
        value,
        (e.low, e.high),
        p,
        beyond,
        effect * share,
        [int(r) for r in rows],
        text,
    )


def _dead(t: Tables, name: str, scope: Scope, mask: B, fits: ScopeFits) -> list[_Candidate]:
    out = []
    words = {"dead_low": "all low", "dead_high": "all high", "dead_flat": "flat in between"}
    for code, kind in enumerate(DEAD_KINDS, start=1):
        fit, floor = fits.groups[kind], DEAD_FLOOR[kind]
        if fit.n < MIN_GROUPS or fit.value is None:
            continue
        out.append(
            _candidate(
                kind,
                scope,
                fit,
                fits.share,
                fit.p_above(floor),
                floor=floor,
                rows=_dead_rows(t, mask, code),
                text=f"{kind} in {name}: {_range(fit)} of {fit.n} groups are {words[kind]} (floor {_pct(floor)})",
            )
        )
    return out


def _dead_rows(t: Tables, mask: B, code: int) -> list[int]:
    """The first 3 rollouts of each of the latest such groups."""
    c = t.cols
    groups = np.flatnonzero((t.kind == code) & mask[c.group_task])[::-1][:4]
    ends = np.r_[c.group_start[1:], len(c.rollouts)]
    return [i for g in groups for i in range(int(c.group_start[g]), int(min(c.group_start[g] + 3, ends[g])))]


def _dead_tasks(t: Tables, name: str, mask: B, fits: ScopeFits, tasks: Mapping[str, TaskStats]) -> list[_Candidate]:
    """Tasks whose last groups were all dead, one list per domain.

    Test: while each group is dead with probability at most the floor q, the run lengths of n tasks
    sum to S or more with probability at most P(Binomial(n + S − 1, q) >= S).
    """
    out: list[_Candidate] = []
    mine = {k: s for k, s in tasks.items() if s.domain == name and s.groups - s.unscored >= MIN_RUN}
    if not mine:
        return out
    for code, kind in ((1, "dead_low"), (2, "dead_high")):
        dead: DeadKind = "dead_low" if code == 1 else "dead_high"
        runs = {k: s.run if s.last == kind else 0 for k, s in mine.items()}
        listed = tuple(k for k, r in runs.items() if r >= MIN_RUN)
        n, total = len(mine), sum(runs.values())
        fit = cluster_ratio(np.array([float(r >= MIN_RUN) for r in runs.values()]), np.ones(n))
        p = binomial_upper(total, n + total - 1, DEAD_FLOOR[dead])
        position = {k: i for i, k in enumerate(t.cols.task_ids)}
        only = np.zeros(t.n_tasks, np.bool_)
        only[[position[k] for k in listed]] = True
        candidate = _candidate(
            dead,
            Scope(tasks=listed),
            fit,
            fits.share,
            p,
            floor=None,
            rows=_dead_rows(t, only & mask, code),
            text=f"{kind} tasks in {name}: the last {MIN_RUN} or more groups of {len(listed)} of {n} tasks were all "
            f"{'low' if code == 1 else 'high'}",
        )
        candidate.beyond = bool(listed)
        out.append(candidate)
    return out


def _against_reference(t: Tables, scope: Scope, mask: B, section: Section, fits: ScopeFits) -> list[_Candidate]:
    v = section.validity
    if v is None:
        return []
    out = []
    blind, corr = fits.validity["blind"], fits.validity["correlation"]
    if v.pairs >= MIN_PAIRS and blind.value is not None:
        out.append(
            _candidate(
                "blind",
                scope,
                blind,
                fits.share,
                blind.p_above(BLIND_FLOOR),
                floor=BLIND_FLOOR,
                effect=min(blind.value, 1.0),
                rows=_pair_rows(t, mask, "tied"),
                text=f"blind on {scope}: of {v.pairs} pairs the reference tells apart the reward ties or orders at "
                f"random {_range(blind)}",
            )
        )
    if corr.tasks >= MIN_CORRELATION_TASKS:
        out.append(
            _candidate(
                "inverted",
                scope,
                corr,
                fits.share,
                corr.p_below(0.0),
                ceiling=0.0,
                rows=_pair_rows(t, mask, "against"),
                text=f"inverted on {scope}: reward and reference correlate at {_span(corr)} within groups",
            )
        )
    return out


def _pair_rows(t: Tables, mask: B, which: str) -> list[int]:
    p = t.pairs
    pick = np.flatnonzero(np.asarray(p[which], np.bool_) & mask[np.asarray(p["task"], np.int64)])
    best = pick[np.argsort(-np.asarray(p["gap"], np.float64)[pick], kind="stable")][: MAX_EVIDENCE // 2]
    return [int(x) for i in best for x in (p["a"][i], p["b"][i])]


def _criteria(t: Tables, scope: Scope, mask: B, section: Section, fits: ScopeFits) -> list[_Candidate]:
    out = []
    for name, fit in fits.criteria.items():
        stats = section.criteria[name]
        ref = fit["reference"]
        if ref.tasks >= MIN_CORRELATION_TASKS and ref.value is not None:
            rows = _criterion_rows(t, mask, name)
            out.append(
                _candidate(
                    "inverted",
                    scope,
                    ref,
                    fits.share * stats.weight_share,
                    ref.p_below(0.0),
                    ceiling=0.0,
                    family=name,
                    rows=rows,
                    text=f"inverted criterion {name} on {scope}: within groups it correlates with the "
                    f"reference at {_span(ref)}",
                )
            )
            if stats.weight_share >= MIN_WEIGHT_SHARE:
                out.append(
                    _candidate(
                        "spurious",
                        scope,
                        ref,
                        fits.share,
                        ref.p_below(CRITERION_CEILING),
                        ceiling=CRITERION_CEILING,
                        family=name,
                        rows=rows,
                        effect=stats.weight_share,
                        text=f"spurious criterion {name} on {scope}: it separates answers (pass rate "
                        f"{_pct(stats.pass_rate.value)}), but not as the reference does ({_span(ref)})",
                    )
                )
        flips = fit["disagreement"]
        if not scope.domains and flips.n >= MIN_PAIRS and flips.value is not None:
            floor = 2 * FLIP_FLOOR * (1 - FLIP_FLOOR)
            out.append(
                _candidate(
                    "noisy",
                    scope,
                    flips,
                    fits.share,
                    flips.p_above(floor),
                    floor=floor,
                    family=name,
                    rows=t.flip_rows.get(t.cols.families.index(name), []),
                    effect=stats.weight_share,
                    text=f"noisy criterion {name}: two verdicts on one completion differ in {_range(flips)}",
                )
            )
    return out


def _criterion_rows(t: Tables, mask: B, family: str) -> list[int]:
    """Rollouts where verdict and reference disagree most."""
    c = t.cols
    f = c.families.index(family)
    pick = (c.e_family == f) & mask[c.row_task[c.e_row]] & ~np.isnan(c.e_value) & ~np.isnan(c.reference[c.e_row])
    rows, value = c.e_row[pick], c.e_value[pick]
    clash = np.abs(value - c.reference[rows])
    return [int(x) for x in rows[np.argsort(-clash, kind="stable")][:MAX_EVIDENCE]]


def _features(t: Tables, scope: Scope, mask: B, section: Section, fits: ScopeFits) -> list[_Candidate]:
    out = []
    for name, fit in fits.features.items():
        reward, excess = fit["reward"], fit["excess"]
        if reward.tasks < MIN_CORRELATION_TASKS or reward.value is None:
            continue
        up = reward.value > 0
        direction = "rises" if up else "falls"
        rows = _feature_rows(t, mask, t.features[name], up)
        span = reward.estimate()
        surely = span.low > 0 if up else span.high < 0
        if section.validity is None:
            p = min(1.0, 2 * (reward.p_above(FEATURE_FLOOR) if up else reward.p_below(-FEATURE_FLOOR)))
            out.append(
                _candidate(
                    "spurious",
                    scope,
                    reward,
                    fits.share / 2,
                    p,
                    floor=FEATURE_FLOOR if up else None,
                    ceiling=None if up else -FEATURE_FLOOR,
                    feature=name,
                    rows=rows,
                    text=f"spurious? on {scope}: reward {direction} with {name} within prompts ({_span(reward)}); no "
                    "reference says whether that is wanted",
                )
            )
        elif excess.value is not None and excess.tasks >= MIN_CORRELATION_TASKS:
            p = min(1.0, 2 * (excess.p_above(EXCESS_FLOOR) if up else excess.p_below(-EXCESS_FLOOR)))
            candidate = _candidate(
                "spurious",
                scope,
                excess,
                fits.share,
                p,
                floor=EXCESS_FLOOR if up else None,
                ceiling=None if up else -EXCESS_FLOOR,
                feature=name,
                rows=rows,
                effect=abs(excess.value) / 2,
                text=f"spurious on {scope}: reward {direction} with {name} within prompts ({_span(reward)}), more than "
                f"the reference does ({_span(fit['reference'])})",
            )
            candidate.beyond = candidate.beyond and surely
            out.append(candidate)
    return out


def _feature_rows(t: Tables, mask: B, x: F, up: bool) -> list[int]:
    """Rollouts whose reward and feature stand out together from their group."""
    c = t.cols
    ok = t.rewarded & ~np.isnan(x) & mask[c.row_task] & (t.kind[c.group] == 0)
    rows = np.flatnonzero(ok)
    g = c.group[rows]
    size = np.maximum(np.bincount(g, minlength=len(c.group_task)), 1)
    centred = x[rows] - (np.bincount(g, x[rows], len(c.group_task)) / size)[g]
    score = (c.reward[rows] - t.mean[g]) * centred * (1 if up else -1)
    return [int(i) for i in rows[np.argsort(-score, kind="stable")][:MAX_EVIDENCE]]


def _pct(x: float | None) -> str:
    return "?" if x is None else f"{100 * x:.0f} %"


def _range(fit: Fit) -> str:
    e = fit.estimate()
    return f"{_pct(e.value)} [{_pct(e.low)}, {_pct(e.high)}]"


def _span(fit: Fit) -> str:
    e = fit.estimate()
    return "unknown" if e.value is None else f"{e.value:+.2f} [{e.low:+.2f}, {e.high:+.2f}]"
