"""Pairs of every kind of edit on small scripted policies: what they measure, what they cost, where they stop."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np
import pytest

import rl_core.microworld.checks  # noqa: F401  registers words.mentions
from rl_core import probe
from rl_core.bank import ReferenceBank, half_of
from rl_core.edits import (
    Edit,
    GuidanceAdd,
    GuidanceDose,
    GuidanceItem,
    GuidanceRemove,
    RubricAdd,
    RubricComposite,
    RubricReweight,
    SamplerEdit,
    Scope,
)
from rl_core.errors import InputError
from rl_core.gate import AcceptanceRule, decide
from rl_core.judge.checks import Scorer
from rl_core.lift import lift
from rl_core.policy import Completion, Prompt
from rl_core.probe import GROUPS_OF_KEY, Pair, ProbeContext, pairs_for
from rl_core.rollout import Group, Rollout
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.sampler import stream
from rl_core.state import HarnessState, SamplerState
from rl_core.task import Task, TaskSet
from rl_core.verdict import Verdict

#: Answers start with "hit" or "miss"; the rest of the words tells them apart.
HIT = Criterion(
    id="hit", text="hits", category="facts", route=CheckRoute(name="words.mentions", params={"words": ["hit"]})
)
STYLE = Criterion(
    id="style", text="bows", category="tone", route=CheckRoute(name="words.mentions", params={"words": ["bow"]})
)


def make_tasks(n: int = 40, rubric: Rubric | None = None) -> TaskSet:
    rubric = rubric or Rubric(criteria=(HIT,))
    return TaskSet([Task(id=f"t{i}", prompt=f"do {i}", domain="abcd"[i % 4], rubric=rubric) for i in range(n)])


class WordReference:
    """1 for answers that hit."""

    name = "words"

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def values(self, task: Task, completions: Sequence[str]) -> list[float | None]:
        self.asked.append((task.id, tuple(completions)))
        return [float("hit" in c.split()) for c in completions]


@dataclass
class Scripted:
    """``answer(prompt, rng)`` gives each text; ``plain_logprob`` is what every answer has without its hint."""

    answer: Callable[[str, np.random.Generator], str]
    plain_logprob: float | None = -1.0
    version: int = 7
    calls: list[tuple[tuple[Prompt, ...], int, int]] = field(default_factory=list)

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        n: int,
        seed: int,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> list[list[Completion]]:
        self.calls.append((tuple(prompts), n, seed))
        rng = np.random.default_rng(seed)
        return [[Completion(f"{self.answer(str(p), rng)} {j}", 2, False, -1.0) for j in range(n)] for p in prompts]

    def logprobs(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> list[float | None]:
        assert all("hint" not in str(p) for p in prompts)
        return [self.plain_logprob] * len(completions)


def if_hinted(prompt: str, rng: np.random.Generator) -> str:
    return "hit" if "hint" in prompt else "miss"


def context(policy: Any = None, **more: Any) -> ProbeContext:
    tasks = more.pop("tasks", None) or make_tasks()
    given: dict[str, Any] = {
        "state": HarnessState(version=3),
        "tasks": tasks,
        "bank": ReferenceBank(None, tasks=tasks, max_age_steps=100),
        "scorer": Scorer(),
        "reference": WordReference(),
        "policy": policy,
        "step": 20,
        "seed": 1,
        "group_size": 8,
    }
    return ProbeContext(**{**given, **more})


def banked(ctx: ProbeContext, task_id: str, texts: Sequence[str], *, step: int = 5, name: str = "") -> str:
    name = name or f"{step}-{task_id}"
    rolls = [Rollout(f"{name}-{j}", task_id, name, step, t) for j, t in enumerate(texts)]
    ctx.bank.add(Group(name, task_id, step, rolls), WordReference().values(ctx.tasks[task_id], texts), step=step)
    return name


def hint(scope: Scope | None = None, **more: Any) -> GuidanceItem:
    return GuidanceItem(id="h", kind="plan", text="hint", scope=scope or Scope(), **more)


def take(edit: Edit, ctx: ProbeContext, n: int = 1000) -> list[Pair]:
    return list(islice(pairs_for(edit, ctx), n))


# ---- rubric


class TestRubric:
    TEXTS = ("hit bow", "hit", "miss bow", "miss bow")

    def filled(self, **more: Any) -> ProbeContext:
        ctx = context(tasks=make_tasks(rubric=Rubric(criteria=(HIT, STYLE))), **more)
        for t in ctx.tasks:
            banked(ctx, t.id, self.TEXTS)
        return ctx

    def test_one_pair_per_test_group_without_rollout_or_label(self) -> None:
        ctx = self.filled()
        got = take(RubricReweight(family="tone", multiplier=0.0), ctx)
        assert sorted(p.key for p in got) == sorted(f"5-{t}" for t in ctx.tasks.ids if half_of(t) == "test")
        assert (ctx.cost.rollouts, ctx.cost.labels, ctx.cost.reference_calls) == (0, 0, 0)

    def test_d_by_hand(self) -> None:
        ctx = self.filled()
        before, after = lift([1.0, 0.5, 0.5, 0.5], [1, 1, 0, 0]), lift([1.0, 1.0, 0.0, 0.0], [1, 1, 0, 0])
        assert before is not None
        assert after is not None
        for p in take(RubricReweight(family="tone", multiplier=0.0), ctx):
            assert p.current == pytest.approx(before)
            assert p.d == pytest.approx(after - before)
            assert p.d > 0.1

    def test_an_added_criterion_is_judged_too(self) -> None:
        lame = context(tasks=make_tasks(rubric=Rubric(criteria=(STYLE,))))
        for t in lame.tasks:
            banked(lame, t.id, self.TEXTS)
        got = take(RubricComposite(multipliers={"tone": 0.0}, added=(HIT,)), lame)
        assert got
        assert all(p.current < -0.1 and p.d > 0.4 for p in got)

    def test_a_criterion_rewritten_under_its_old_id_is_judged_anew(self) -> None:
        ctx = self.filled()
        turned = HIT.model_copy(update={"route": CheckRoute(name="words.mentions", params={"words": ["miss"]})})
        got = take(RubricAdd(criterion=turned), ctx)
        after = lift([0.5, 0.0, 1.0, 1.0], [1, 1, 0, 0])
        assert got
        assert after is not None
        assert all(p.current + p.d == pytest.approx(after) for p in got)

    def test_scope_and_age_limit_the_groups(self) -> None:
        ctx = self.filled()
        got = take(RubricReweight(scope=Scope(domains=("a",)), family="tone", multiplier=0.0), ctx)
        assert {ctx.tasks[p.key[2:]].domain for p in got} == {"a"}
        ctx.step = 106
        assert take(RubricReweight(family="tone", multiplier=0.0), ctx) == []

    def test_guided_rollouts_of_the_bank_are_discounted(self) -> None:
        ctx = context()
        task_id = next(t for t in ctx.tasks.ids if half_of(t) == "test")
        rolls = [
            Rollout(f"r{j}", task_id, "g", 5, text, guidance_id=gid, logprob=-1.0, logprob_plain=-1.0 - math.log(4))
            for j, (text, gid) in enumerate([("hit", "h"), ("hit", "h"), ("miss", None), ("miss", None)])
        ]
        ctx.bank.add(Group("g", task_id, 5, rolls), [1.0, 1.0, 0.0, 0.0], step=5)
        (p,) = take(RubricReweight(family="facts", multiplier=2.0), ctx)
        assert p.current == pytest.approx(lift([1, 1, 0, 0], [1, 1, 0, 0], [0.25, 0.25, 1, 1]))

    def test_same_seed_same_order_other_seed_other_order(self) -> None:
        edit = RubricReweight(family="tone", multiplier=0.0)
        keys = [[p.key for p in take(edit, self.filled(seed=s))] for s in (1, 1, 2)]
        assert keys[0] == keys[1]
        assert keys[0] != keys[2]


# ---- guidance


class TestGuidance:
    def test_a_hint_that_succeeds_gains(self) -> None:
        ctx = context(Scripted(if_hinted))
        got = take(GuidanceAdd(item=hint()), ctx, 8)
        want = lift([1.0] * 4 + [0.0] * 4, [1.0] * 4 + [0.0] * 4)
        assert [p.d for p in got] == pytest.approx([want] * 8)
        assert [p.current for p in got] == [0.0] * 8
        assert len({p.key for p in got}) == 8

    def test_a_hint_that_does_not_help_gains_nothing(self) -> None:
        ctx = context(Scripted(lambda prompt, rng: "miss"))
        assert {p.d for p in take(GuidanceAdd(item=hint()), ctx, 16)} == {0.0}
        verdict = decide(pairs_for(GuidanceAdd(item=hint()), context(Scripted(lambda p, r: "miss"))), AcceptanceRule())
        assert verdict.status == "rejected"

    def test_successes_out_of_reach_count_little(self) -> None:
        ctx = context(Scripted(if_hinted, plain_logprob=-1.0 - math.log(10)))
        (p,) = take(GuidanceAdd(item=hint()), ctx, 1)
        ratios = [0.1] * 4 + [1.0] * 4
        assert p.d == pytest.approx(lift([1.0] * 4 + [0.0] * 4, [1.0] * 4 + [0.0] * 4, ratios))

    def test_without_log_probs_a_guided_success_is_worth_nothing(self) -> None:
        ctx = context(Scripted(if_hinted, plain_logprob=None))
        (p,) = take(GuidanceAdd(item=hint()), ctx, 1)
        assert p.d == pytest.approx(lift([1.0] * 4 + [0.0] * 4, [1.0] * 4 + [0.0] * 4, [0.0] * 4 + [1.0] * 4))
        assert ctx.hinted == []

    def test_plain_rollouts_are_shared_and_every_label_is_counted(self) -> None:
        policy = Scripted(if_hinted)
        ctx = context(policy)
        assert len(take(GuidanceAdd(item=hint()), ctx, 8)) == 8
        # a task: 4 hinted, and 8 plain of which the guided side uses 4
        assert ctx.cost.rollouts == 8 * 12
        assert ctx.cost.labels == 8 * 12
        assert ctx.cost.reference_calls == 8
        assert sorted((n, len(prompts)) for prompts, n, _ in policy.calls) == [(4, 8), (8, 8)]
        reference = ctx.reference
        assert isinstance(reference, WordReference)
        assert all(Counter(c.split()[0] for c in texts) == {"miss": 8, "hit": 4} for _, texts in reference.asked)
        assert all(len(set(texts)) == 12 for _, texts in reference.asked)

    def test_the_hinted_rollouts_are_kept_for_the_guard(self) -> None:
        ctx = context(Scripted(if_hinted, plain_logprob=-2.5))
        take(GuidanceAdd(item=hint()), ctx, 8)
        assert ctx.hinted == [(1.0, -2.5)] * 32

    def test_tasks_of_the_test_half_come_first(self) -> None:
        ctx = context(Scripted(if_hinted))
        held = sum(half_of(t.id) == "test" for t in ctx.tasks)
        reference = ctx.reference
        assert isinstance(reference, WordReference)
        take(GuidanceAdd(item=hint()), ctx, held)
        assert {half_of(t) for t, _ in reference.asked[:held]} == {"test"}
        assert len({t for t, _ in reference.asked[:held]}) == held

    def test_a_hint_of_few_tasks_is_tried_on_those_again_and_again(self) -> None:
        ctx = context(Scripted(if_hinted))
        got = take(GuidanceAdd(item=hint(Scope(tasks=("t1", "t2")))), ctx, 20)
        reference = ctx.reference
        assert isinstance(reference, WordReference)
        assert {t for t, _ in reference.asked} == {"t1", "t2"}
        assert len({p.key for p in got}) == 20

    def test_a_scope_without_tasks_gives_no_pairs(self) -> None:
        assert take(GuidanceAdd(item=hint(Scope(domains=("nowhere",)))), context(Scripted(if_hinted))) == []

    @pytest.mark.parametrize("cap", ["max_rollouts", "max_labels"])
    @pytest.mark.parametrize(("limit", "pairs"), [(95, 0), (96, 8), (191, 8), (192, 16)])
    def test_a_cap_stops_before_drawing(self, cap: str, limit: int, pairs: int) -> None:
        policy = Scripted(if_hinted)
        ctx = context(policy, **{cap: limit})
        assert len(take(GuidanceAdd(item=hint()), ctx)) == pairs
        assert ctx.cost.rollouts == ctx.cost.labels == 12 * pairs
        assert sum(n * len(prompts) for prompts, n, _ in policy.calls) == 12 * pairs

    def test_labels_bind_only_where_there_is_a_reference(self) -> None:
        ctx = context(Scripted(if_hinted), reference=None, max_labels=0)
        assert len(take(GuidanceAdd(item=hint()), ctx, 8)) == 8

    def test_removing_a_hint_that_works_is_a_loss(self) -> None:
        ctx = context(Scripted(if_hinted), state=HarnessState(guidance=(hint(),)))
        got = take(GuidanceRemove(item_id="h"), ctx, 8)
        assert all(p.d == pytest.approx(-p.current) and p.current > 0.3 for p in got)

    def test_a_hint_in_use_is_tried_at_its_decayed_dose(self) -> None:
        doses = {t: 0.25 for t in make_tasks().ids}
        ctx = context(Scripted(if_hinted), state=HarnessState(guidance=(hint(dose=0.5),)), doses=doses)
        (p,) = take(GuidanceRemove(item_id="h"), ctx, 1)
        assert p.current == pytest.approx(lift([1.0] * 2 + [0.0] * 6, [1.0] * 2 + [0.0] * 6))

    def test_a_new_dose_keeps_the_decay(self) -> None:
        # 8 rollouts at dose 0.5, decayed to 0.25: doubling the dose makes 4 guided ones of 2
        doses = {t: 0.25 for t in make_tasks().ids}
        ctx = context(Scripted(if_hinted), state=HarnessState(guidance=(hint(dose=0.5),)), doses=doses)
        (p,) = take(GuidanceDose(item_id="h", dose=1.0), ctx, 1)
        two, four = ([1.0] * k + [0.0] * (8 - k) for k in (2, 4))
        assert p.current == pytest.approx(lift(two, two))
        assert p.current + p.d == pytest.approx(lift(four, four))
        # 4 hinted and 6 plain serve both sides
        assert ctx.cost.rollouts == 8 * 10

    def test_a_new_hint_is_tried_at_its_own_dose(self) -> None:
        other = GuidanceItem(id="old", kind="plan", text="old", dose=0.5)
        ctx = context(
            Scripted(if_hinted), state=HarnessState(guidance=(other,)), doses={t: 0.0 for t in make_tasks().ids}
        )
        (p,) = take(GuidanceAdd(item=hint()), ctx, 1)
        assert p.d == pytest.approx(lift([1.0] * 4 + [0.0] * 4, [1.0] * 4 + [0.0] * 4))

    def test_an_unknown_hint_is_refused(self) -> None:
        with pytest.raises(InputError, match="no guidance with id"):
            take(GuidanceRemove(item_id="x"), context(Scripted(if_hinted)))

    def test_no_policy_never_accepts(self) -> None:
        got = decide(pairs_for(GuidanceAdd(item=hint()), context(None)), AcceptanceRule())
        assert got.status == "inconclusive"
        assert "needs a policy" in got.reason

    def test_same_seed_same_probes(self) -> None:
        def answer(prompt: str, rng: np.random.Generator) -> str:
            return "hit" if rng.random() < 0.5 else "miss"

        runs = []
        for seed in (1, 1, 2):
            policy = Scripted(answer)
            runs.append((take(GuidanceAdd(item=hint()), context(policy, seed=seed), 16), policy.calls))
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]
        assert len({seed for _, _, seed in runs[0][1]}) == 4  # two chunks, two batches each

    def test_probes_say_what_they_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Rollout] = []
        honest = probe._lift_under

        def spy(state: Any, task: Any, rolls: Any, values: Any, ctx: Any) -> Any:
            seen.extend(rolls)
            return honest(state, task, rolls, values, ctx)

        monkeypatch.setattr(probe, "_lift_under", spy)
        take(GuidanceAdd(item=hint()), context(Scripted(if_hinted)), 1)
        assert {r.phase for r in seen} == {"probe"}
        assert {(r.policy_version, r.harness_version, r.step) for r in seen} == {(7, 3, 20)}
        assert {(r.guidance_id, r.logprob_plain) for r in seen} == {(None, None), ("h", -1.0)}


# ---- sampler


def chance_of(domain: str) -> float:
    return {"a": 0.0, "b": 0.5, "c": 0.15, "d": 0.9}[domain]


def exact_lift(p: float, size: int) -> float:
    """Mean lift of a group of independent hits with chance p, reward and reference alike: all groups enumerated."""
    total = 0.0
    for hits in product((0.0, 1.0), repeat=size):
        k = sum(hits)
        total += p**k * (1 - p) ** (size - k) * (lift(hits, hits) or 0.0)
    return total


class TestSampler:
    @staticmethod
    def by_domain(tasks: TaskSet) -> Scripted:
        where = {str(t.prompt): chance_of(t.domain) for t in tasks}
        return Scripted(lambda prompt, rng: "hit" if rng.random() < where[prompt] else "miss")

    @pytest.mark.parametrize(
        ("rules", "start"),
        [
            (((Scope(domains=("a",)), 0.25),), ()),  # away from what cannot be reached
            (((Scope(domains=("b",)), 0.25),), ()),  # away from the best teacher
            (((Scope(domains=("d",)), 0.5), (Scope(domains=("a", "c")), 2.0)), ((Scope(domains=("b",)), 3.0),)),
            (((Scope(tasks=("t1", "t3")), 8.0),), ()),
        ],
    )
    def test_the_mean_of_d_is_the_expected_change_of_lift(self, rules: Any, start: Any) -> None:
        size = 4
        tasks = make_tasks()
        edit = SamplerEdit(rules=rules)
        state = HarnessState(sampler=SamplerState(rules=start))
        before = state.sampler.distribution(tasks)
        after = SamplerState(rules=(*start, *rules)).distribution(tasks)
        worth = {d: exact_lift(chance_of(d), size) for d in "abcd"}
        expected = sum((after[t.id] - before[t.id]) * worth[t.domain] for t in tasks)
        differ = sum(abs(after[i] - before[i]) for i in before) / 2
        ctx = context(self.by_domain(tasks), tasks=tasks, state=state, group_size=size)
        ds = np.array([p.d for p in take(edit, ctx, 1600)])
        slack = 4 * float(ds.std()) / math.sqrt(len(ds))
        assert abs(ds.mean() - expected / differ) < slack
        assert np.sign(ds.mean()) == np.sign(expected)
        assert abs(ds.mean()) > slack  # the sign is no luck

    def test_the_two_draws_never_agree(self) -> None:
        tasks = make_tasks()
        ctx = context(self.by_domain(tasks), tasks=tasks)
        take(SamplerEdit(rules=((Scope(domains=("a",)), 0.25),)), ctx, 40)
        reference = ctx.reference
        assert isinstance(reference, WordReference)
        domains = [tasks[t].domain for t, _ in reference.asked]
        # loss and gain alternate: the current draw from a, the candidate's from elsewhere
        assert set(domains[::2]) == {"a"}
        assert set(domains[1::2]) == {"b", "c", "d"}

    def test_costs_of_fresh_groups(self) -> None:
        tasks = make_tasks()
        ctx = context(self.by_domain(tasks), tasks=tasks)
        assert len(take(SamplerEdit(rules=((Scope(domains=("a",)), 0.25),)), ctx, 4)) == 4
        assert (ctx.cost.rollouts, ctx.cost.labels, ctx.cost.reference_calls) == (64, 64, 8)

    @pytest.mark.parametrize("cap", ["max_rollouts", "max_labels"])
    @pytest.mark.parametrize(("limit", "pairs"), [(63, 0), (64, 4), (127, 4)])
    def test_a_cap_stops_before_drawing(self, cap: str, limit: int, pairs: int) -> None:
        tasks = make_tasks()
        policy = self.by_domain(tasks)
        ctx = context(policy, tasks=tasks, **{cap: limit})
        assert len(take(SamplerEdit(rules=((Scope(domains=("a",)), 0.25),)), ctx)) == pairs
        assert sum(n * len(prompts) for prompts, n, _ in policy.calls) == ctx.cost.rollouts == 16 * pairs

    def test_a_change_of_nothing_gives_no_pairs(self) -> None:
        assert take(SamplerEdit(rules=((Scope(), 4.0),)), context(Scripted(if_hinted))) == []

    def test_banked_groups_serve_first_and_cost_nothing(self) -> None:
        tasks = make_tasks(80)
        ctx = context(None, tasks=tasks, fresh_after=15)
        names = [banked(ctx, t.id, ["hit", "miss"] if t.domain == "b" else ["miss", "miss"]) for t in tasks]
        got = take(SamplerEdit(rules=((Scope(domains=("a",)), 0.25),)), ctx, 4)
        assert (ctx.cost.rollouts, ctx.cost.labels) == (0, 0)
        used = [g for p in got for g in p.key.split(GROUPS_OF_KEY)]
        assert len(set(used)) == 8
        assert set(used) <= {n for n in names if half_of(n[2:]) == "test"}
        assert all(p.current == 0.0 for p in got)
        assert {p.d for p in got} <= {0.0, lift([1.0, 0.0], [1.0, 0.0])}

    def test_groups_that_suggested_the_edit_do_not_test_it(self) -> None:
        tasks = make_tasks(80)
        edit = SamplerEdit(rules=((Scope(domains=("a",)), 0.25),))
        for fresh_after, free in ((5, False), (6, True)):
            ctx = context(self.by_domain(tasks), tasks=tasks, fresh_after=fresh_after)
            for t in tasks:
                banked(ctx, t.id, ["miss", "miss"], step=5)
            take(edit, ctx, 4)
            assert (ctx.cost.rollouts == 0) is free

    def test_the_bank_is_drawn_from_by_weight_not_by_what_it_happens_to_hold(self) -> None:
        # nine banked groups of each task of b, one of each task of c and d: all three gain alike
        tasks = make_tasks(80)
        edit = SamplerEdit(rules=((Scope(domains=("a",)), 0.25),))
        picked: Counter[str] = Counter()
        runs = 240
        ctx = context(None, tasks=tasks, fresh_after=15)
        for t in tasks:
            for k in range(9 if t.domain == "b" else 1):
                banked(ctx, t.id, ["hit", "miss"], name=f"{t.id}:{k}")
        for seed in range(runs):
            ctx.seed = seed
            (p,) = take(edit, ctx, 1)
            picked[tasks[p.key.split(GROUPS_OF_KEY)[1].split(":")[0]].domain] += 1
        assert set(picked) == {"b", "c", "d"}
        for domain in "bcd":
            assert abs(picked[domain] / runs - 1 / 3) < 4 * math.sqrt(2 / 9 / runs)

    def test_evidence_carried_over_does_not_count_a_banked_group_again(self) -> None:
        tasks = make_tasks(80)
        edit = SamplerEdit(rules=((Scope(domains=("a",)), 0.25),))
        ctx = context(self.by_domain(tasks), tasks=tasks, fresh_after=15)
        for t in tasks:
            banked(ctx, t.id, ["hit", "miss"] if t.domain != "a" else ["miss", "miss"])
        first = decide(pairs_for(edit, ctx), AcceptanceRule(max_pairs=6, min_pairs=60))
        assert first.status == "inconclusive"
        ctx.step = 30
        again = decide(pairs_for(edit, ctx), AcceptanceRule(max_pairs=6, min_pairs=60), carried=first.carry)
        groups = [g for key in again.carry["keys"] for g in key.split(GROUPS_OF_KEY)]
        assert len(groups) == len(set(groups)) == 24

    def test_the_hints_in_force_are_used(self) -> None:
        tasks = make_tasks()
        state = HarnessState(guidance=(hint(Scope(domains=("b",))),))
        ctx = context(Scripted(if_hinted), tasks=tasks, state=state)
        got = take(SamplerEdit(rules=((Scope(domains=("b",)), 8.0),)), ctx, 8)
        assert all(p.current == 0.0 and p.d > 0.3 for p in got)


# ---- no reference


class Noisy(Scorer):
    """Every verdict is a coin, tossed anew at every pass; ``honest`` leaves the checks alone."""

    def __init__(self, honest: bool = False) -> None:
        super().__init__()
        self.passes, self._honest = 0, honest
        self._rng = np.random.default_rng(0)

    def verdicts(self, task: Task, completions: Sequence[str], rubric: Rubric) -> list[dict[str, Verdict]]:
        self.passes += 1
        if self._honest:
            return super().verdicts(task, completions, rubric)
        return [{c.id: Verdict.of(bool(self._rng.random() < 0.5)) for c in rubric.criteria} for _ in completions]


class TestNoReference:
    def test_a_second_pass_of_the_judge_stands_in(self) -> None:
        scorer = Noisy(honest=True)
        ctx = context(Scripted(if_hinted), reference=None, scorer=scorer)
        got = take(GuidanceAdd(item=hint()), ctx, 8)
        assert all(p.d > 0.3 for p in got)
        assert scorer.passes == 8 * 3  # one in the reference's place, one for each side
        assert (ctx.cost.labels, ctx.cost.reference_calls) == (0, 0)
        assert ctx.cost.rollouts == 96

    def test_the_second_pass_sees_the_group_rotated(self) -> None:
        class ByPlace(Scorer):
            def verdicts(self, task: Task, completions: Sequence[str], rubric: Rubric) -> list[dict[str, Verdict]]:
                seen.append(list(completions))
                return [{"hit": Verdict.of("hit" in c)} for c in completions]

        seen: list[list[str]] = []
        ctx = context(reference=None, scorer=ByPlace())
        rolls = [Rollout(f"r{j}", "t0", "g", 1, c) for j, c in enumerate(["hit a", "b", "c"])]
        values = probe._label(ctx.tasks["t0"], rolls, ctx)
        assert seen == [["b", "c", "hit a"]]
        assert values is not None
        assert values[0] != values[1] == values[2]

    def test_flips_cancel(self) -> None:
        tasks = make_tasks()
        ctx = context(Scripted(lambda p, r: "miss"), tasks=tasks, reference=None, scorer=Noisy(), group_size=4)
        got = take(SamplerEdit(rules=((Scope(domains=("a",)), 0.25),)), ctx, 400)
        values = np.array([p.current for p in got])
        assert values.std() > 0.1
        assert abs(values.mean()) < 4 * values.std() / math.sqrt(len(values))


def test_the_random_streams_of_edits_differ() -> None:
    assert stream(1, "sampler-pairs", 20, "x").random() != stream(1, "sampler-pairs", 20, "y").random()
