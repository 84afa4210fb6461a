"""From a run to what the template shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from rl_core.report import charts, words
from rl_core.report import figures as f
from rl_core.report.charts import Axis, Cell, Marker, Series
from rl_core.report.facts import (
    by_rollouts,
    compare,
    costs,
    final_by_domain,
    first_by_domain,
    gold_ends,
    gold_points,
    live_ends,
    position,
    rolled_back_at,
    tally,
)
from rl_core.report.run import Decision, Run, Step, Update

STATUS_NAMES = {"accepted": "accepted", "rejected": "rejected", "inconclusive": "inconclusive", "vetoed": "vetoed",
                "rolled_back": "rolled back"}
#: Rows beyond these are counted, not shown: the page stays small, the run folder holds everything.
MOST_DECISIONS, MOST_UPDATES, MOST_DOMAINS, MOST_CELLS = 60, 80, 24, 280


def context(run: Run) -> dict[str, Any]:
    """Everything the template needs, as text and ready SVG."""
    shown = _shown(run)
    return {
        "run": run,
        "title": f.clean(run.name, 80),
        "headline": words.headline(run),
        "failures": _first(words.failures(run)),
        "changes": _first(words.changes(run)),
        "gains": words.gains(run),
        "notes": words.notes(run),
        "about": _about(run),
        "cards": _cards(run),
        "tally": _tally(run),
        "charts": _curves(run, set(shown)),
        "map": _map(run),
        "decisions": _decisions(run, shown),
        "hidden": len(run.decisions) - len(shown),
        "forest": _forest_head(run),
        "domains": _domains(run),
        "compared": run.baseline is not None or run.summary.baseline is not None,
        "costs": _costs(run),
        "updates": _updates(run, set(shown)),
        "statuses": [(s, n) for s, n in STATUS_NAMES.items() if any(d.status == s for d in run.decisions)],
        "glyph": charts.glyph,
    }


def _first(items: list[str], most: int = 8) -> list[str]:
    """The first items, and how many more there are."""
    return items if len(items) <= most else [*items[: most - 1], f"{len(items) - most + 1} more, see below."]


def _about(run: Run) -> list[str]:
    s = run.summary
    out = [f.clean(s.command, 60)] if s.command and s.command != run.name else []
    out.append(f.plural(costs(run).steps, "step"))
    out += [f"seed {s.seed}"] if s.seed is not None else []
    out += [f"{f.clean(k, 30)} {f.clean(v, 30)}" for k, v in list(s.versions.items())[:8]]
    return out


def _cards(run: Run) -> list[dict[str, str]]:
    c, s = costs(run), run.summary
    first, last = gold_ends(run)
    a, b, n = live_ends(run)
    done = [u for u in run.updates if not u.error]
    failed = len(run.updates) - len(done)
    healthy = sum(u.healthy is True for u in done)
    width = f"first and last {n} steps" if n > 1 else "first and last step"
    return [
        {"name": "Held-out gold", "value": f.number(last), "was": f.number(first) if first is not None else "",
         "note": "first and last evaluation" if last is not None else "not measured"},
        {"name": "Live groups", "value": f.percent(b), "was": f.percent(a) if a is not None else "",
         "note": width if a is not None else "not logged"},
        {"name": "Probe rollouts", "value": f.percent(c.probe_share), "was": "",
         "note": f"{f.count(c.probes)} of {f.count(c.rollouts)} rollouts" if c.probes is not None else "not logged"},
        {"name": "Reference labels", "value": f.percent(c.label_share), "was": "",
         "note": f"{f.count(c.labels)} on {f.count(c.rollouts)} rollouts" if c.labels is not None else "not logged"},
        {"name": "Harness updates", "value": f.count(len(run.updates)), "was": "",
         "note": f"{healthy} found nothing to mend" + (f", {failed} failed" if failed else "") if run.updates else "none logged"},
        {"name": "Wall time", "value": f.duration(s.seconds), "was": "",
         "note": f"{f.duration(c.update_seconds)} in updates" if c.update_seconds is not None else
         "" if s.seconds is not None else "not logged"},
    ]


def _tally(run: Run) -> dict[str, Any]:
    """Status x interface, with sums; vetoed and rolled back only where they happened."""
    table = tally(run)
    rows = []
    for s, name in STATUS_NAMES.items():
        counts = [row[s] for row in table.values()]
        if s in ("accepted", "rejected", "inconclusive") or any(counts):
            rows.append((s, name, [*counts, sum(counts)]))
    return {"interfaces": [f.clean(i, 30) for i in table], "rows": rows}


def _markers(run: Run, rollouts: bool, shown: set[int]) -> list[Marker]:
    """Accepted edits and rollbacks as numbered badges (joined when at one step), the rest as small glyphs."""
    steps = {s.step: position(s, rollouts) for s in run.steps}
    out: list[Marker] = []
    groups: dict[tuple[int, str], list[int]] = {}
    for i, d in enumerate(run.decisions):
        groups.setdefault((d.step, d.status), []).append(i)
    for (step, status), members in groups.items():
        x = steps.get(step) if rollouts else float(step)
        if x is None:
            before = [s for s in steps if s <= step]
            x = steps[max(before)] if before else min(steps.values(), default=0.0)
        lines = [f"{i + 1}. {STATUS_NAMES[status]}: {f.clean(words.name(run.decisions[i]), 90)}" for i in members]
        tip = "\n".join([f"step {step}", *lines[:6], *(["..."] if len(lines) > 6 else [])])
        numbered = status in ("accepted", "rolled_back")
        label = _numbers([i + 1 for i in members]) if numbered else ""
        out.append(Marker(x, status, tip, label, f"#d{members[0] + 1}" if members[0] in shown else "#decisions"))
    return out


def _numbers(n: Sequence[int]) -> str:
    if len(n) == 1:
        return str(n[0])
    joined = list(n) == list(range(n[0], n[-1] + 1)) and len(n) > 2
    return f"{n[0]}\N{EN DASH}{n[-1]}" if joined else ",".join(map(str, n[:3])) + ("+" if len(n) > 3 else "")


def _series(run: Run, rollouts: bool, field: str) -> list[Series]:
    """Moving mean, band and raw points of a step figure, without harness first so that the harness lies on top."""
    out = []
    for r, name, style in ((run.baseline, "without harness", "baseline"), (run, "with harness", "harness")):
        if r is None:
            continue
        raw: list[tuple[float, float | None]] = [(position(s, rollouts), getattr(s, field)) for s in r.steps]
        width = max(5, len(raw) // 20)
        if len(raw) < 12:
            out.append(Series(name, style, raw, dots=True))
            continue
        line, band = charts.smooth(raw, width)
        out.append(Series(name, style, line, band if style == "harness" else (), raw if style == "harness" else ()))
    return out


def _curves(run: Run, shown: set[int]) -> list[dict[str, Any]]:
    rollouts = by_rollouts(run)
    x_name = "rollouts, probes included" if rollouts else "steps"
    x_text = _short if rollouts else f.count
    marks = _markers(run, rollouts, shown)
    gold = [Series(name, style, gold_points(r, rollouts), dots=True)
            for r, name, style in ((run.baseline, "without harness", "baseline"), (run, "with harness", "harness"))
            if r is not None]
    top = max((y for s in gold for _, y in s.points if y is not None), default=0.0)
    low = min((y for s in gold for _, y in s.points if y is not None), default=0.0)
    c = compare(run)
    rule = (c.rollouts, "compared here") if c is not None and c.rollouts is not None else None
    unit = (0.0, 1.0) if 0 <= low and 0.35 < top <= 1 else None
    return [
        {"title": "Held-out gold", "empty": "Gold was not measured in this run.", "wide": True,
         "note": "Quality on held-out tasks, never seen in training, never guided.",
         "svg": charts.line_chart(gold, title="Held-out gold", x_name=x_name, x_text=x_text, y_text=_tick,
                                  y_range=unit, markers=marks, rule=rule, height=260)},
        {"title": "Training reward", "empty": "No reward has been logged.", "wide": False,
         "note": "Under the rubric of the moment: not comparable across edits.",
         "svg": charts.line_chart(_series(run, rollouts, "reward"), title="Training reward", x_name=x_name,
                                  x_text=x_text, y_text=_tick, markers=marks, height=190)},
        {"title": "Live groups", "empty": "The share of live groups has not been logged.", "wide": False,
         "note": "Share of groups whose rewards differ; only these carry a gradient.",
         "svg": charts.line_chart(_series(run, False, "live_share"), title="Share of live groups", x_name="steps",
                                  y_text=f.percent, y_range=(0.0, 1.0), markers=_markers(run, False, shown), height=190)},
    ]


def _short(x: float) -> str:
    return f"{x / 1000:g}k" if x >= 1000 and x % 100 == 0 else f.count(x)


def _tick(x: float) -> str:
    return f"{x:g}".replace("-", f.MINUS)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _cell(steps: Sequence[Step], domain: str) -> Cell:
    groups = [s.domains[domain] for s in steps if domain in s.domains]
    span = f"step {steps[0].step}" if len(steps) == 1 else f"steps {steps[0].step} to {steps[-1].step}"
    shares = {c: _mean(getattr(g, c) for g in groups) for c in charts.CLASSES}
    known = {c: v for c, v in shares.items() if v is not None}
    if not known:
        return Cell(None, f"{span}: no group logged")
    said = ", ".join(f"{charts.CLASS_NAMES[c]} {f.percent(v)}" for c, v in known.items())
    reward = _mean(g.reward for g in groups)
    return Cell(known, f"{span}: {said}" + (f", reward {f.number(reward, 2)}" if reward is not None else ""))


def _map(run: Run) -> dict[str, Any] | None:
    """Domains x steps. Neighbouring steps share a cell, so that the page stays small."""
    counts: dict[str, int] = {}
    for s in run.steps:
        for d in s.domains:
            counts[d] = counts.get(d, 0) + 1
    if not counts:
        return None
    names = sorted(counts) if len(counts) <= MOST_DOMAINS else sorted(sorted(counts, key=lambda d: -counts[d])[:MOST_DOMAINS])
    width = math.ceil(len(run.steps) / max(8, min(50, MOST_CELLS // len(names))))
    bins = [run.steps[i : i + width] for i in range(0, len(run.steps), width)]
    rows = [(f.clean(d, 80), charts.group_strip([_cell(b, d) for b in bins], f"Groups of {f.clean(d, 80)} over steps"))
            for d in names]
    return {"rows": rows, "axis": charts.step_axis(run.steps[0].step, run.steps[-1].step), "width": width,
            "left_out": len(counts) - len(names), "classes": [(c, charts.CLASS_NAMES[c]) for c in charts.CLASSES]}


def _shown(run: Run) -> list[int]:
    """Indices of the decisions that get a row: all when few, else those that changed the state and the latest others."""
    indices = range(len(run.decisions))
    first = [i for i in indices if run.decisions[i].status in ("accepted", "rolled_back")]
    rest = [i for i in reversed(indices) if i not in set(first)]
    return sorted([*first[-MOST_DECISIONS:], *rest][:MOST_DECISIONS])


def _forest_axis(run: Run) -> Axis | None:
    return charts.forest_axis([(d.figures.mean_d, d.figures.interval) for d in run.decisions])


def _forest_head(run: Run) -> Markup:
    axis = _forest_axis(run)
    return charts.forest_scale(axis) if axis else Markup("")


def _decisions(run: Run, shown: Sequence[int]) -> list[dict[str, Any]]:
    undone = rolled_back_at(run)
    axis = _forest_axis(run)
    return [_decision(i, run.decisions[i], undone.get(i), axis) for i in shown]


def _decision(i: int, d: Decision, undone: int | None, axis: Axis | None) -> dict[str, Any]:
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
        "number": i + 1, "step": d.step, "status": d.status, "status_name": STATUS_NAMES[d.status],
        "interface": f.clean(d.interface, 30), "description": f.clean(words.name(d), 260),
        "reason": f.sentence(f.clean(d.reason, 320)), "why": why, "tail": f.sentence(", ".join(tail)),
        "tested": g.mean_d is not None, "mean": f.signed(g.mean_d), "interval": interval,
        "lift": f"{f.number(g.lift_current)} \N{RIGHTWARDS ARROW} {f.number(g.lift_candidate)}"
        if g.lift_current is not None and g.lift_candidate is not None else "",
        "e": f.e_value(g.e_value), "sign": sign, "threshold": f.threshold(g.threshold), "has_e": g.e_value is not None,
        "counts": ", ".join(f.plural(n, one) for n, one in ((g.pairs, "pair"), (g.rollouts, "rollout"),
                                                            (g.labels, "label")) if n is not None),
        "forest": charts.forest_row(g.mean_d, g.interval, d.status, axis),
        "spark": charts.sparkline(g.e_path, g.threshold, d.status),
    }


def _domains(run: Run) -> list[tuple[str, Markup]]:
    ours, start = final_by_domain(run), first_by_domain(run)
    theirs = final_by_domain(run.baseline) if run.baseline else {}
    if not theirs and run.summary.baseline:
        theirs = {d: v for d, v in (run.summary.baseline.gold_by_domain or {}).items() if v is not None}
    names = sorted({*ours, *theirs})[:MOST_DOMAINS]
    top = max([*ours.values(), *theirs.values(), *start.values()], default=0.0)
    top = 1.0 if 0.35 < top <= 1 else top
    out = []
    for d in names:
        values = [(s, v[d]) for s, v in (("harness", ours), ("baseline", theirs)) if d in v]
        said = ", ".join(f"{'with' if s == 'harness' else 'without'} harness {f.number(v)}" for s, v in values)
        out.append((f.clean(d, 80), charts.bars(values, start.get(d), top, f"{f.clean(d, 80)}: {said}")))
    return out


def _costs(run: Run) -> dict[str, Any]:
    both = [costs(run)] + ([costs(run.baseline)] if run.baseline else [])
    accepted = sum(d.status == "accepted" for d in run.decisions)
    rows = [
        ("Steps", [f.count(c.steps) for c in both]),
        ("Rollouts, probes included", [f.count(c.rollouts) for c in both]),
        ("Training rollouts", [f.count(c.training) for c in both]),
        ("Probe rollouts", [f.count(c.probes) for c in both]),
        ("Probe share of rollouts", [f.percent(c.probe_share) for c in both]),
        ("Reference labels", [f.count(c.labels) for c in both]),
        ("Labels per rollout", [f.percent(c.label_share) for c in both]),
        ("Time in harness updates", [f.duration(c.update_seconds) for c in both]),
        ("Wall time", [f.duration(c.seconds) for c in both]),
    ]
    if accepted:
        c = both[0]
        each = [f"{f.count(x / accepted)} {name}" for x, name in ((c.probes, "probe rollouts"), (c.labels, "labels"))
                if x is not None]
        rows.append(("Per accepted edit", [" and ".join(each) or f.MISSING] + [f.MISSING] * (len(both) - 1)))
    return {"rows": rows, "baseline": run.baseline is not None}


def _quiet(u: Update) -> bool:
    return u.healthy is True and not u.error and not u.decisions


def _updates(run: Run, shown: set[int]) -> dict[str, Any]:
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
        "did": f.clean(did), "failed": bool(u.error), "links": [i for i, _ in of if i - 1 in shown],
        "probes": f.count(_sum(g.probe_rollouts for _, g in group)), "labels": f.count(_sum(g.labels for _, g in group)),
        "seconds": f.duration(_sum(g.seconds for _, g in group)),
        "version": f"v{newest.state_version}" if newest.state_version is not None else f.MISSING,
    }


def _sum(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None
