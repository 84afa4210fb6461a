"""The plain sentences of the report: what failed, what was changed, what it gained."""

from __future__ import annotations

from rl_core.report import figures as f
from rl_core.report.facts import Comparison, compare, costs, gold_ends, live_ends, rolled_back_at
from rl_core.report.run import Run

KINDS = {
    "non-discriminative": "the rewards of a group do not differ, so it teaches nothing",
    "blind": "the rubric does not see what the reference values",
    "spurious": "the rubric pays for what the reference does not value",
    "inverted": "the rubric orders answers against the reference",
    "noisy": "the judge changes its mind on the same answer",
    "dead_low": "groups too hard: no rollout earns reward",
    "dead_high": "groups mastered: every rollout earns full reward",
    "dead_flat": "flat groups: every rollout earns the same",
    "hint_unneeded": "the policy no longer needs the hint",
    "criterion_dead": "a criterion that never tells answers apart",
    "criterion_double": "a criterion that says what another one says",
}
#: Differences of gold below this are written as none.
NO_DIFFERENCE = 0.005


def failures(run: Run) -> list[str]:
    """From the summary, else each failure that led to a decision, once."""
    if run.summary.failures:
        return [f.sentence(f.clean(t)) for t in run.summary.failures]
    seen: dict[tuple[str, str], str] = {}
    for d in run.decisions:
        x = d.failure
        if x is None or not (x.kind or x.reason):
            continue
        kind = KINDS.get(x.kind, x.kind.replace("_", " "))
        place = f" ({x.where})" if x.where else ""
        seen.setdefault((x.kind, x.where), f.sentence(f.clean(f"{kind}{place}" if kind else x.reason)))
    return list(seen.values())


def changes(run: Run) -> list[str]:
    """From the summary, else the accepted edits."""
    if run.summary.changes:
        return [f.sentence(f.clean(t)) for t in run.summary.changes]
    undone = rolled_back_at(run)
    out = []
    for i, d in enumerate(run.decisions):
        if d.status == "accepted":
            tail = f", rolled back at step {undone[i]}" if i in undone else ""
            out.append(f.sentence(f"step {d.step}: {f.clean(d.description, 170)}{tail}"))
    return out


def _where(c: Comparison) -> str:
    return "each at its end" if c.rollouts is None else f"at {f.count(c.rollouts)} rollouts each, probes included"


def headline(run: Run) -> str:
    """One sentence: the result."""
    c = compare(run)
    first, last = gold_ends(run)
    so_far = "" if run.finished else "So far: "
    if c is not None:
        equal = ", at equal rollouts" if c.rollouts is not None else ""
        text = f"held-out gold {f.number(c.harness)} with the harness, {f.number(c.baseline)} without{equal}"
        return _start(so_far, f"{text}: {_verdict(c.gain)}")
    if last is not None and first is not None:
        return _start(so_far, f"held-out gold went from {f.number(first)} to {f.number(last)}")
    accepted = sum(d.status == "accepted" for d in run.decisions)
    if not run.steps:
        return "Nothing has been logged yet"
    if not run.decisions:
        return _start(so_far, f"no edit was tested in {f.plural(costs(run).steps, 'step')}")
    return _start(so_far, f"{accepted} of {f.plural(len(run.decisions), 'tested edit')} accepted, gold not measured")


def _start(prefix: str, text: str) -> str:
    return prefix + text if prefix else text[0].upper() + text[1:]


def _verdict(gain: float) -> str:
    return "no difference" if abs(gain) < NO_DIFFERENCE else f.signed(gain)


def gains(run: Run) -> list[str]:
    """What the harness gained, or why that cannot be said."""
    out: list[str] = []
    c = compare(run)
    first, last = gold_ends(run)
    if c is not None:
        out.append(
            f"Held-out gold {f.number(c.harness)} against {f.number(c.baseline)} for the same run without "
            f"harness, {_where(c)}: {_verdict(c.gain)}."
        )
        if c.gain <= -NO_DIFFERENCE:
            out.append("In this run the harness did not pay.")
        if first is not None:
            out.append(f"The run with harness started at {f.number(first)}.")
    elif last is not None:
        out.append(f"Held-out gold went from {f.number(first)} to {f.number(last)}.")
        out.append(
            "There is no run without harness to compare with, so how much of this the harness earned is not known."
        )
    else:
        out.append("Gold was not measured, so what the edits gained is not known.")
    a, b, n = live_ends(run)
    if a is not None:
        width = f"{n} steps" if n > 1 else "step"
        out.append(f"Live groups went from {f.percent(a)} (first {width}) to {f.percent(b)} (last {width}).")
    return out


def notes(run: Run) -> list[str]:
    """The run's own notes, then what the log itself says and the notes do not."""
    out = [f.sentence(f.clean(t, 600)) for t in run.summary.notes]
    said = " ".join(out).lower()
    if not run.finished:
        out.append(
            f"The run is not finished (no summary.json): figures are those logged up to step {costs(run).steps}."
        )
    accepted = any(d.status == "accepted" for d in run.decisions)
    if accepted and costs(run).labels == 0 and "signal, not validity" not in said:
        out.append("No reference labels were used: the figures of the decisions show signal, not validity.")
    if any(d.status == "inconclusive" for d in run.decisions) and "inconclusive" not in said:
        out.append(
            "Inconclusive is a valid result: the evidence within the budget was not enough to accept or reject, "
            "and it carries over to the next update."
        )
    c, told = compare(run), run.summary.gain
    if c is not None and told is not None and abs(c.gain - told) >= NO_DIFFERENCE:
        out.append(f"summary.json gives a gain of {f.signed(told)}; this report compares {_where(c)}.")
    if c is not None and "seed" not in said:
        seed = "" if run.summary.seed is None else f", seed {run.summary.seed}"
        out.append(f"One run with and one without harness{seed}: a gap within the spread between seeds proves nothing.")
    return out + run.gaps
