"""The world generator: pure, in the stated shape, each failure on its own knob, and a gold that no task gives away."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_core.errors import InputError
from rl_core.judge.checks import Scorer
from rl_core.microworld.lexicon import (
    ASPECT_FACTS,
    ASPECTS,
    DOMAINS,
    FACTS,
    FILLER,
    HEDGE,
    OPENERS,
    PRAISE,
    TOPICS,
    facts_of,
    vocabulary,
)
from rl_core.microworld.world import MAX_WORDS, Knobs, World
from rl_core.rubric import CheckRoute, group_rewards
from rl_core.task import Task

WORLD = World(11, Knobs())
SEEDS = range(6)


def dump(world: World) -> list[dict[str, object]]:
    return [t.model_dump(mode="json") for t in (*world.tasks, *world.held_out)]


def truths(world: World) -> dict[str, object]:
    return {t.id: world.truth(t.id) for t in (*world.tasks, *world.held_out)}


def families(world: World, domain: str) -> set[str]:
    return {c.family for t in world.tasks if t.domain == domain for c in t.rubric.criteria}


def in_domain(world: World, domain: str) -> list[Task]:
    return [t for t in world.tasks if t.domain == domain]


# ---- shape


def test_a_world_is_a_pure_function_of_seed_and_knobs() -> None:
    assert dump(World(4)) == dump(World(4))
    assert truths(World(4)) == truths(World(4))
    assert World(4).roles == World(4).roles
    assert dump(World(4)) != dump(World(5))
    assert Knobs.drawn(4) == Knobs.drawn(4)
    assert Knobs.drawn(4) != Knobs.drawn(5)
    assert World(4).knobs == Knobs.drawn(4)


def test_with_knobs_keeps_seed_and_the_rest() -> None:
    other = WORLD.with_knobs(flat=0.5)
    assert other.seed == WORLD.seed
    assert other.knobs == Knobs(flat=0.5)
    assert other.roles == WORLD.roles
    assert truths(other) == truths(WORLD)


@pytest.mark.parametrize("seed", SEEDS)
def test_240_tasks_48_a_domain_and_unseen_pairs_held_out(seed: int) -> None:
    world = World(seed)
    assert len(world.tasks) == 240
    assert {d: len(in_domain(world, d)) for d in DOMAINS} == dict.fromkeys(DOMAINS, 48)
    train = {t.prompt_text for t in world.tasks}
    held = {t.prompt_text for t in world.held_out}
    assert not train & held
    possible = 120 - sum(
        world.truth(f"{d}-{t}-{a}").impossible
        for d in DOMAINS
        for t in TOPICS[d]
        for a in ASPECTS
        if f"{d}-{t}-{a}" not in world.tasks
    )
    assert len(world.held_out) == possible
    assert not any(world.truth(t.id).impossible for t in world.held_out)
    # topics and aspects of a held-out pair are known from training
    for kind in (1, 2):
        assert {p.split()[kind] for p in held} <= {p.split()[kind] for p in train}
    assert {t.meta["split"] for t in world.tasks} == {"train"}
    assert {t.meta["split"] for t in world.held_out} == {"held_out"}


@pytest.mark.parametrize("seed", SEEDS)
def test_roles_are_five_different_domains(seed: int) -> None:
    roles = World(seed).roles
    assert {getattr(roles, f.name) for f in fields(roles)} == set(DOMAINS)


def test_roles_move_from_world_to_world() -> None:
    assert len({World(seed).roles for seed in SEEDS}) > 3


def test_the_lexicon_says_each_word_once() -> None:
    assert len(set(vocabulary())) == len(vocabulary()) == 251
    kinds = [{f for d in DOMAINS for f in facts_of(d)}, {t for d in DOMAINS for t in TOPICS[d]}, set(OPENERS),
             set(PRAISE), set(HEDGE), set(FILLER), set(ASPECTS), set(DOMAINS)]  # fmt: skip
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    assert {len(TOPICS[d]) for d in DOMAINS} == {12}
    assert {len(FACTS[d]) for d in DOMAINS} == {24}
    assert {len(ASPECT_FACTS[d]) for d in DOMAINS} == {len(ASPECTS)} == {6}


def test_every_answer_to_every_possible_task_fits_the_limit() -> None:
    for t in WORLD.tasks:
        truth = WORLD.truth(t.id)
        if not truth.impossible:
            answer = " ".join([truth.opener, *truth.facts]).strip()
            assert len(answer.split()) <= MAX_WORDS
            assert WORLD.gold(t.id, answer) == 1.0


# ---- knobs


@pytest.mark.parametrize("name", [f.name for f in fields(Knobs)])
def test_a_knob_out_of_bounds_is_refused(name: str) -> None:
    top = 3.0 if name in ("flat", "praise", "detail", "inverted") else 1.0
    for bad in (-0.01, top + 0.01, float("nan"), float("inf")):
        with pytest.raises(InputError, match=f"microworld knobs, field '{name}': must lie between 0 and {top:g}"):
            Knobs(**{name: bad})
    assert getattr(Knobs(**{name: top}), name) == top
    assert getattr(Knobs(**{name: 0.0}), name) == 0.0


@pytest.mark.parametrize("seed", range(40))
def test_drawn_knobs_plant_the_failures(seed: int) -> None:
    knobs = Knobs.drawn(seed)
    for f in fields(knobs):
        assert getattr(knobs, f.name) > 0 or f.name in ("noise", "wrong_key")


def test_clean_is_all_zero() -> None:
    assert {getattr(Knobs.clean(), f.name) for f in fields(Knobs)} == {0.0}


def test_a_clean_world_pays_for_facts_alone_and_rightly() -> None:
    clean = World(11, Knobs.clean())
    assert {c.family for t in clean.tasks for c in t.rubric.criteria} == {"facts"}
    assert len(clean.held_out) == 120
    for t in clean.tasks:
        truth = clean.truth(t.id)
        assert t.reference_answer == " ".join(truth.facts)
        answers = [" ".join(truth.facts[:k]) for k in range(4)]
        rewards = group_rewards(t.rubric, Scorer().verdicts(t, answers, t.rubric))
        assert rewards == pytest.approx([0, 1 / 3, 2 / 3, 1])


class TestEachKnob:
    """What one knob plants, and that 0 takes it away and nothing else."""

    def others_unchanged(self, world: World, name: str) -> None:
        # the draws behind the tasks do not shift when a knob moves
        assert world.roles == WORLD.roles
        flags = {"out_of_reach", "impossible", "mastered", "wrong_key"} - {name}
        for t in WORLD.tasks:
            a, b = WORLD.truth(t.id), world.truth(t.id)
            same = [f for f in flags if not (name == "impossible" and f == "wrong_key")]
            assert [getattr(a, f) for f in same] == [getattr(b, f) for f in same]
            if not a.mastered:
                assert (a.facts, a.opener) == (b.facts, b.opener)

    def test_out_of_reach(self) -> None:
        far = WORLD.roles.far
        marked = [t for t in WORLD.tasks if WORLD.truth(t.id).out_of_reach]
        assert 0.55 < len(marked) / 48 < 0.98
        assert {t.domain for t in marked} == {far}
        for t in marked:
            (only,) = t.rubric.criteria
            facts = WORLD.truth(t.id).facts
            rewards = group_rewards(t.rubric, Scorer().verdicts(t, [" ".join(facts[:2]), " ".join(facts)], t.rubric))
            assert only.id == "all_facts"
            assert rewards == [0.0, 1.0]
        off = WORLD.with_knobs(out_of_reach=0.0)
        assert not any(off.truth(t.id).out_of_reach for t in off.tasks)
        assert all("all_facts" not in {c.id for c in t.rubric.criteria} for t in in_domain(off, far))
        assert (
            len([t for t in WORLD.with_knobs(out_of_reach=1.0).tasks if "all_facts" in t.rubric.criteria[0].id]) >= 48
        )
        self.others_unchanged(off, "out_of_reach")

    def test_impossible(self) -> None:
        hard = WORLD.roles.hard
        marked = [t for t in WORLD.tasks if WORLD.truth(t.id).impossible]
        assert 0.15 < len(marked) / 48 < 0.65
        assert {t.domain for t in marked} == {hard}
        for t in marked:
            (only,) = t.rubric.criteria
            assert isinstance(only.route, CheckRoute)
            words = only.route.params["words"]
            assert isinstance(words, list)
            assert len(set(words)) > MAX_WORDS
            assert WORLD.gold(t.id, " ".join(WORLD.truth(t.id).facts)) == 0.0
        off = WORLD.with_knobs(impossible=0.0)
        assert len(off.held_out) == 120
        for t in in_domain(off, hard):
            truth = off.truth(t.id)
            assert off.gold(t.id, " ".join([truth.opener, *truth.facts])) == 1.0
        self.others_unchanged(off, "impossible")

    def test_mastered(self) -> None:
        easy = WORLD.roles.easy
        marked = [t for t in WORLD.tasks if WORLD.truth(t.id).mastered]
        assert 0.7 < len(marked) / 48 <= 1.0
        assert {t.domain for t in marked} == {easy}
        assert all(len(t.rubric.criteria) == 1 and WORLD.truth(t.id).opener == "" for t in marked)
        off = WORLD.with_knobs(mastered=0.0)
        assert all(len(t.rubric.criteria) == 3 and off.truth(t.id).opener for t in in_domain(off, easy))
        self.others_unchanged(off, "mastered")

    def test_flat(self) -> None:
        assert "register" in families(WORLD, WORLD.roles.wordy)
        t = next(t for t in in_domain(WORLD, WORLD.roles.wordy))
        rows = Scorer().verdicts(t, ["", "and", "anything at all"], t.rubric)
        assert [row["plain"].value for row in rows] == [1.0, 1.0, 1.0]
        assert t.rubric["plain"].weight == WORLD.knobs.flat
        off = WORLD.with_knobs(flat=0.0)
        assert all("register" not in families(off, d) for d in DOMAINS)
        self.others_unchanged(off, "flat")

    def test_blind(self) -> None:
        off = WORLD.with_knobs(blind=0.0)
        assert dump(off) == dump(WORLD)  # no rubric knows of it
        t = next(t for t in in_domain(WORLD, WORLD.roles.praised))
        truth = WORLD.truth(t.id)
        wrong = next(f for f in facts_of(t.domain) if f not in truth.facts)
        clean = f"{truth.opener} {' '.join(truth.facts)}"
        assert WORLD.gold(t.id, f"{clean} {wrong}") == pytest.approx(1 / (1 + WORLD.knobs.blind))
        assert off.gold(t.id, f"{clean} {wrong}") == 1.0
        rewards = group_rewards(t.rubric, Scorer().verdicts(t, [clean, f"{clean} {wrong}"], t.rubric))
        assert rewards[0] == rewards[1]

    def test_praise(self) -> None:
        roles = WORLD.roles
        assert [d for d in DOMAINS if "tone" in families(WORLD, d)] == [
            d for d in DOMAINS if d in (roles.praised, roles.hard, roles.far)
        ]
        t = next(t for t in in_domain(WORLD, roles.praised))
        truth = WORLD.truth(t.id)
        clean = f"{truth.opener} {' '.join(truth.facts)}"
        assert WORLD.gold(t.id, f"{clean} superb") == pytest.approx(0.7)
        plain, warm = group_rewards(t.rubric, Scorer().verdicts(t, [clean, f"{clean} superb"], t.rubric))
        assert plain is not None
        assert warm is not None
        assert warm > plain
        off = WORLD.with_knobs(praise=0.0)
        assert all("tone" not in families(off, d) for d in DOMAINS)
        assert off.gold(t.id, f"{clean} superb") == 1.0
        self.others_unchanged(off, "praise")

    def test_detail(self) -> None:
        roles = WORLD.roles
        assert [d for d in DOMAINS if "detail" in families(WORLD, d)] == [
            d for d in DOMAINS if d in (roles.wordy, roles.hard, roles.praised)
        ]
        t = next(t for t in in_domain(WORLD, roles.wordy))
        eight, nine = " ".join(FILLER[:8]), " ".join(FILLER[:9])
        rows = Scorer().verdicts(t, [eight, nine], t.rubric)
        assert [row["detailed"].value for row in rows] == [0.0, 1.0]
        truth = WORLD.truth(t.id)
        clean = f"{truth.opener} {' '.join(truth.facts)}"
        padded = f"{clean} {' '.join(FILLER[:5])}"
        assert WORLD.gold(t.id, padded) == pytest.approx(1.0 - 2 * 0.03)
        off = WORLD.with_knobs(detail=0.0)
        assert all("detail" not in families(off, d) for d in DOMAINS)
        self.others_unchanged(off, "detail")

    def test_inverted(self) -> None:
        roles = WORLD.roles
        assert [d for d in DOMAINS if "directness" in families(WORLD, d)] == [
            d for d in DOMAINS if d in (roles.wordy, roles.praised)
        ]
        t = next(t for t in in_domain(WORLD, roles.wordy))
        truth = WORLD.truth(t.id)
        bare = " ".join(truth.facts)
        opened, plain = f"{truth.opener} {bare}", f"and {bare}"
        rows = Scorer().verdicts(t, [opened, plain], t.rubric)
        assert [row["direct"].value for row in rows] == [0.0, 1.0]
        assert WORLD.gold(t.id, opened) > WORLD.gold(t.id, plain)
        off = WORLD.with_knobs(inverted=0.0)
        assert all("directness" not in families(off, d) for d in DOMAINS)
        self.others_unchanged(off, "inverted")

    def test_noise(self) -> None:
        assert {d: WORLD.flip_rate(d) for d in DOMAINS} == {
            d: WORLD.knobs.noise if d == WORLD.roles.wordy else 0.0 for d in DOMAINS
        }
        off = WORLD.with_knobs(noise=0.0)
        assert {off.flip_rate(d) for d in DOMAINS} == {0.0}
        assert dump(off) == dump(WORLD)

    def test_wrong_key(self) -> None:
        on = WORLD.with_knobs(wrong_key=1.0)
        marked = [t for t in on.tasks if on.truth(t.id).wrong_key]
        assert marked
        assert {t.domain for t in marked} == {on.roles.hard}
        assert all(on.truth(t.id).wrong_key != on.truth(t.id).impossible for t in in_domain(on, on.roles.hard))
        for t in marked:
            truth = on.truth(t.id)
            named = (t.reference_answer or "").split()
            assert len(set(named)) == 3
            assert len(set(named) & set(truth.facts)) == 2
            asked = [c.text.removeprefix("names ") for c in t.rubric.criteria if c.family == "facts"]
            assert asked == named
            assert group_rewards(t.rubric, Scorer().verdicts(t, [" ".join(named)], t.rubric)) != [0.0]
            assert on.gold(t.id, f"{truth.opener} {' '.join(named)}") < on.gold(
                t.id, f"{truth.opener} {' '.join(truth.facts)}"
            )
        off = WORLD.with_knobs(wrong_key=0.0)
        assert all(t.reference_answer == " ".join(off.truth(t.id).facts) for t in off.tasks)
        self.others_unchanged(off, "wrong_key")


# ---- gold


def some_task() -> tuple[str, tuple[str, ...], str]:
    t = in_domain(WORLD, WORLD.roles.praised)[0]
    truth = WORLD.truth(t.id)
    return t.id, truth.facts, truth.opener


def gold_cases() -> list[tuple[str, float]]:
    _, (a, b, c), opener = some_task()
    other = next(o for o in OPENERS if o != opener)
    w1, w2 = [f for f in facts_of(DOMAINS[0]) if f not in (a, b, c)][:2]
    return [
        (f"{opener} {a} {b} {c}", 1.0),
        (f"{a} {b} {c}", 0.85),
        (f"{other} {a} {b} {c}", 0.85),
        (f"{a} {opener} {b} {c}", 0.85),
        (f"{opener} {b} {a} {c}", 0.85),
        (f"{b} {a} {c}", 0.7),
        (f"{opener} {a} {b}", 2 / 3 * 0.85),
        (f"{a}", 1 / 3 * 0.7),
        ("", 0.0),
        ("and with also", 0.0),
        (f"{opener} {a} {b} {c} {w1}", 1 / 1.5),
        (f"{opener} {a} {b} {c} {w1} {w2}", 1 / 2),
        (f"{opener} {a} {b} {c} superb", 0.7),
        (f"{opener} {a} {b} {c} superb amazing", 0.7),
        (f"{opener} {a} {b} {c} {c}", 0.9),
        (f"{opener} {a} {b} {c} maybe", 0.95),
        (f"{opener} {a} {b} {c} and with also", 1.0),
        (f"{opener} {a} {b} {c} and with also the", 0.97),
        ("superb", 0.0),
    ]


@pytest.mark.parametrize(("answer", "want"), gold_cases())
def test_gold_by_hand(answer: str, want: float) -> None:
    assert WORLD.gold(some_task()[0], answer) == pytest.approx(want)


def test_gold_of_a_mastered_task() -> None:
    t = next(t for t in WORLD.tasks if WORLD.truth(t.id).mastered)
    (fact,) = WORLD.truth(t.id).facts
    assert WORLD.gold(t.id, fact) == 1.0
    assert WORLD.gold(t.id, f"and {fact}") == 1.0


@given(
    st.lists(st.sampled_from([*vocabulary(), "unknown", "<x>"]), max_size=20),
    st.sampled_from([t.id for t in (*WORLD.tasks, *WORLD.held_out)]),
)
def test_gold_lies_between_0_and_1(words: list[str], task_id: str) -> None:
    assert 0.0 <= WORLD.gold(task_id, " ".join(words)) <= 1.0


def leaves(value: object) -> list[str]:
    if isinstance(value, dict):
        return [x for v in value.values() for x in leaves(v)]
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in leaves(v)]
    return [str(value)]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_task_gives_away_the_opener_or_the_truth(seed: int) -> None:
    world = World(seed)
    for t in (*world.tasks, *world.held_out):
        data = t.model_dump(mode="json")
        for c in data["rubric"]["criteria"]:
            if c["id"] == "direct":  # names all openers alike: which one is right does not follow
                assert c["route"]["params"].pop("words") == list(OPENERS)
        words = {w for text in leaves(data) for w in text.split()}
        assert not words & set(OPENERS)
        assert set(t.meta) == {"split"}
        assert world.truth(t.id).opener in ("", *OPENERS)


def test_openers_do_not_follow_from_the_domain() -> None:
    by_domain = {d: {WORLD.truth(t.id).opener for t in in_domain(WORLD, d)} - {""} for d in DOMAINS}
    assert all(len(found) >= 2 for d, found in by_domain.items() if d != WORLD.roles.easy)
