"""Edits by rules (the proposer's twin): one composite re-weighting, one hint for a cluster, one sampler edit."""

from __future__ import annotations

from collections.abc import Sequence

from harness_agents.agents.protocols import Attribution, Proposal, Refusal, Situation
from harness_agents.agents.rules.reading import net_factor, next_hint, steadily
from rl_core.edits import (
    GuidanceAdd,
    GuidanceItem,
    GuidanceRemove,
    RubricRetire,
    SamplerEdit,
    Scope,
)
from rl_core.refit import fit_composite

#: Mastered and unreachable tasks keep an eighth of their weight (and the uniform floor below it).
DOWN = 1 / 8
DOSE = 0.5
#: Share of the reference answer that a partial answer shows.
AMOUNT = 0.7


class RulesProposer:
    """At most one edit for each attribution, in the order of the attributions."""

    def propose(
        self, situation: Situation, attributions: Sequence[Attribution], *, refused: Sequence[Refusal], limit: int
    ) -> list[Proposal]:
        out: list[Proposal] = []
        gone = {r.edit.key for r in refused}
        for a in attributions:
            made = self._edit(situation, a, refused)
            if made is None or made.edit.key in gone:
                continue
            gone.add(made.edit.key)
            out.append(made)
            if len(out) == limit:
                break
        return out

    def _edit(self, s: Situation, a: Attribution, refused: Sequence[Refusal]) -> Proposal | None:
        if a.interface == "rubric":
            return self._rubric(s, a)
        if a.interface == "sampler":
            return self._sampler(s, a, refused)
        return self._guidance(s, a, refused)

    def _rubric(self, s: Situation, a: Attribution) -> Proposal | None:
        if a.kind in ("criterion_dead", "criterion_double"):
            return Proposal(
                edit=RubricRetire(scope=a.scope, family=a.families[0]), attribution=a, reason=a.reason, prediction=0.0
            )
        if not s.has_reference:
            return None
        catalogue = s.catalogue if s.may_write_criteria else ()
        fit = fit_composite(s.entries, s.state, s.tasks, s.scorer, catalogue, scope=a.scope)
        if fit is None:
            return None
        used = sum(a.scope.covers(e.group.task_id, s.tasks[e.group.task_id].domain) for e in s.entries)
        return Proposal(
            edit=fit.edit,
            attribution=a,
            prediction=fit.predicted,
            reason=f"weights that follow the reference on {used} evidence groups ({a.where})",
        )

    def _guidance(self, s: Situation, a: Attribution, refused: Sequence[Refusal]) -> Proposal | None:
        if a.kind == "hint_unneeded":
            return Proposal(edit=GuidanceRemove(item_id=a.where), attribution=a, reason=a.reason, prediction=0.0)
        ids = [t.id for t in s.tasks if a.scope.covers(t.id, t.domain)]
        kind = next_hint(s, ids, refused)
        if kind is None:
            return None
        domains = list(dict.fromkeys(s.tasks[i].domain for i in ids))
        name = domains[0] if len(domains) == 1 else f"{len(domains)}-domains"
        item = GuidanceItem(
            id=f"{kind}-{name}-u{s.update}"[:80],
            kind=kind,
            scope=a.scope,
            dose=DOSE,
            amount=AMOUNT if kind == "partial_answer" else 1.0,
        )
        shown = kind.replace("_", " ")
        return Proposal(
            edit=GuidanceAdd(item=item),
            attribution=a,
            reason=f"show {shown} in {DOSE:.0%} of each group of {len(ids)} tasks",
        )

    def _sampler(self, s: Situation, a: Attribution, refused: Sequence[Refusal]) -> Proposal | None:
        chosen = {t.id for t in s.tasks if a.scope.covers(t.id, t.domain)}
        if not chosen or len(chosen) == len(s.tasks):
            return None
        whole = [d for d in s.tasks.domains if all(t.id in chosen for t in s.tasks if t.domain == d)]
        rest = tuple(sorted(i for i in chosen if s.tasks[i].domain not in whole))
        back = tuple(
            i
            for i, t in s.report.tasks.items()
            if i in s.tasks and i not in chosen and steadily(s, i, "live") and net_factor(s.state, s.tasks[i]) <= DOWN
        )
        scopes = [(Scope(domains=tuple(whole)), DOWN), (Scope(tasks=rest), DOWN), (Scope(tasks=back), 1 / DOWN)]
        rules = tuple((scope, factor) for scope, factor in scopes if scope.level != "global")
        if not rules:
            return None
        edit = SamplerEdit(rules=rules)
        if any(r.edit.key == edit.key for r in refused):
            return None
        return Proposal(edit=edit, attribution=a, prediction=self._predict(s, chosen), reason=a.reason)

    def _predict(self, s: Situation, chosen: set[str]) -> float | None:
        """Mean lift of evidence groups of the other tasks minus that of these tasks."""
        from rl_core.lift import lift

        inside: list[float] = []
        outside: list[float] = []
        for e in s.entries:
            value = lift(e.group.rewards, e.values)
            if value is not None:
                (inside if e.group.task_id in chosen else outside).append(value)
        if len(outside) < 8:
            return None
        return sum(outside) / len(outside) - (sum(inside) / len(inside) if inside else 0.0)
