"""Drawing tasks and giving hints: pure, in the stated proportions, never the whole group."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from rl_core.edits import GuidanceItem, Scope
from rl_core.guidance import guide, guided_count, hint_text, importance_ratio, place_hint
from rl_core.rollout import Rollout
from rl_core.rubric import Criterion, Rubric
from rl_core.sampler import draw, stream
from rl_core.state import HarnessState, SamplerState
from rl_core.task import Message, Task, TaskSet

RUBRIC = Rubric(
    criteria=(
        Criterion(id="a", text="names a."),
        Criterion(id="b", text="names b.", weight=2.0),
        Criterion(id="bad", text="rambles.", weight=-1.0),
        Criterion(id="c", text="names c."),
    )
)


def make_task(i: int, domain: str = "x", answer: str | None = "one two three four five") -> Task:
    return Task(id=f"t{i}", prompt=f"do {i}", domain=domain, rubric=RUBRIC, reference_answer=answer)


TASKS = TaskSet([make_task(i, "x" if i < 5 else "y") for i in range(10)])
#: Weight 3 for the five tasks of x, 1 for the five of y, a fifth of the mass uniform.
WEIGHTED = HarnessState(sampler=SamplerState(rules=((Scope(domains=("x",)), 3.0),), mix_floor=0.2))


class TestDraw:
    def test_same_arguments_same_tasks(self) -> None:
        first = [t.id for t in draw(WEIGHTED, TASKS, 6, seed=3, counter=7)]
        np.random.default_rng(1).random()
        np.random.seed(5)  # the global generator has no part in it
        assert [t.id for t in draw(WEIGHTED, TASKS, 6, seed=3, counter=7)] == first

    def test_counter_and_seed_change_the_draw(self) -> None:
        def draws(seed: int, counter: int) -> list[str]:
            return [t.id for t in draw(WEIGHTED, TASKS, 8, seed=seed, counter=counter)]

        assert len({tuple(draws(0, c)) for c in range(20)}) > 15
        assert len({tuple(draws(s, 0)) for s in range(20)}) > 15

    def test_drawing_leaves_the_global_generator_alone(self) -> None:
        np.random.seed(5)
        want = np.random.random(3).tolist()
        np.random.seed(5)
        draw(WEIGHTED, TASKS, 6, seed=3, counter=7)
        assert np.random.random(3).tolist() == want

    @pytest.mark.parametrize("n", [1, 5, 10])
    def test_no_task_twice_while_there_are_enough(self, n: int) -> None:
        for counter in range(20):
            ids = [t.id for t in draw(WEIGHTED, TASKS, n, seed=0, counter=counter)]
            assert len(set(ids)) == len(ids) == n

    def test_more_draws_than_tasks_repeat_tasks(self) -> None:
        ids = [t.id for t in draw(HarnessState(), TASKS, 25, seed=0, counter=0)]
        assert len(ids) == 25
        assert set(ids) <= set(TASKS.ids)

    def test_shares_follow_the_weights(self) -> None:
        n = 6000
        seen = Counter(draw(WEIGHTED, TASKS, 1, seed=0, counter=c)[0].id for c in range(n))
        # 0.8 * 3/20 + 0.2 / 10 = 0.14 for a task of x, 0.8 * 1/20 + 0.02 = 0.06 for one of y
        for i, task in enumerate(TASKS):
            p = 0.14 if i < 5 else 0.06
            assert abs(seen[task.id] / n - p) < 4 * math.sqrt(p * (1 - p) / n)

    def test_streams_of_different_purposes_differ(self) -> None:
        assert stream(0, "a").random() == stream(0, "a").random()
        assert len({stream(s, *names).random() for s in (0, 1) for names in (("a",), ("b",), ("a", 1), ("a", 2))}) == 8


class TestDistribution:
    def test_it_sums_to_one_and_keeps_a_floor(self) -> None:
        crushed = SamplerState(rules=((Scope(tasks=("t0",)), 1 / 64), (Scope(tasks=("t0",)), 1 / 64)), mix_floor=0.1)
        p = crushed.distribution(TASKS)
        assert sum(p.values()) == pytest.approx(1.0)
        assert min(p.values()) == p["t0"]
        assert p["t0"] >= 0.1 / len(TASKS)

    def test_rules_multiply(self) -> None:
        both = SamplerState(rules=((Scope(domains=("x",)), 2.0), (Scope(tasks=("t0",)), 3.0)), mix_floor=0.01)
        p = both.distribution(TASKS)
        floor = 0.01 / 10
        assert (p["t0"] - floor) / (p["t1"] - floor) == pytest.approx(3.0)
        assert (p["t1"] - floor) / (p["t9"] - floor) == pytest.approx(2.0)


def item(kind: str = "plan", **more: Any) -> GuidanceItem:
    return GuidanceItem.model_validate({"id": "h", "kind": kind, "text": "think first", **more})


class TestHintText:
    @pytest.mark.parametrize(
        ("amount", "want"),
        [(1.0, "one two three four five"), (0.5, "one two three"), (0.2, "one"), (0.21, "one two"), (0.01, "one")],
    )
    def test_partial_answer_shows_the_first_share_rounded_up(self, amount: float, want: str) -> None:
        assert hint_text(item("partial_answer", amount=amount), make_task(0)) == want

    @pytest.mark.parametrize(
        ("amount", "want"), [(1.0, "names a. names b. names c."), (0.34, "names a. names b."), (0.3, "names a.")]
    )
    def test_criteria_shows_positive_ones_only(self, amount: float, want: str) -> None:
        assert hint_text(item("criteria", amount=amount), make_task(0)) == want

    @pytest.mark.parametrize("kind", ["plan", "exemplar"])
    def test_other_kinds_show_their_text(self, kind: str) -> None:
        assert hint_text(item(kind), make_task(0)) == "think first"
        assert hint_text(item(kind, text=""), make_task(0)) is None

    def test_nothing_to_show(self) -> None:
        assert hint_text(item("partial_answer"), make_task(0, answer=None)) is None
        assert hint_text(item("partial_answer"), make_task(0, answer="  ")) is None
        only_bad = make_task(0).model_copy(update={"rubric": Rubric(criteria=(RUBRIC["bad"],))})
        assert hint_text(item("criteria"), only_bad) is None


class TestGuide:
    def state(self, **more: Any) -> HarnessState:
        return HarnessState(guidance=(item(scope=Scope(domains=("x",)), **more),))

    def test_the_first_rollouts_are_guided_and_train_on_the_plain_prompt(self) -> None:
        inside, outside = guide(self.state(dose=0.5), [TASKS["t0"], TASKS["t9"]], 8)
        assert [g.guidance_id for g in inside] == ["h"] * 4 + [None] * 4
        assert [g.generate_with for g in inside] == ["think first\ndo 0"] * 4 + ["do 0"] * 4
        assert {g.train_on for g in inside} == {"do 0"}
        assert {g.task_id for g in inside} == {"t0"}
        assert {(g.guidance_id, g.generate_with, g.train_on) for g in outside} == {(None, "do 9", "do 9")}
        assert len(outside) == 8

    @pytest.mark.parametrize(
        ("dose", "size", "want"),
        [(1.0, 8, 7), (0.95, 8, 7), (0.5, 8, 4), (0.05, 8, 0), (0.5, 3, 2), (1.0, 1, 0), (0.1, 8, 1), (0.0, 8, 0)],
    )
    def test_counts_and_at_least_one_plain(self, dose: float, size: int, want: int) -> None:
        assert guided_count(dose, size) == want
        row = guide(self.state(), [TASKS["t0"]], size, doses={"t0": dose})[0]
        assert sum(g.guidance_id == "h" for g in row) == want
        assert len(row) == size

    def test_doses_override_by_task(self) -> None:
        rows = guide(self.state(dose=0.5), [TASKS["t0"], TASKS["t1"], TASKS["t2"]], 8, doses={"t0": 0.25, "t1": 0.0})
        assert [sum(g.guidance_id is not None for g in row) for row in rows] == [2, 0, 4]

    def test_nothing_to_show_means_plain(self) -> None:
        state = HarnessState(guidance=(item("partial_answer"),))
        row = guide(state, [make_task(0, answer=None)], 4)[0]
        assert all(g.guidance_id is None and g.generate_with == "do 0" for g in row)

    def test_the_last_accepted_hint_wins(self) -> None:
        second = GuidanceItem(id="new", kind="plan", text="other", scope=Scope(tasks=("t0",)), dose=0.25)
        state = HarnessState(guidance=(item(), second))
        rows = guide(state, [TASKS["t0"], TASKS["t1"]], 4)
        assert [[g.guidance_id for g in row] for row in rows] == [["new", None, None, None], ["h", "h", None, None]]

    def test_a_renderer_places_the_hint(self) -> None:
        row = guide(self.state(), [TASKS["t0"]], 2, render=lambda hint, task: f"{task.id}<{hint}>")[0]
        assert row[0].generate_with == "t0<think first>"

    def test_chats_get_a_system_message(self) -> None:
        chat = (Message(role="user", content="hello"),)
        task = Task(id="c", prompt=chat, rubric=RUBRIC)
        assert place_hint("psst", task) == (Message(role="system", content="psst"), *chat)
        assert guide(HarnessState(guidance=(item(),)), [task], 2)[0][0].train_on == chat


class TestImportanceRatio:
    def rollout(self, guided: bool, logprob: float | None, plain: float | None) -> Rollout:
        hint = "h" if guided else None
        return Rollout("r", "t", "g", 0, "x", guidance_id=hint, logprob=logprob, logprob_plain=plain)

    def test_plain_rollouts_weigh_one(self) -> None:
        assert importance_ratio(self.rollout(False, None, None)) == 1.0
        assert importance_ratio(self.rollout(False, -1.0, -9.0), cap=0.5) == 1.0

    def test_guided_by_hand(self) -> None:
        assert importance_ratio(self.rollout(True, -0.5, -1.5)) == pytest.approx(math.exp(-1.0))

    def test_it_only_discounts(self) -> None:
        assert importance_ratio(self.rollout(True, -3.0, -0.1), cap=5.0) == 1.0

    @pytest.mark.parametrize(("plain", "want"), [(-10.0, 0.25), (-0.5, 0.8)])
    def test_floor_and_cap(self, plain: float, want: float) -> None:
        assert importance_ratio(self.rollout(True, -0.5, plain), floor=0.25, cap=0.8) == want

    @pytest.mark.parametrize(("logprob", "plain"), [(None, -1.0), (-1.0, None), (None, None)])
    def test_unknown_worth_counts_nothing(self, logprob: float | None, plain: float | None) -> None:
        assert importance_ratio(self.rollout(True, logprob, plain), floor=0.3) == 0.0
