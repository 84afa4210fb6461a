"""From an update to memory records and back: what is remembered, and whether an edit was turned down before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness_agents.agents.protocols import PastEdits
from harness_agents.services import Services
from harness_agents.state import UpdateState
from memory import EditOutcome, FailureEpisode, RealisedEffect, Record, log2_change
from rl_core.edits import Edit, GuidanceAdd, as_composite, describe, parse_edit
from rl_core.reward_report import Alarm, RewardReport

#: Failures of one update that are remembered, worst first.
MAX_FAILURES = 8


def change_of(edit: Edit) -> dict[str, float]:
    """Weight change of a rubric edit by family (log2); empty for the other interfaces."""
    if edit.interface != "rubric":
        return {}
    composite = as_composite(edit)
    return log2_change(composite.multipliers, tuple(c.family for c in composite.added))


def past_edits(services: Services) -> PastEdits:
    """Whether the same edit, or a re-weighting in the same direction, was turned down and nothing changed since."""
    memory, run = services.memory, services.now

    def past(edit: Edit, statistic: float | None) -> str | None:
        if memory is None:
            return None
        found: list[Record] = list(memory.tried(edit.interface, edit.key))
        if edit.interface == "rubric":
            found += [
                s.record
                for s in memory.similar_composite(change_of(edit), domain=_domain(edit))
                if s.relation == "repeat"
            ]
        for record in found:
            later = record.run == services.run_name and record.update >= run.update  # left over from a killed run
            if not later and isinstance(record, EditOutcome) and record.stops_repeat(statistic):
                came = "rolled back" if record.outcome == "rolled_back" else f"for {record.data.get('reason_class')}"
                return f"repeat: turned down {came} at update {record.update}, and the failure is as it was"
        return None

    return past


def records_of(services: Services, state: UpdateState) -> list[Record]:
    """Failures, decisions and realised effects of one update; texts hold no figure of the gate's test half."""
    run = services.now
    base: dict[str, Any] = {"run": services.run_name, "step": run.step, "update": run.update}
    out: list[Record] = []
    data = state.get("report")
    report = RewardReport.from_dict(data) if data else None
    answered = {d["failure"]["where"]: d["interface"] for d in state["decisions"]}
    for a in report.alarms[:MAX_FAILURES] if report else ():
        out.append(
            FailureEpisode(
                **base,
                interface=answered.get(_where(a), "none"),
                domain=_single(a.where.domains),
                key=f"{a.kind}:{_where(a)}:{a.family or a.feature or ''}"[:200],
                text=a.text,
                data={"statistic": a.statistic, "interval": list(a.interval), "severity": a.severity},
            )
        )
    for d in state["decisions"]:
        edit = parse_edit(d["edit"])
        out.append(
            EditOutcome(
                **base,
                interface=edit.interface,
                domain=_domain(edit),
                outcome=d["status"],
                key=edit.key,
                text=f"{describe(edit)}. Answered {d['failure']['kind']}: {d['failure']['reason']}. "
                f"Outcome: {d['status']} ({d['why']}).",
                data={
                    "reason_class": d["why"],
                    "statistic": d["failure"]["statistic"],
                    "interval": d["failure"]["interval"],
                    "change": change_of(edit),
                    "prediction": d["prediction"],
                    "figures": {k: v for k, v in d["figures"].items() if k != "e_path"},
                    "edit": d["edit"],
                },
            )
        )
    out += _effects(services, report, base)
    return out


def _effects(services: Services, report: RewardReport | None, base: Mapping[str, Any]) -> list[Record]:
    """What the edits accepted at the update before did to the statistic that triggered them."""
    previous = services.now.previous
    if report is None or not previous:
        return []
    out: list[Record] = []
    for d in previous.get("decisions", ()):
        if d["status"] != "accepted" or d["failure"]["statistic"] is None:
            continue
        edit = parse_edit(d["edit"])
        before = float(d["failure"]["statistic"])
        after = _statistic_now(report, d["failure"])
        outcome = "unknown"
        if after is not None:
            low, high = d["failure"]["interval"] or (before, before)
            outcome = "neutral" if low <= after <= high else "helped" if abs(after) < abs(before) else "harmed"
        shown = f"from {before:.2f} to {after:.2f}" if after is not None else "not seen again with enough support"
        out.append(
            RealisedEffect(
                **base,
                interface=edit.interface,
                domain=_domain(edit),
                outcome=outcome,
                key=edit.key,
                text=f"{describe(edit)}, accepted at update {previous['update']}: {d['failure']['kind']} went {shown}.",
                data={"before": before, "after": after, "accepted_at": previous["update"]},
            )
        )
    return out


def _statistic_now(report: RewardReport, failure: Mapping[str, Any]) -> float | None:
    """The same figure in the new report: from its alarm, else from the tables, else None."""
    kind = failure["kind"]
    scope = failure.get("scope") or {}
    same = [a for a in report.alarms if a.kind == kind and (set(a.where.domains) <= set(scope.get("domains", ())))]
    domains = scope.get("domains") or []
    sections = [report.domains[d] for d in domains if d in report.domains] or [report.overall]
    if kind in ("dead_low", "dead_high"):
        ids = [i for i in scope.get("tasks", ()) if i in report.tasks]
        groups = sum(report.tasks[i].groups - report.tasks[i].unscored for i in ids)
        if ids and groups:
            return float(sum(getattr(report.tasks[i], kind) for i in ids) / groups)
    if kind == "dead_flat" or (kind in ("dead_low", "dead_high") and domains):
        return sections[0].groups.share(kind).value
    validity = sections[0].validity
    if kind in ("blind", "inverted") and validity is not None:
        return validity.blind.value if kind == "blind" else validity.inverted.value
    return same[0].statistic if same else None


def _where(alarm: Alarm) -> str:
    return ", ".join(alarm.where.domains) or (f"{len(alarm.where.tasks)} tasks" if alarm.where.tasks else "all tasks")


def _single(domains: tuple[str, ...]) -> str:
    return domains[0] if len(domains) == 1 else ""


def _domain(edit: Edit) -> str:
    if edit.interface == "rubric":
        return _single(as_composite(edit).scope.domains)
    return _single(edit.item.scope.domains) if isinstance(edit, GuidanceAdd) else ""
