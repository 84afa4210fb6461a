"""Attribution by rules (the evolver's twin): which interface should answer which failure.

dead_low -> guidance while there is an untried hint for the tasks, else sampler (too hard);
dead_high -> sampler (move on); dead_flat, blind, spurious, inverted, noisy -> rubric, all tasks
first, one domain only after a decision for all tasks and with enough banked test groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness_agents.agents.protocols import Attribution, Situation
from harness_agents.agents.rules.reading import (
    dead_tasks,
    draw_share,
    net_factor,
    next_hint,
    protected_families,
    silent_criteria,
    surely_mastered,
)
from rl_core.edits import Interface, Scope, as_composite
from rl_core.reward_report import Alarm, AlarmKind

RUBRIC_KINDS: tuple[AlarmKind, ...] = ("blind", "spurious", "inverted", "noisy", "dead_flat")
#: Clusters of fewer tasks, or of a smaller share of all tasks, are not worth a guided probe of 24 groups.
MIN_CLUSTER = 3
MIN_CLUSTER_SHARE = 0.04
#: A hint is for the whole domain when this share of the domain's tasks in the window is dead_low.
WHOLE_DOMAIN = 0.6
#: Tasks that receive a smaller share of the draws are not worth a sampler edit.
MIN_SHARE = 0.04
#: Updates to wait after a rejected sampler edit: what a policy masters changes slowly, and a test costs labels.
COOLDOWN = 1


class RulesEvolver:
    """Rubric first: the other two interfaces are measured under the rubric that is then in force."""

    def attribute(self, situation: Situation) -> list[Attribution]:
        rest = [*self._hints(situation), *self._sampler(situation)]
        rest.sort(key=lambda a: -a.worth)
        first: list[Attribution] = []
        for a in rest:  # the best of each interface before the second best of any
            if all(b.interface != a.interface for b in first):
                first.append(a)
        rubric = self._rubric(situation) if situation.has_reference else self._silent(situation)
        return [*rubric[:1], *first, *rubric[1:], *(a for a in rest if a not in first), *self._idle(situation)]

    # ---- rubric

    def _rubric(self, s: Situation) -> list[Attribution]:
        alarms = [a for k in RUBRIC_KINDS for a in s.report.of(k)]
        if not alarms:
            return []
        out = [_from_alarms(alarms, Scope(), "all tasks")]
        decided = any(
            e.edit.interface == "rubric"
            and as_composite(e.edit).scope.level == "global"
            and e.status in ("accepted", "rejected")
            for e in s.history
        )
        if decided:
            for domain in s.report.domains:
                mine = [a for a in alarms if domain in a.where.domains]
                if mine and s.test_groups.get(domain, 0) >= s.min_domain_groups:
                    out.append(_from_alarms(mine, Scope(domains=(domain,)), domain))
        return out[:1] + sorted(out[1:], key=lambda a: -a.worth)

    def _silent(self, s: Situation) -> list[Attribution]:
        """Without a reference only a criterion that tells nothing apart may go."""
        shielded = protected_families(s.state, s.tasks, Scope())
        out: list[Attribution] = []
        for family, (why, value) in silent_criteria(s.report.overall.criteria).items():
            if family in shielded or len(s.report.overall.criteria) - len(out) <= 1:
                continue
            stats = s.report.overall.criteria[family]
            text = (
                f"criterion {family} has the same verdict on nearly every completion (met {value:.0%})"
                if why == "dead"
                else f"criterion {family} repeats another one (phi {value:.2f})"
            )
            low, high = (stats.pass_rate.low, stats.pass_rate.high) if why == "dead" else (0.9, 1.0)
            out.append(
                Attribution(
                    kind="criterion_dead" if why == "dead" else "criterion_double",
                    interface="rubric",
                    where=family,
                    reason=text,
                    statistic=value,
                    interval=(low, high),
                    worth=stats.weight_share,
                    families=(family,),
                )
            )
        return sorted(out, key=lambda a: -a.worth)

    # ---- guidance

    def _hints(self, s: Situation) -> list[Attribution]:
        dead = [i for i in dead_tasks(s, "dead_low") if s.state.guidance_for(s.tasks[i]) is None]
        clusters: dict[str, list[str]] = {}
        for i in dead:
            clusters.setdefault(s.tasks[i].domain, []).append(i)
        clusters = {d: ids for d, ids in clusters.items() if next_hint(s, ids) is not None}
        out = []
        for where, ids in clusters.items():
            if len(ids) < max(MIN_CLUSTER, MIN_CLUSTER_SHARE * len(s.tasks)):
                continue
            seen = [i for i in s.report.tasks if i in s.tasks and s.tasks[i].domain == where]
            broad = len(ids) >= WHOLE_DOMAIN * len(seen)  # broadest scope first: unseen tasks will be no easier
            scope = Scope(domains=(where,)) if broad else Scope(tasks=tuple(ids))
            out.append(
                self._dead(
                    s,
                    "dead_low",
                    "guidance",
                    ids,
                    where,
                    f"{len(ids)} of {len(seen)} tasks seen ({where}) never reach reward and no hint was tried on them",
                    scope,
                )
            )
        return out

    def _idle(self, s: Situation) -> list[Attribution]:
        return [
            Attribution(
                kind="hint_unneeded",
                interface="guidance",
                where=item_id,
                statistic=0.0,
                reason=f"the policy reaches the reward of hint {item_id}'s tasks without it, its dose is 0 everywhere",
            )
            for item_id in s.idle_hints
        ]

    # ---- sampler

    def _sampler(self, s: Situation) -> list[Attribution]:
        """Tasks that are mastered for good, and tasks that stay dead and that no hint can open."""
        lately = [e for e in s.history if e.edit.interface == "sampler" and s.update - e.update <= COOLDOWN]
        if any(e.status == "rejected" for e in lately):
            return []
        mastered = [i for i in surely_mastered(s) if net_factor(s.state, s.tasks[i]) > 1 / 8]
        hard = [
            i
            for i in dead_tasks(s, "dead_low")
            if net_factor(s.state, s.tasks[i]) > 1 / 8
            and (s.state.guidance_for(s.tasks[i]) is not None or next_hint(s, [i]) is None)
        ]
        ids = [*mastered, *hard]
        share = draw_share(s.state, s.tasks, ids)
        if len(ids) < MIN_CLUSTER or share < MIN_SHARE:
            return []
        more: AlarmKind = "dead_high" if len(mastered) >= len(hard) else "dead_low"
        where = ", ".join(dict.fromkeys(s.tasks[i].domain for i in ids))
        reason = (
            f"{share:.0%} of draws go to tasks without a gradient: {len(mastered)} mastered, {len(hard)} out of reach"
        )
        return [self._dead(s, more, "sampler", ids, where, reason)]

    def _dead(
        self,
        s: Situation,
        kind: AlarmKind,
        interface: Interface,
        ids: Sequence[str],
        where: str,
        reason: str,
        scope: Scope | None = None,
    ) -> Attribution:
        alarms = [a for a in s.report.of(kind) if set(a.where.domains) & {s.tasks[i].domain for i in ids}]
        best = max(alarms, key=lambda a: a.severity, default=None)
        return Attribution(
            kind=kind,
            interface=interface,
            scope=scope or Scope(tasks=tuple(ids)),
            where=where[:300],
            reason=reason[:1000],
            evidence=tuple(dict.fromkeys(e for a in alarms for e in a.evidence))[:24],
            statistic=best.statistic if best else None,
            interval=best.interval if best else None,
            worth=draw_share(s.state, s.tasks, ids),
        )


def _from_alarms(alarms: Sequence[Alarm], scope: Scope, where: str) -> Attribution:
    worst = max(alarms, key=lambda a: a.severity)
    return Attribution(
        kind=worst.kind,
        interface="rubric",
        scope=scope,
        where=where,
        reason="; ".join(a.text for a in sorted(alarms, key=lambda a: -a.severity)[:3])[:1000],
        evidence=tuple(dict.fromkeys(e for a in alarms for e in a.evidence))[:24],
        statistic=worst.statistic,
        interval=worst.interval,
        worth=worst.severity,
        families=tuple(dict.fromkeys(a.family for a in alarms if a.family))[:16],
    )
