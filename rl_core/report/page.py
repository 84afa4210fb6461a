"""From a run to what the template shows."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from rl_core.report import charts, words
from rl_core.report import figures as f
from rl_core.report.curves import MOST_DOMAINS, curves, group_map
from rl_core.report.facts import costs, final_by_domain, first_by_domain, gold_ends, live_ends, tally
from rl_core.report.rows import decision_rows, forest_head, shown_decisions, update_rows
from rl_core.report.run import STATUS_NAMES, Run


def context(run: Run) -> dict[str, Any]:
    """Everything the template needs, as text and ready SVG."""
    shown = shown_decisions(run)
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
        "charts": curves(run, set(shown)),
        "map": group_map(run),
        "decisions": decision_rows(run, shown),
        "hidden": len(run.decisions) - len(shown),
        "forest": forest_head(run),
        "domains": _domains(run),
        "compared": run.baseline is not None or run.summary.baseline is not None,
        "costs": _costs(run),
        "updates": update_rows(run, set(shown)),
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
        {
            "name": "Held-out gold",
            "value": f.number(last),
            "was": f.number(first) if first is not None else "",
            "note": "first and last evaluation" if last is not None else "not measured",
        },
        {
            "name": "Live groups",
            "value": f.percent(b),
            "was": f.percent(a) if a is not None else "",
            "note": width if a is not None else "not logged",
        },
        {
            "name": "Probe rollouts",
            "value": f.percent(c.probe_share),
            "was": "",
            "note": f"{f.count(c.probes)} of {f.count(c.rollouts)} rollouts" if c.probes is not None else "not logged",
        },
        {
            "name": "Reference labels",
            "value": f.percent(c.label_share),
            "was": "",
            "note": f"{f.count(c.labels)} on {f.count(c.rollouts)} rollouts" if c.labels is not None else "not logged",
        },
        {
            "name": "Harness updates",
            "value": f.count(len(run.updates)),
            "was": "",
            "note": (f"{healthy} found nothing to mend" + (f", {failed} failed" if failed else ""))
            if run.updates
            else "none logged",
        },
        {
            "name": "Wall time",
            "value": f.duration(s.seconds),
            "was": "",
            "note": f"{f.duration(c.update_seconds)} in updates"
            if c.update_seconds is not None
            else ""
            if s.seconds is not None
            else "not logged",
        },
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
        each = [
            f"{f.count(x / accepted)} {name}"
            for x, name in ((c.probes, "probe rollouts"), (c.labels, "labels"))
            if x is not None
        ]
        rows.append(("Per accepted edit", [" and ".join(each) or f.MISSING] + [f.MISSING] * (len(both) - 1)))
    return {"rows": rows, "baseline": run.baseline is not None}
