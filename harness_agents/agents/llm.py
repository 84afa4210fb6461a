"""Evolver, proposer and critic reader on any LangChain chat model, each with its rule-based twin behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness_agents.agents.base import Structured
from harness_agents.agents.digest import answers_shown, history_lines, scope_in_words, state_in_words
from harness_agents.agents.protocols import (
    Attribution,
    CriticReader,
    Evolver,
    FailureKind,
    PastEdits,
    Proposal,
    Proposer,
    Reading,
    Refusal,
    Situation,
)
from harness_agents.templates import Templates
from rl_core.edits import Interface, Scope, describe, parse_edit
from rl_core.errors import InputError
from rl_core.judge.text import nonce
from rl_core.state import candidate

Text = Annotated[str, Field(max_length=1000)]


class _Schema(BaseModel):
    model_config = ConfigDict(extra="ignore")


class AttributionAnswer(_Schema):
    kind: FailureKind
    interface: Interface
    domains: list[str] = Field(default_factory=list, max_length=50)
    tasks: list[str] = Field(default_factory=list, max_length=500)
    reason: Text = Field(min_length=1)
    evidence: list[str] = Field(default_factory=list, max_length=24)


class EvolverAnswer(_Schema):
    attributions: list[AttributionAnswer] = Field(max_length=12)


class EditAnswer(_Schema):
    attribution: int = Field(ge=1)
    edit: dict[str, Any]
    reason: Text = ""
    prediction: float | None = Field(None, ge=-1, le=1)


class ProposerAnswer(_Schema):
    edits: list[EditAnswer] = Field(max_length=12)


class CriticAnswer(_Schema):
    veto: Text | None = None
    notes: Text = ""


class LLMEvolver:
    """Attributes failures; it may overrule the rules with evidence that it cites by id."""

    def __init__(self, model: BaseChatModel, templates: Templates, twin: Evolver) -> None:
        self._ask, self._twin = Structured(model, templates, "evolver.j2", EvolverAnswer), twin

    @property
    def notes(self) -> dict[str, Any]:
        return self._ask.notes

    def attribute(self, situation: Situation) -> list[Attribution]:
        s = situation
        twin = self._twin.attribute(s)
        mark = nonce()
        found = self._ask.ask(
            lambda answer: [_attribution(s, a) for a in answer.attributions],
            alarms=[
                {"kind": a.kind, "where": scope_in_words(a.where), "text": a.text, "evidence": list(a.evidence)}
                for a in s.report.alarms[:20]
            ],
            tables=s.report.summary_lines()[:30],
            rules=[f"{a.kind} -> {a.interface}, {a.where}: {a.reason}" for a in twin[:8]],
            answers=answers_shown(s, mark),
            memory=list(s.recall),
            state=state_in_words(s),
            domains=s.tasks.domains,
            capabilities=_abilities(s),
            nonce=mark,
        )
        # hints that idle are bookkeeping, not a question of judgement
        return twin if found is None else [*found, *(a for a in twin if a.kind == "hint_unneeded")]


class LLMProposer:
    """Writes edits; only data comes out of it (text, numbers, ids, names of registered checks)."""

    def __init__(self, model: BaseChatModel, templates: Templates, twin: Proposer) -> None:
        self._ask, self._twin = Structured(model, templates, "proposer.j2", ProposerAnswer), twin

    @property
    def notes(self) -> dict[str, Any]:
        return self._ask.notes

    def propose(
        self, situation: Situation, attributions: Sequence[Attribution], *, refused: Sequence[Refusal], limit: int
    ) -> list[Proposal]:
        s = situation
        if not attributions:
            return []
        mark = nonce()
        found = self._ask.ask(
            lambda answer: [_proposal(s, attributions, e) for e in answer.edits],
            attributions=[
                {
                    "number": i,
                    "kind": a.kind,
                    "interface": a.interface,
                    "where": a.where,
                    "reason": a.reason,
                    "scope": scope_in_words(a.scope),
                }
                for i, a in enumerate(attributions[:8], start=1)
            ],
            state=state_in_words(s),
            families=sorted(s.report.overall.criteria)[:60],
            checks=[f"{c.id}: {c.text}" for c in s.catalogue[:60]] if s.may_write_criteria else [],
            refused=[f"{describe(r.edit)}: {r.status}, {r.why}" for r in refused],
            history=history_lines(s),
            answers=answers_shown(s, mark),
            limit=limit,
            nonce=mark,
        )
        if found is None:
            return self._twin.propose(s, attributions, refused=refused, limit=limit)
        return found[:limit]


class LLMCritic:
    """Reads what arithmetic cannot (a hint that gives the answer away in other words); the rules' vetoes stand."""

    def __init__(self, model: BaseChatModel, templates: Templates, twin: CriticReader) -> None:
        self._ask, self._twin = Structured(model, templates, "critic.j2", CriticAnswer), twin

    @property
    def notes(self) -> dict[str, Any]:
        return self._ask.notes

    def read(self, situation: Situation, proposal: Proposal, past: PastEdits) -> Reading:
        first = self._twin.read(situation, proposal, past)
        if first.veto is not None:
            return first
        found = self._ask.ask(
            lambda answer: Reading(veto=answer.veto or None, notes=answer.notes),
            description=describe(proposal.edit),
            edit=proposal.edit.model_dump(mode="json", exclude_defaults=True),
            reason=proposal.reason,
            failure=f"{proposal.attribution.kind} on {proposal.attribution.where}: {proposal.attribution.reason}",
            state=state_in_words(situation),
            memory=list(situation.recall),
            history=history_lines(situation),
        )
        return first if found is None else found


def _attribution(s: Situation, a: AttributionAnswer) -> Attribution:
    known = {i for alarm in s.report.alarms for i in alarm.evidence}
    known |= {r.id for e in s.entries for r in e.group.rollouts}
    if odd := [i for i in a.evidence if i not in known][:3]:
        raise ValueError(f"evidence ids that do not exist: {', '.join(odd)}")
    if odd := [d for d in a.domains if d not in s.tasks.domains][:3]:
        raise ValueError(f"unknown domains: {', '.join(odd)}")
    if odd := [t for t in a.tasks if t not in s.tasks][:3]:
        raise ValueError(f"unknown tasks: {', '.join(odd)}")
    if a.interface == "guidance" and not s.capabilities.guidance:
        raise ValueError("this loop cannot give hints to single rollouts")
    scope = Scope(domains=tuple(a.domains), tasks=tuple(a.tasks))
    alarms = [
        x for x in s.report.alarms if x.kind == a.kind and (not a.domains or set(x.where.domains) & set(a.domains))
    ]
    worst = max(alarms, key=lambda x: x.severity, default=None)
    return Attribution(
        kind=a.kind,
        interface=a.interface,
        scope=scope,
        where=scope_in_words(scope)[:300],
        reason=a.reason,
        evidence=tuple(a.evidence),
        statistic=worst.statistic if worst else None,
        interval=worst.interval if worst else None,
        worth=worst.severity if worst else 0.0,
        families=(worst.family,) if worst and worst.family else (),
    )


def _proposal(s: Situation, attributions: Sequence[Attribution], e: EditAnswer) -> Proposal:
    if e.attribution > len(attributions):
        raise ValueError(f"there is no attribution {e.attribution}")
    a = attributions[e.attribution - 1]
    try:
        edit = parse_edit(_known_checks(_filled(e.edit, a.scope), s))
        new = candidate(s.state, edit)
        for task in s.tasks:
            new.rubric_for(task)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise ValueError(f"edit: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except InputError as error:
        raise ValueError(f"edit: {error}") from None
    if edit.interface != a.interface:
        raise ValueError(f"attribution {e.attribution} asks for the {a.interface}, the edit is on the {edit.interface}")
    return Proposal(edit=edit, attribution=a, reason=e.reason, prediction=e.prediction)


def _filled(data: Any, scope: Scope) -> Any:
    """ "attribution" in place of a scope stands for the attribution's own: nobody should copy 200 task ids."""
    if isinstance(data, dict):
        out = {k: _filled(v, scope) for k, v in data.items()}
        if out.get("scope") == "attribution":
            out["scope"] = scope.model_dump(mode="json")
        if isinstance(out.get("rules"), list):
            out["rules"] = [
                [scope.model_dump(mode="json"), *r[1:]] if isinstance(r, list) and r and r[0] == "attribution" else r
                for r in out["rules"]
            ]
        return out
    return [_filled(v, scope) for v in data] if isinstance(data, list) else data


def _known_checks(data: dict[str, Any], s: Situation) -> dict[str, Any]:
    """A criterion named like one of the catalogue takes that one's check; others need the judge."""
    catalogue = {c.id: c for c in s.catalogue}

    def known(raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        found = catalogue.get(str(raw.get("id")))
        if found is not None:
            return {**found.model_dump(mode="json"), "weight": raw.get("weight", found.weight)}
        if not s.scorer.has_judge:
            raise ValueError(f"edit: criterion {raw.get('id')!r} needs a judge, there is none; name a registered check")
        return {**{k: raw[k] for k in ("id", "text", "weight", "category") if k in raw}, "origin": "proposer"}

    out = dict(data)
    if isinstance(out.get("added"), list):
        out["added"] = [known(c) for c in out["added"]]
    if "criterion" in out:
        out["criterion"] = known(out["criterion"])
    return out


def _abilities(s: Situation) -> list[str]:
    out = ["sampler", "rubric"] if s.may_write_criteria else ["sampler", "rubric (retire only)"]
    return [*out, "guidance"] if s.capabilities.guidance else out
