"""What a run shows, in figures: comparison at equal rollouts, costs, decisions. Shared by page and terminal text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from rl_core.report.run import Eval, Run, Step

INTERFACES = ("sampler", "guidance", "rubric")
Points = list[tuple[float, float]]


def by_rollouts(run: Run) -> bool:
    """Can everything be put on the axis of rollouts (probes included)? Else steps are used."""
    runs = [run] + ([run.baseline] if run.baseline else [])
    known = [s.rollouts is not None for r in runs for s in r.steps]
    known += [e.rollouts is not None for r in runs for e in r.evals]
    return bool(known) and all(known)


def position(line: Step | Eval, rollouts: bool) -> float:
    return float(line.rollouts if rollouts and line.rollouts is not None else line.step)


def gold_points(run: Run, rollouts: bool) -> Points:
    return [(position(e, rollouts), e.gold) for e in run.evals if e.gold is not None]


def at(points: Points, x: float) -> float | None:
    """Value at x, linear between measured points; None outside them."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= x <= x1:
            return y1 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1] if points and points[-1][0] == x else None


@dataclass(frozen=True)
class Comparison:
    """Held-out gold of both runs; ``rollouts`` where both are read (None: each at its own end)."""

    harness: float
    baseline: float
    rollouts: float | None

    @property
    def gain(self) -> float:
        return self.harness - self.baseline


def gold_ends(run: Run) -> tuple[float | None, float | None]:
    """(first, last) held-out gold."""
    points = gold_points(run, False)
    first = points[0][1] if points else run.summary.gold_first
    return first, points[-1][1] if points else run.summary.gold_last


def compare(run: Run) -> Comparison | None:
    """With against without harness at the same number of rollouts, probes included; None without both golds."""
    last = gold_ends(run)[1]
    if run.baseline is not None:
        if by_rollouts(run):
            ours, theirs = gold_points(run, True), gold_points(run.baseline, True)
            if ours and theirs:
                x = min(ours[-1][0], theirs[-1][0])
                a, b = at(ours, x), at(theirs, x)
                if a is not None and b is not None:
                    return Comparison(a, b, x)
        other = gold_ends(run.baseline)[1]
    else:
        other = run.summary.baseline.gold_last if run.summary.baseline else None
    return Comparison(last, other, None) if last is not None and other is not None else None


@dataclass(frozen=True)
class Costs:
    """Counts of one run; None where neither summary nor log says. Shares are of all rollouts, probes included."""

    steps: int
    rollouts: float | None
    probes: float | None
    labels: float | None
    probe_share: float | None
    label_share: float | None
    update_seconds: float | None
    seconds: float | None

    @property
    def training(self) -> float | None:
        return None if self.rollouts is None or self.probes is None else self.rollouts - self.probes


def known_sum(values: Iterable[float | None]) -> float | None:
    """Sum of what is known; None when nothing is."""
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def costs(run: Run) -> Costs:
    s = run.summary
    lines: list[Step | Eval] = [*run.steps, *run.evals]
    rollouts, probes, labels = s.rollouts, s.probe_rollouts, s.labels
    if rollouts is None:
        rollouts = max((x.rollouts for x in lines if x.rollouts is not None), default=None)
    if probes is None:
        probes = known_sum([u.probe_rollouts for u in run.updates])
    if labels is None:
        labels = max((x.labels for x in run.steps if x.labels is not None), default=None)
        labels = known_sum([u.labels for u in run.updates]) if labels is None else labels

    def share(given: float | None, part: float | None) -> float | None:
        return given if given is not None else part / rollouts if part is not None and rollouts else None

    last = s.steps or (run.steps[-1].step if run.steps else 0)
    return Costs(
        last,
        rollouts,
        probes,
        labels,
        share(s.probe_share, probes),
        share(s.label_share, labels),
        known_sum([u.seconds for u in run.updates]),
        s.seconds,
    )


def live_ends(run: Run, width: int = 10) -> tuple[float | None, float | None, int]:
    """Mean share of live groups over the first and the last ``width`` steps (fewer in a short run), and the width."""
    values = [s.live_share for s in run.steps if s.live_share is not None]
    n = min(width, max(1, len(values) // 2))
    if not values:
        return None, None, n
    return sum(values[:n]) / n, sum(values[-n:]) / n, n


def final_by_domain(run: Run) -> dict[str, float]:
    for e in reversed(run.evals):
        if e.gold_by_domain:
            return {d: v for d, v in e.gold_by_domain.items() if v is not None}
    return {d: v for d, v in (run.summary.gold_by_domain or {}).items() if v is not None}


def first_by_domain(run: Run) -> dict[str, float]:
    rows = [e.gold_by_domain for e in run.evals if e.gold_by_domain]
    return {d: v for d, v in rows[0].items() if v is not None} if len(rows) > 1 else {}


def rolled_back_at(run: Run) -> dict[int, int]:
    """Index of an accepted decision -> step of its later rollback."""
    out: dict[int, int] = {}
    for i, d in enumerate(run.decisions):
        if d.status != "rolled_back":
            continue
        for j in range(i - 1, -1, -1):
            earlier = run.decisions[j]
            if earlier.status == "accepted" and j not in out and earlier.edit.key == d.edit.key:
                out[j] = d.step
                break
    return out


def tally(run: Run) -> dict[str, Counter[str]]:
    """Interface -> status -> number of ledger lines; the three interfaces first, in fixed order."""
    out: dict[str, Counter[str]] = {i: Counter() for i in INTERFACES}
    for d in run.decisions:
        out.setdefault(d.interface, Counter())[d.status] += 1
    return out
