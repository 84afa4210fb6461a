"""The composite refit finds planted weights in the evidence, and says nothing where there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from rl_core.bank import Entry
from rl_core.edits import MAX_ADDED, MAX_MULTIPLIER, RubricComposite, Scope
from rl_core.judge.checks import Scorer
from rl_core.microworld.catalogue import CATALOGUE, DECOYS
from rl_core.microworld.lexicon import FILLER, HEDGE, PRAISE, facts_of
from rl_core.refit import MIN_GROUPS, Refit, fit_composite
from rl_core.rollout import Group, Rollout
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.state import HarnessState, candidate
from rl_core.task import Task, TaskSet
from rl_core.verdict import Verdict

WORDS = ("and", "with", "also", *facts_of("science")[:6], *PRAISE[:2], *HEDGE[:2], FILLER[9])


def mentions(cid: str, words: list[str], category: str, weight: float = 1.0, protected: bool = False) -> Criterion:
    route = CheckRoute(name="words.mentions", params={"words": words})
    return Criterion(id=cid, text=cid, category=category, weight=weight, route=route, protected=protected)


FACT = facts_of("science")[0]
#: right: worth having; warm: what the reference dislikes; safe: protected and worth nothing.
RIGHT = mentions("right", [FACT], "facts")
WARM = mentions("warm", list(PRAISE), "tone", 1.5)
SAFE = mentions("safe", ["and"], "safety", 0.5, protected=True)


def make_tasks(*criteria: Criterion, n: int = 60) -> TaskSet:
    rubric = Rubric(criteria=criteria)
    return TaskSet([Task(id=f"t{i}", prompt="science light", domain="xy"[i % 2], rubric=rubric) for i in range(n)])


def evidence(
    tasks: TaskSet, value: Callable[[set[str]], float], *, n: int = 60, noise: float = 0.05, seed: int = 0
) -> list[Entry]:
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        task_id = tasks.ids[i % len(tasks)]
        texts = [" ".join(rng.choice(WORDS, size=int(rng.integers(2, 7)))) for _ in range(8)]
        values: list[float | None] = [float(np.clip(value(set(t.split())) + rng.normal(0, noise), 0, 1)) for t in texts]
        rolls = [Rollout(f"{i}-{j}", task_id, f"g{i}", 0, t) for j, t in enumerate(texts)]
        out.append(Entry(Group(f"g{i}", task_id, 0, rolls), values, 0))
    return out


def planted(words: set[str]) -> float:
    return 0.35 + 0.4 * (FACT in words) - 0.25 * bool(words & set(PRAISE)) - 0.15 * bool(words & set(HEDGE))


def fit(
    entries: list[Entry],
    tasks: TaskSet,
    *,
    catalogue: Sequence[Criterion] = CATALOGUE,
    state: HarnessState = HarnessState(),  # noqa: B008  frozen, no state is shared
    scope: Scope = Scope(),  # noqa: B008  frozen
) -> Refit | None:
    return fit_composite(entries, state, tasks, Scorer(), catalogue, scope=scope)


def test_planted_weights_are_recovered() -> None:
    tasks = make_tasks(RIGHT, WARM)
    got = fit(evidence(tasks, planted), tasks)
    assert got is not None
    edit = got.edit
    assert edit.multipliers["tone"] == 0.0  # pays for what the reference dislikes: retired, not turned round
    added = {c.id: c.weight for c in edit.added}
    assert added["cat.praise"] < 0
    assert added["cat.hedging"] < 0
    assert not set(added) & {c.id for c in DECOYS}
    # proportions of the plant: fact 0.4, praise 0.25, hedging 0.15
    right = edit.multipliers["facts"] * RIGHT.weight
    assert added["cat.praise"] / right == pytest.approx(-0.25 / 0.4, abs=0.12)
    assert added["cat.hedging"] / right == pytest.approx(-0.15 / 0.4, abs=0.12)
    assert got.predicted > 0.05


def test_the_weight_of_the_rubric_is_kept() -> None:
    tasks = make_tasks(RIGHT, WARM)
    got = fit(evidence(tasks, planted), tasks)
    assert got is not None
    after = candidate(HarnessState(), got.edit).rubric_for(tasks["t0"])
    assert sum(abs(c.weight) for c in after.criteria) == pytest.approx(2.5, rel=0.01)


def test_decoys_stay_out_over_many_draws() -> None:
    tasks = make_tasks(RIGHT, WARM)
    decoys = {c.id for c in DECOYS}
    picked = useful = 0
    for seed in range(8):
        got = fit(evidence(tasks, planted, n=36, noise=0.1, seed=seed), tasks)
        assert got is not None
        ids = {c.id for c in got.edit.added}
        picked += len(ids & decoys)
        useful += "cat.praise" in ids
    assert useful >= 7
    assert picked <= 4  # of 8 x 25


def test_an_inverted_family_is_retired() -> None:
    tasks = make_tasks(RIGHT, WARM)
    got = fit(evidence(tasks, planted), tasks, catalogue=())
    assert got is not None
    assert got.edit.multipliers["tone"] == 0.0
    assert got.edit.multipliers["facts"] > 1.0
    assert got.edit.added == ()


def test_protected_criteria_keep_their_weight() -> None:
    tasks = make_tasks(RIGHT, WARM, SAFE)
    got = fit(evidence(tasks, planted), tasks)
    assert got is not None
    assert "safety" not in got.edit.multipliers
    after = candidate(HarnessState(), got.edit).rubric_for(tasks["t0"])
    assert after["safe"] == SAFE
    assert sum(abs(c.weight) for c in after.criteria if not c.protected) == pytest.approx(2.5, rel=0.01)


def test_negative_weights_keep_their_sign() -> None:
    penalty = mentions("no praise", list(PRAISE), "tone", -0.2)
    tasks = make_tasks(RIGHT, penalty)
    got = fit(evidence(tasks, planted), tasks, catalogue=())
    assert got is not None
    after = candidate(HarnessState(), got.edit).rubric_for(tasks["t0"])
    assert after["no praise"].weight / after["right"].weight == pytest.approx(-0.25 / 0.4, abs=0.12)


@pytest.mark.parametrize(("n", "found"), [(11, False), (12, True)])
def test_too_few_groups_cannot_carry_a_fit(n: int, found: bool) -> None:
    tasks = make_tasks(RIGHT, WARM)
    assert (fit(evidence(tasks, planted, n=n), tasks, catalogue=()) is not None) is found


def test_groups_outside_the_scope_do_not_count() -> None:
    tasks = make_tasks(RIGHT, WARM)
    entries = evidence(tasks, planted, n=2 * MIN_GROUPS)
    assert fit(entries, tasks, scope=Scope(domains=("x",)), catalogue=()) is not None
    assert fit(entries[:-2], tasks, scope=Scope(domains=("x",)), catalogue=()) is None


def test_the_scope_is_that_of_the_edit_and_of_the_evidence() -> None:
    tasks = make_tasks(RIGHT, WARM)
    inverse = evidence(tasks, lambda w: 0.5 - 0.4 * (FACT in w) + 0.3 * bool(w & set(PRAISE)), n=60)
    straight = evidence(tasks, planted, n=60)
    # y says the opposite of x; a fit for x must not hear it
    mixed = [a if tasks[a.group.task_id].domain == "x" else b for a, b in zip(straight, inverse, strict=True)]
    got = fit(mixed, tasks, scope=Scope(domains=("x",)))
    assert got is not None
    assert got.edit.scope == Scope(domains=("x",))
    assert got.edit.multipliers["tone"] == 0.0
    assert candidate(HarnessState(), got.edit).rubric_for(tasks["t1"]) == tasks["t1"].rubric


def test_nothing_to_gain_gives_nothing() -> None:
    tasks = make_tasks(RIGHT)
    assert fit(evidence(tasks, lambda w: 0.2 + 0.6 * (FACT in w), noise=0.01), tasks) is None


def test_a_reference_of_pure_noise_rarely_asks_for_anything() -> None:
    tasks = make_tasks(RIGHT, WARM)
    asked = sum(fit(evidence(tasks, lambda w: 0.5, noise=0.2, seed=s), tasks) is not None for s in range(10))
    assert asked <= 5


def test_a_second_fit_on_the_same_evidence_asks_for_little() -> None:
    tasks = make_tasks(RIGHT, WARM)
    entries = evidence(tasks, planted)
    first = fit(entries, tasks)
    assert first is not None
    second = fit(entries, tasks, state=candidate(HarnessState(), first.edit))
    assert second is None or second.predicted < 0.1 * first.predicted


def test_no_task_is_left_without_a_criterion() -> None:
    # a task outside the evidence has nothing but the family that the fit would retire
    bare = Task(id="bare", prompt="science light", domain="x", rubric=Rubric(criteria=(WARM,)))
    tasks = TaskSet([*make_tasks(RIGHT, WARM), bare])
    entries = evidence(make_tasks(RIGHT, WARM), planted)
    assert fit(entries, tasks, catalogue=()) is None
    # with something added to every task the retirement can stand
    got = fit(entries, tasks)
    assert got is not None
    assert all(candidate(HarnessState(), got.edit).rubric_for(t).criteria for t in tasks)


def test_edits_stay_in_the_trust_region() -> None:
    # a family with hardly any weight that is all the reference wants: the multiplier is bounded
    faint = RIGHT.model_copy(update={"weight": 0.01})
    tasks = make_tasks(faint, WARM.model_copy(update={"weight": 5.0}))
    got = fit(evidence(tasks, lambda w: 0.2 + 0.6 * (FACT in w)), tasks, catalogue=())
    assert got is not None
    assert got.edit.multipliers["facts"] == MAX_MULTIPLIER
    # more worthwhile checks than an edit may add: the strongest stay
    facts = facts_of("science")
    catalogue = tuple(mentions(f"cat.{w}", [w], f"f{w}") for w in facts[1:6])
    weights = dict(zip(facts[1:6], (0.1, 0.12, 0.14, 0.06, 0.16), strict=True))
    many = fit(
        evidence(make_tasks(RIGHT), lambda w: 0.2 * (FACT in w) + sum(v for k, v in weights.items() if k in w), n=120,
                 noise=0.02),
        make_tasks(RIGHT), catalogue=catalogue,
    )  # fmt: skip
    assert many is not None
    assert {c.id for c in many.edit.added} == {f"cat.{w}" for w in facts[1:6] if weights[w] != 0.06}
    assert len(many.edit.added) == MAX_ADDED


def test_gaps_are_left_out_and_never_read_as_zero() -> None:
    tasks = make_tasks(RIGHT, WARM)
    entries = evidence(tasks, planted)
    # values of the fact's answers are missing at random: a zero in their place would turn the weight round
    rng = np.random.default_rng(1)
    gappy = [
        Entry(e.group, [None if FACT in r.completion.split() and rng.random() < 0.6 else v
                        for r, v in zip(e.group.rollouts, e.values, strict=True)], 0)
        for e in entries
    ]  # fmt: skip
    got = fit(gappy, tasks)
    assert got is not None
    assert got.edit.multipliers["facts"] > 0.5
    assert got.edit.multipliers["tone"] == 0.0


class Gappy(Scorer):
    """A judge that gives no verdict on one criterion for every third answer."""

    def __init__(self, cid: str) -> None:
        super().__init__()
        self._cid = cid

    def verdicts(self, task: Task, completions: Sequence[str], rubric: Rubric) -> list[dict[str, Verdict]]:
        rows = super().verdicts(task, completions, rubric)
        for i, row in enumerate(rows):
            if i % 3 == 0 and self._cid in row:
                row[self._cid] = Verdict.missing("timeout")
        return rows


@pytest.mark.parametrize("cid", ["cat.praise", "cat.even"])
def test_missing_verdicts_do_not_break_the_fit(cid: str) -> None:
    tasks = make_tasks(RIGHT, WARM)
    got = fit_composite(evidence(tasks, planted), HarnessState(), tasks, Gappy(cid), CATALOGUE, scope=Scope())
    assert got is not None
    assert isinstance(got.edit, RubricComposite)
    assert all(np.isfinite(c.weight) for c in got.edit.added)
    assert got.edit.multipliers["facts"] > 0.5


def test_same_evidence_same_edit() -> None:
    tasks = make_tasks(RIGHT, WARM)
    assert fit(evidence(tasks, planted), tasks) == fit(evidence(tasks, planted), tasks)
