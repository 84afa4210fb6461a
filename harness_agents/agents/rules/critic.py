"""The critic's reading half by rules: leaks, protected criteria, coverage, repeats. It vetoes, it never accepts."""

from __future__ import annotations

import re

from harness_agents.agents.protocols import PastEdits, Proposal, Reading, Situation
from harness_agents.agents.rules.reading import protected_families
from rl_core.edits import Edit, GuidanceAdd, SamplerEdit, as_composite
from rl_core.errors import InputError
from rl_core.state import HarnessState, candidate

#: A hint may not show more than this share of a reference answer.
MAX_SHOWN = 0.9
#: A shared run of this many words is copied text.
COPIED_WORDS = 8
#: A domain keeps at least this part of its uniform share of draws, and the draw this part of its tasks.
COVERAGE = 0.25
#: Chances of being drawn that differ by no more than this are the same.
SAME_CHANCE = 1e-12


class RulesCritic:
    """Everything that can be refused by arithmetic, before a probe is paid for."""

    def read(self, situation: Situation, proposal: Proposal, past: PastEdits) -> Reading:
        edit = proposal.edit
        veto = (
            _unfit(situation, edit)
            or _unable(situation, edit)
            or _protected(situation, edit)
            or _no_change(situation, edit)
            or _leak(situation, edit)
            or _coverage(situation, edit)
            or past(edit, proposal.attribution.statistic)
        )
        return Reading(veto=veto)


def _unfit(s: Situation, edit: Edit) -> str | None:
    try:
        new = candidate(s.state, edit)
        if edit.interface == "rubric":
            scope = as_composite(edit).scope
            for task in s.tasks:
                if scope.covers(task.id, task.domain):
                    new.rubric_for(task)
    except (InputError, ValueError) as e:
        return f"does not fit: {e}"
    return None


def _no_change(s: Situation, edit: Edit) -> str | None:
    """Nothing can be measured on an edit that changes no rubric, no draw and no hint."""
    new = candidate(s.state, edit)
    if edit.interface == "rubric":
        composite = as_composite(edit)
        if not composite.added and all(m == 1.0 for m in composite.multipliers.values()):
            return "changes nothing"
        if all(new.rubric_for(t) == s.state.rubric_for(t) for t in s.tasks if composite.scope.covers(t.id, t.domain)):
            return "changes nothing"
    if edit.interface == "sampler":
        before, after = s.state.sampler.distribution(s.tasks), new.sampler.distribution(s.tasks)
        if all(abs(after[i] - p) <= SAME_CHANCE for i, p in before.items()):
            return "changes nothing"
    if new.digest == s.state.digest:
        return "changes nothing"
    return None


def _unable(s: Situation, edit: Edit) -> str | None:
    if isinstance(edit, GuidanceAdd) and not s.capabilities.guidance:
        return "unsupported: this loop cannot guide single rollouts and give their unguided log-probs"
    if edit.interface == "rubric" and as_composite(edit).added and not s.has_reference and not s.may_write_criteria:
        return "without a reference, new criteria need a human's yes"
    return None


def _protected(s: Situation, edit: Edit) -> str | None:
    if edit.interface != "rubric":
        return None
    composite = as_composite(edit)
    shielded = protected_families(s.state, s.tasks, composite.scope)
    touched = sorted(f for f, m in composite.multipliers.items() if m != 1.0 and f in shielded)
    replaced = sorted(c.id for c in composite.added if c.family in shielded)
    if touched or replaced:
        return "touches protected criteria: " + ", ".join([*touched, *replaced])[:200]
    return None


def _leak(s: Situation, edit: Edit) -> str | None:
    """The whole answer in a hint makes the policy copy, not learn."""
    if not isinstance(edit, GuidanceAdd):
        return None
    item = edit.item
    if item.kind == "partial_answer" and item.amount > MAX_SHOWN:
        return f"leak: shows {item.amount:.0%} of the reference answer"
    if not item.text:
        return None
    shown = _words(item.text)
    text = f" {' '.join(shown)} "
    for task in s.tasks:
        if not item.scope.covers(task.id, task.domain) or not task.reference_answer:
            continue
        answer = _words(task.reference_answer)
        n = min(len(answer), COPIED_WORDS)
        if n and any(f" {' '.join(answer[i : i + n])} " in text for i in range(len(answer) - n + 1)):
            return f"leak: the hint holds text of the reference answer of task {task.id}"
    return None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _coverage(s: Situation, edit: Edit) -> str | None:
    if not isinstance(edit, SamplerEdit):
        return None
    now, new = s.state.sampler, candidate(s.state, edit)
    p = new.sampler.distribution(s.tasks)
    effective = 1.0 / sum(x * x for x in p.values())
    if effective < COVERAGE * len(s.tasks):
        return f"coverage: only {effective:.0f} of {len(s.tasks)} tasks would count (effective number)"
    thin = _thin_domains(s, new)
    before = _thin_domains(s, s.state) if now.rules else set()
    if thin - before:
        return "coverage: too few draws would be left to " + ", ".join(sorted(thin - before))
    return None


def _thin_domains(s: Situation, state: HarnessState) -> set[str]:
    p = state.sampler.distribution(s.tasks)
    share: dict[str, float] = {}
    size: dict[str, int] = {}
    for t in s.tasks:
        share[t.domain] = share.get(t.domain, 0.0) + p[t.id]
        size[t.domain] = size.get(t.domain, 0) + 1
    return {d for d, x in share.items() if x < COVERAGE * size[d] / len(s.tasks)}
