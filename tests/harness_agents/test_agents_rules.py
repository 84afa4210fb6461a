"""The rule-based twins: what they attribute to which interface, what they propose, and what they refuse unmeasured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness_agents.agents.protocols import Attribution, Proposal, Refusal, Situation
from harness_agents.agents.rules import RulesCritic, RulesEvolver, RulesProposer
from rl_core.bank import Entry
from rl_core.edits import (
    Edit,
    GuidanceAdd,
    GuidanceItem,
    GuidanceRemove,
    RubricComposite,
    RubricRetire,
    RubricReweight,
    SamplerEdit,
    Scope,
)
from rl_core.judge.checks import Scorer
from rl_core.ledger import LedgerEntry
from rl_core.policy import Capabilities
from rl_core.rollout import Group, Rollout, groups_of
from rl_core.rubric import Criterion, Rubric, group_rewards
from rl_core.state import HarnessState, candidate
from rl_core.statistics import diagnose
from rl_core.task import Task, TaskSet


class Bench:
    """Situations built from real statistics on rollouts of the toy policy."""

    def __init__(self, toy: Any) -> None:
        self.toy = toy
        self.scorer = Scorer()

    def rollouts(self, groups: int = 3, only: Sequence[str] = (), state: HarnessState | None = None) -> list[Rollout]:
        out = []
        policy, state = self.toy.Policy(), state or HarnessState()
        for task in self.toy.tasks:
            if only and task.domain not in only:
                continue
            rubric = state.rubric_for(task)
            for g in range(groups):
                texts = [c.text for c in policy.generate([task.prompt], n=8, seed=g)[0]]
                verdicts = self.scorer.verdicts(task, texts, rubric)
                for i, (t, v, r) in enumerate(zip(texts, verdicts, group_rewards(rubric, verdicts), strict=True)):
                    out.append(
                        Rollout(
                            id=f"{task.id}.{g}.{i}",
                            task_id=task.id,
                            group_id=f"{task.id}.{g}",
                            step=g,
                            completion=t,
                            verdicts=v,
                            reward=r,
                        )
                    )
        return out

    def situation(self, rollouts: Sequence[Rollout] = (), *, labelled: int = 0, **more: Any) -> Situation:
        rollouts = rollouts or self.rollouts()
        reference = self.toy.Reference()
        entries, values = [], {}
        for g in [g for g in groups_of(rollouts) if g.task_id.startswith("ok")][:labelled]:
            row = reference.values(self.toy.tasks[g.task_id], [r.completion for r in g.rollouts])
            entries.append(Entry(Group(g.id, g.task_id, g.step, g.rollouts), row, g.step))
            values |= {r.id: v for r, v in zip(g.rollouts, row, strict=True)}
        state = more.get("state", HarnessState())
        settings: dict[str, Any] = {
            "update": 1,
            "step": 3,
            "state": state,
            "tasks": self.toy.tasks,
            "scorer": self.scorer,
            "report": diagnose(rollouts, self.toy.tasks, state, values or None),
            "capabilities": Capabilities(),
            "has_reference": labelled > 0,
            "group_size": 8,
            "entries": entries,
            "catalogue": self.toy.catalogue,
        }
        return Situation(**{**settings, **more})


@pytest.fixture
def bench(toy: Any) -> Bench:
    return Bench(toy)


def told(edit: Edit, status: str, *, update: int = 1) -> LedgerEntry:
    return LedgerEntry.model_validate(
        {"update": update, "step": 1, "interface": edit.interface, "edit": edit, "status": status, "state_version": 0}
    )


def protect(tasks: TaskSet, family: str) -> TaskSet:
    """The same tasks with every criterion of a family protected."""
    out = []
    for t in tasks:
        criteria = tuple(c.model_copy(update={"protected": c.family == family}) for c in t.rubric.criteria)
        out.append(t.model_copy(update={"rubric": Rubric(criteria=criteria)}))
    return TaskSet(out)


def kinds(found: Sequence[Attribution]) -> set[tuple[str, str]]:
    return {(a.kind, a.interface) for a in found}


# ---- evolver


def test_each_failure_goes_to_its_interface_and_the_rubric_comes_first(bench: Bench) -> None:
    s = bench.situation(labelled=60)
    found = RulesEvolver().attribute(s)
    assert found[0].interface == "rubric"
    assert found[0].scope == Scope()  # all tasks before one domain
    assert ("dead_low", "guidance") in kinds(found)
    assert ("dead_high", "sampler") in kinds(found)
    hint = next(a for a in found if a.interface == "guidance")
    assert hint.scope == Scope(domains=("hard",))  # nearly all of the domain is out of reach
    known = {r for a in s.report.alarms for r in a.evidence}
    assert all(set(a.evidence) <= known for a in found)


def test_hints_that_were_turned_down_make_the_tasks_too_hard(bench: Bench) -> None:
    s = bench.situation()
    hard = tuple(t.id for t in s.tasks if t.domain == "hard")

    def add(kind: Any) -> GuidanceAdd:
        return GuidanceAdd(item=GuidanceItem(id=f"h-{kind}", kind=kind, scope=Scope(tasks=hard)))

    once = replace(s, history=[told(add("partial_answer"), "rejected")])
    assert ("dead_low", "guidance") in kinds(RulesEvolver().attribute(once))  # criteria are still untried
    twice = replace(s, history=[told(add("partial_answer"), "rejected"), told(add("criteria"), "rejected")])
    found = RulesEvolver().attribute(twice)
    assert not any(a.interface == "guidance" for a in found)
    sampler = next(a for a in found if a.interface == "sampler")
    assert set(hard) <= set(sampler.scope.tasks)
    undecided = replace(s, history=[told(add("partial_answer"), "inconclusive")])
    assert ("dead_low", "guidance") in kinds(RulesEvolver().attribute(undecided))


def test_without_logprobs_hard_tasks_go_to_the_sampler(bench: Bench) -> None:
    found = RulesEvolver().attribute(bench.situation(capabilities=Capabilities(logprobs=False)))
    assert {a.interface for a in found} == {"sampler"}


def test_a_domain_waits_for_the_global_decision_and_for_test_groups(bench: Bench) -> None:
    s = bench.situation(labelled=60)
    decided = [told(RubricReweight(family="long", multiplier=0.0), "rejected")]

    def scopes(**more: Any) -> list[str]:
        return [str(a.scope) for a in RulesEvolver().attribute(replace(s, **more)) if a.interface == "rubric"]

    assert scopes() == ["all tasks"]
    assert scopes(history=decided, test_groups={"ok": 23}) == ["all tasks"]
    assert scopes(history=decided, test_groups={"ok": 24}) == ["all tasks", "ok"]
    assert scopes(test_groups={"ok": 24}) == ["all tasks"]


def test_no_reference_means_no_rubric_edit_but_retiring_what_says_nothing(bench: Bench) -> None:
    def silent(task: Task) -> Task:
        always = Criterion.model_validate(
            {
                "id": f"{task.id}-any",
                "text": "any",
                "category": "any",
                "weight": 1.0,
                "route": {"kind": "check", "name": "toy.long", "params": {"words": 1}},
            }
        )
        return task.model_copy(update={"rubric": Rubric(criteria=(*task.rubric.criteria, always))})

    bench.toy.tasks = TaskSet([silent(t) for t in bench.toy.tasks])
    found = [a for a in RulesEvolver().attribute(bench.situation()) if a.interface == "rubric"]
    assert [(a.kind, a.families) for a in found] == [("criterion_dead", ("any",))]
    (proposal,) = RulesProposer().propose(bench.situation(), found, refused=(), limit=3)
    assert proposal.edit == RubricRetire(family="any")
    shielded = protect(bench.toy.tasks, "any")
    assert not any(a.interface == "rubric" for a in RulesEvolver().attribute(bench.situation(tasks=shielded)))


def test_guided_tasks_get_no_second_hint_and_idle_hints_go(bench: Bench, toy: Any) -> None:
    hard = tuple(t.id for t in toy.tasks if t.domain == "hard")
    item = GuidanceItem(id="h", kind="criteria", scope=Scope(tasks=hard))
    state = candidate(HarnessState(), GuidanceAdd(item=item))
    found = RulesEvolver().attribute(bench.situation(state=state, idle_hints=["h"]))
    assert [a.kind for a in found if a.interface == "guidance"] == ["hint_unneeded"]
    (proposal,) = RulesProposer().propose(
        bench.situation(state=state), [a for a in found if a.kind == "hint_unneeded"], refused=(), limit=1
    )
    assert proposal.edit.model_dump()["item_id"] == "h"


# ---- proposer


def proposals(s: Situation, refused: Sequence[Refusal] = (), limit: int = 5) -> Mapping[str, Edit]:
    made = RulesProposer().propose(s, RulesEvolver().attribute(s), refused=refused, limit=limit)
    return {p.edit.interface: p.edit for p in made}


def test_one_composite_one_hint_one_sampler_edit(bench: Bench) -> None:
    made = proposals(bench.situation(labelled=60))
    rubric, hint, sampler = made["rubric"], made["guidance"], made["sampler"]
    assert isinstance(rubric, RubricComposite)
    assert rubric.multipliers["long"] == 0.0
    assert [c.id for c in rubric.added] == ["cat.wrong"]
    assert isinstance(hint, GuidanceAdd)
    assert hint.item.kind == "partial_answer"
    assert isinstance(sampler, SamplerEdit)
    assert {f for _, f in sampler.rules} == {1 / 8}
    assert {t.domain for t in bench.toy.tasks for scope, _ in sampler.rules if scope.covers(t.id, t.domain)} == {"easy"}


def test_after_a_refusal_the_next_kind_of_hint_comes(bench: Bench) -> None:
    s = bench.situation()
    first = proposals(s)["guidance"]
    second = proposals(s, [Refusal(first, "rejected", "futility")])["guidance"]
    assert isinstance(second, GuidanceAdd)
    assert second.item.kind == "criteria"
    assert "guidance" not in proposals(s, [Refusal(first, "rejected", "harm"), Refusal(second, "rejected", "harm")])


def test_tasks_without_an_answer_get_their_criteria_as_hint(bench: Bench, toy: Any) -> None:
    tasks = TaskSet([t.model_copy(update={"reference_answer": None}) for t in toy.tasks])
    hint = proposals(bench.situation(tasks=tasks))["guidance"]
    assert isinstance(hint, GuidanceAdd)
    assert hint.item.kind == "criteria"


def test_limit_and_too_little_evidence(bench: Bench) -> None:
    s = bench.situation(labelled=60)
    assert len(RulesProposer().propose(s, RulesEvolver().attribute(s), refused=(), limit=1)) == 1
    assert "rubric" not in proposals(bench.situation(labelled=5))


def test_a_recovered_task_gets_its_weight_back(bench: Bench) -> None:
    ok = tuple(t.id for t in bench.toy.tasks if t.domain == "ok")
    state = candidate(HarnessState(), SamplerEdit(rules=((Scope(tasks=ok[:5]), 1 / 8),)))
    edit = proposals(bench.situation(state=state))["sampler"]
    assert isinstance(edit, SamplerEdit)
    back = [scope.tasks for scope, factor in edit.rules if factor > 1]
    assert back
    assert set(back[0]) <= set(ok[:5])


# ---- critic


def veto(s: Situation, edit: Edit, past: Any = None) -> str | None:
    a = Attribution(kind="blind", interface=edit.interface, reason="r", statistic=0.5)
    return RulesCritic().read(s, Proposal(edit=edit, attribution=a), past or (lambda e, stat: None)).veto


def test_a_sound_edit_passes_the_reading(bench: Bench) -> None:
    s = bench.situation(labelled=60)
    assert [veto(s, e) for e in proposals(s).values()] == [None, None, None]


def test_leaks_are_vetoed(bench: Bench) -> None:
    s = bench.situation()

    def hint(**fields: Any) -> GuidanceAdd:
        return GuidanceAdd(item=GuidanceItem(id="h", scope=Scope(domains=("hard",)), **fields))

    assert "leak" in str(veto(s, hint(kind="plan", text="Answer with: W3, and so on.")))
    assert "leak" in str(veto(s, hint(kind="partial_answer", amount=1.0)))
    assert veto(s, hint(kind="plan", text="Think of the number first.")) is None
    elsewhere = GuidanceAdd(item=GuidanceItem(id="h", kind="plan", text="w3 and so on", scope=Scope(domains=("none",))))
    assert veto(s, elsewhere) is None  # no task in scope has that answer


def test_protected_criteria_are_refused_before_any_probe(bench: Bench, toy: Any) -> None:
    tasks = protect(toy.tasks, "long")
    s = bench.situation(tasks=tasks)
    for edit in (
        RubricReweight(family="long", multiplier=2.0),
        RubricRetire(family="long"),
        RubricComposite(multipliers={"long": 0.5}),
    ):
        assert "protected" in str(veto(s, edit))
    assert veto(s, RubricReweight(family="fact", multiplier=2.0)) is None
    # nothing protected in the domain that this one covers
    assert veto(s, RubricReweight(scope=Scope(domains=("easy",)), family="long", multiplier=2.0)) != "protected"


def test_what_does_not_fit_or_changes_nothing_is_refused(bench: Bench) -> None:
    s = bench.situation()
    assert "would be empty" in str(veto(s, RubricRetire(family="fact")))  # easy and hard tasks have nothing else
    assert "no guidance" in str(veto(s, GuidanceRemove(item_id="none")))
    assert veto(s, RubricReweight(family="long", multiplier=1.0)) is not None
    state = candidate(s.state, GuidanceAdd(item=GuidanceItem(id="h", kind="criteria")))
    again = GuidanceAdd(item=GuidanceItem(id="h", kind="criteria"))
    assert "exists already" in str(veto(replace(s, state=state), again))


def test_a_sampler_edit_must_leave_every_domain_and_enough_tasks(bench: Bench) -> None:
    s = bench.situation()
    assert "too few draws" in str(veto(s, SamplerEdit(rules=((Scope(domains=("ok",)), 1 / 64),), mix_floor=0.01)))
    one = SamplerEdit(rules=((Scope(tasks=("ok-1",)), 64.0), (Scope(domains=("ok",)), 64.0)), mix_floor=0.01)
    assert "effective number" in str(veto(s, one))


def test_a_repeat_is_refused_with_its_history(bench: Bench) -> None:
    seen: list[Any] = []

    def past(edit: Edit, statistic: float | None) -> str:
        seen.append((edit, statistic))
        return "repeat: turned down for harm at update 1, and the failure is as it was"

    edit = RubricReweight(family="long", multiplier=0.5)
    assert str(veto(bench.situation(), edit, past)).startswith("repeat")
    assert seen == [(edit, 0.5)]


def test_a_sampler_attribution_on_all_tasks_or_none_makes_no_edit(bench: Bench) -> None:
    s = bench.situation(labelled=60)
    for scope in (Scope(), Scope(tasks=("nowhere",))):
        a = Attribution(kind="dead_high", interface="sampler", scope=scope, reason="r")
        assert RulesProposer().propose(s, [a], refused=(), limit=3) == []
