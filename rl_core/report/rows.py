"""Rows of the two long tables: decisions with their forest plot, and harness updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from rl_core.ledger import LedgerEntry
from rl_core.report import charts
from rl_core.report import figures as f
from rl_core.report.charts import Axis
from rl_core.report.facts import known_sum, rolled_back_at
from rl_core.report.run import STATUS_NAMES, Run, Update

#: Rows beyond these are counted, not shown: the page stays small, the run folder holds everything.
MOST_DECISIONS, MOST_UPDATES = 50, 80


def shown_decisions(run: Run) -> list[int]:
    """Indices of the decisions that get a row: all when few, else what changed the state and the latest others."""
    indices = range(len(run.decisions))
    first = [i for i in indices if run.decisions[i].status in ("accepted", "rolled_back")]
    rest = [i for i in reversed(indices) if i not in set(first)]
    return sorted([*first[-MOST_DECISIONS:], *rest][:MOST_DECISIONS])


def _forest_axis(run: Run) -> Axis | None:
    return charts.forest_axis([(d.figures.mean_d, d.figures.interval) for d in run.decisions])


def forest_head(run: Run) -> Markup:
    axis = _forest_axis(run)
    return charts.forest_scale(axis) if axis else Markup("")


def decision_rows(run: Run, shown: Sequence[int]) -> list[dict[str, Any]]:
    undone = rolled_back_at(run)
    axis = _forest_axis(run)
    return [_decision(i, run.decisions[i], undone.get(i), axis) for i in shown]


def _decision(i: int, d: LedgerEntry, undone: int | None, axis: Axis | None) -> dict[str, Any]:
    g = d.figures
    interval = ""
    if g.interval is not None and len(g.interval) == 2:
        interval = f"{f.signed(g.interval[0])} to {f.signed(g.interval[1])}"
    tail = [f"Predicted {f.signed(d.prediction)}"] if d.prediction is not None else []
    if d.status == "accepted" and d.state_version is not None:
        tail.append(f"made state v{d.state_version}")
    if undone is not None:
        tail.append(f"rolled back at step {undone}")
    why = ""
    if d.failure is not None and (d.failure.kind or d.failure.reason):
        why = f.clean(f"{d.failure.kind.replace('_', ' ')}{' in ' + d.failure.where if d.failure.where else ''}", 120)
        why += f" ({f.number(d.failure.statistic)})" if d.failure.statistic is not None else ""
        why += f": {f.clean(d.failure.reason, 180)}" if d.failure.reason else ""
    sign = ""
    if g.e_value is not None and g.threshold is not None:
        sign = "\N{GREATER-THAN OR EQUAL TO}" if g.e_value >= g.threshold else "<"
    return {
        "number": i + 1,
        "step": d.step,
        "status": d.status,
        "status_name": STATUS_NAMES[d.status],
        "interface": f.clean(d.interface, 30),
        "description": f.clean(d.description, 260),
        "reason": f.sentence(f.clean(d.reason, 320)),
        "why": why,
        "tail": f.sentence(", ".join(tail)),
        "tested": g.mean_d is not None,
        "mean": f.signed(g.mean_d),
        "interval": interval,
        "lift": f"{f.number(g.lift_current)} \N{RIGHTWARDS ARROW} {f.number(g.lift_candidate)}"
        if g.lift_current is not None and g.lift_candidate is not None
        else "",
        "e": f.e_value(g.e_value),
        "sign": sign,
        "threshold": f.threshold(g.threshold),
        "has_e": g.e_value is not None,
        "counts": ", ".join(
            f.plural(n, one)
            for n, one in ((g.pairs, "pair"), (g.rollouts, "rollout"), (g.labels, "label"))
            if n is not None
        ),
        "forest": charts.forest_row(g.mean_d, g.interval, d.status, axis),
        "spark": charts.sparkline(g.e_path, g.threshold, d.status),
    }


def _quiet(u: Update) -> bool:
    return u.healthy is True and not u.error and not u.decisions


def update_rows(run: Run, shown: set[int]) -> dict[str, Any]:
    """One row per update; neighbouring updates that found nothing share a row."""
    folded: list[list[tuple[int, Update]]] = []
    for n, u in enumerate(run.updates, start=1):
        number = u.update if u.update is not None else n
        if folded and _quiet(u) and _quiet(folded[-1][0][1]):
            folded[-1].append((number, u))
        else:
            folded.append([(number, u)])
    last = folded[-MOST_UPDATES:]
    return {"rows": [_update(run, g, shown) for g in last], "left_out": sum(len(g) for g in folded[:-MOST_UPDATES])}


def _update(run: Run, group: Sequence[tuple[int, Update]], shown: set[int]) -> dict[str, Any]:
    (first, u), (end, newest) = group[0], group[-1]
    of = [(i + 1, d) for i, d in enumerate(run.decisions) if u.update is not None and d.update == u.update][:6]
    did = "; ".join(f"{STATUS_NAMES[d.status]} {d.interface} edit" for _, d in of)
    if u.error:
        did = f"failed, state unchanged: {f.clean(u.error, 300)}"
    elif _quiet(u):
        did = "healthy, nothing to mend"
    elif not did:
        did = f.plural(u.decisions, "decision") if u.decisions else "no edit proposed"
    several = len(group) > 1
    return {
        "number": f"{first}\N{EN DASH}{end}" if several else str(first),
        "step": f"{u.step}\N{EN DASH}{newest.step}" if several else str(u.step),
        "did": f.clean(did),
        "failed": bool(u.error),
        "links": [i for i, _ in of if i - 1 in shown],
        "probes": f.count(known_sum(g.probe_rollouts for _, g in group)),
        "labels": f.count(known_sum(g.labels for _, g in group)),
        "seconds": f.duration(known_sum(g.seconds for _, g in group)),
        "version": f"v{newest.state_version}" if newest.state_version is not None else f.MISSING,
    }
