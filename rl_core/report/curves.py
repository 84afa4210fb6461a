"""Curves with the timeline of edits, and the group map."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rl_core.report import charts
from rl_core.report import figures as f
from rl_core.report.charts import Cell, Marker, Series
from rl_core.report.facts import by_rollouts, compare, gold_points, position
from rl_core.report.run import STATUS_NAMES, Run, Step

#: More domains and cells than these are joined or left out: the page stays small.
MOST_DOMAINS, MOST_CELLS = 24, 200


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
        lines = [f"{i + 1}. {STATUS_NAMES[status]}: {f.clean(run.decisions[i].description, 90)}" for i in members]
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


def curves(run: Run, shown: set[int]) -> list[dict[str, Any]]:
    rollouts = by_rollouts(run)
    x_name = "rollouts, probes included" if rollouts else "steps"
    x_text = _short if rollouts else f.count
    marks = _markers(run, rollouts, shown)
    gold = [
        Series(name, style, gold_points(r, rollouts), dots=True)
        for r, name, style in ((run.baseline, "without harness", "baseline"), (run, "with harness", "harness"))
        if r is not None
    ]
    top = max((y for s in gold for _, y in s.points if y is not None), default=0.0)
    low = min((y for s in gold for _, y in s.points if y is not None), default=0.0)
    c = compare(run)
    rule = (c.rollouts, "compared here") if c is not None and c.rollouts is not None else None
    unit = (0.0, 1.0) if low >= 0 and 0.35 < top <= 1 else None
    return [
        {
            "title": "Held-out gold",
            "empty": "Gold was not measured in this run.",
            "wide": True,
            "note": "Quality on held-out tasks, never seen in training, never guided.",
            "svg": charts.line_chart(
                gold,
                title="Held-out gold",
                x_name=x_name,
                x_text=x_text,
                y_text=_tick,
                y_range=unit,
                markers=marks,
                rule=rule,
                height=260,
            ),
        },
        {
            "title": "Training reward",
            "empty": "No reward has been logged.",
            "wide": False,
            "note": "Under the rubric of the moment: not comparable across edits.",
            "svg": charts.line_chart(
                _series(run, rollouts, "reward"),
                title="Training reward",
                x_name=x_name,
                x_text=x_text,
                y_text=_tick,
                markers=marks,
                height=190,
            ),
        },
        {
            "title": "Live groups",
            "empty": "The share of live groups has not been logged.",
            "wide": False,
            "note": "Share of groups whose rewards differ; only these carry a gradient.",
            "svg": charts.line_chart(
                _series(run, False, "live_share"),
                title="Share of live groups",
                x_name="steps",
                y_text=f.percent,
                y_range=(0.0, 1.0),
                markers=_markers(run, False, shown),
                height=190,
            ),
        },
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
    shares = {c: _mean(getattr(g, c) for g in groups) for c in charts.CLASSES if c != "dead"}
    known = {c: v for c, v in shares.items() if v is not None}
    if set(known) == {"live"}:
        known["dead"] = 1 - known["live"]  # the log says that these groups are dead, not how
    if not known:
        return Cell(None, f"{span}: no group logged")
    said = ", ".join(f"{charts.CLASS_NAMES[c]} {f.percent(v)}" for c, v in known.items())
    reward = _mean(g.reward for g in groups)
    return Cell(known, f"{span}: {said}" + (f", reward {f.number(reward, 2)}" if reward is not None else ""))


def group_map(run: Run) -> dict[str, Any] | None:
    """Domains x steps. Neighbouring steps share a cell, so that the page stays small."""
    counts: dict[str, int] = {}
    for s in run.steps:
        for d in s.domains:
            counts[d] = counts.get(d, 0) + 1
    if not counts:
        return None
    names = sorted(sorted(counts, key=lambda d: -counts[d])[:MOST_DOMAINS])
    width = math.ceil(len(run.steps) / max(8, min(50, MOST_CELLS // len(names))))
    bins = [run.steps[i : i + width] for i in range(0, len(run.steps), width)]
    cells = {d: [_cell(b, d) for b in bins] for d in names}
    used = {c for row in cells.values() for cell in row for c in cell.shares or ()}
    rows = [
        (f.clean(d, 80), charts.group_strip(row, f"Groups of {f.clean(d, 80)} over steps")) for d, row in cells.items()
    ]
    return {
        "rows": rows,
        "axis": charts.step_axis(run.steps[0].step, run.steps[-1].step),
        "width": width,
        "left_out": len(counts) - len(names),
        "classes": [(c, charts.CLASS_NAMES[c]) for c in charts.CLASSES if c in used],
    }
