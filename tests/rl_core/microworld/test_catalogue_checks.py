"""The frozen catalogue and the checks behind it."""

from __future__ import annotations

import hashlib
import json

import pytest

from rl_core.judge.checks import get_check, run_check
from rl_core.microworld.catalogue import CATALOGUE, DECOYS, USEFUL
from rl_core.microworld.checks import listed_words
from rl_core.microworld.lexicon import DOMAINS, OPENERS, facts_of
from rl_core.microworld.world import Knobs, World
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.task import Task

TASK = Task(
    id="t",
    prompt="medical fever cause",
    rubric=Rubric(
        criteria=(
            Criterion(id="a", text="a", route=CheckRoute(name="words.mentions", params={"words": ["fluids"]})),
            Criterion(
                id="b", text="b", route=CheckRoute(name="words.mentions_all", params={"words": ["rest", "iron"]})
            ),
            Criterion(id="c", text="c", route=CheckRoute(name="words.lacks", params={"words": ["mass"]})),
        )
    ),
)

IDS = (
    "off_topic praise repetition short hedging even third early_1 early_2 early_3 middle_1 middle_2 middle_3 late_1 "
    "late_2 late_3 late_4 long_1 long_2 long_3 long_4 end_1 end_2 end_3 double_1 double_2 filler_1 filler_2 echo min_3"
)
#: Of the whole content: the catalogue was frozen before any world was drawn, so a change here is a change of the claim.
DIGEST = "2e655f34dd8c2dc4"


def test_the_catalogue_is_frozen() -> None:
    assert [c.id for c in CATALOGUE] == [f"cat.{i}" for i in IDS.split()]
    content = json.dumps([c.model_dump(mode="json") for c in CATALOGUE], sort_keys=True)
    assert hashlib.sha256(content.encode()).hexdigest()[:16] == DIGEST


def test_five_useful_checks_and_five_decoys_for_each() -> None:
    assert len(USEFUL) == 5
    assert len(DECOYS) >= 5 * len(USEFUL)
    assert CATALOGUE == USEFUL + DECOYS
    assert {c.origin for c in CATALOGUE} == {"catalogue"}
    assert {c.weight for c in CATALOGUE} == {1.0}


def test_no_entry_knows_the_openers_or_a_fact() -> None:
    facts = {w for d in DOMAINS for w in facts_of(d)}
    for c in CATALOGUE:
        assert isinstance(c.route, CheckRoute)
        words = c.route.params.get("words") or []
        assert isinstance(words, list)
        assert not set(words) & (set(OPENERS) | facts)


def test_no_entry_sees_order_or_opener() -> None:
    world = World(3, Knobs())
    t = next(t for t in world.tasks if t.domain == world.roles.praised)
    a, b, c = world.truth(t.id).facts
    right = world.truth(t.id).opener
    wrong = next(o for o in OPENERS if o != right and o[0] not in "mn")
    swapped, straight = f"and {b} {a} {c}", f"and {a} {b} {c}"
    assert world.gold(t.id, straight) > world.gold(t.id, swapped)
    for criterion in CATALOGUE:
        assert run_check(criterion, straight, t) == run_check(criterion, swapped, t)
    assert world.gold(t.id, f"{right} {a} {b} {c}") > world.gold(t.id, f"{wrong} {a} {b} {c}")
    for criterion in USEFUL:
        assert run_check(criterion, f"{right} {a} {b} {c}", t) == run_check(criterion, f"{wrong} {a} {b} {c}", t)


def test_the_checks_know_what_the_rubric_asks_for() -> None:
    assert listed_words(TASK) == {"fluids", "rest", "iron"}


@pytest.mark.parametrize(
    ("name", "params", "text", "want"),
    [
        ("mentions", {"words": ["a", "b"]}, "x b", 1.0),
        ("mentions", {"words": ["a", "b"]}, "ab x", 0.0),
        ("mentions", {"words": ["a", "b"], "at_least": 2}, "a a", 0.0),
        ("mentions", {"words": ["a", "b"], "at_least": 2}, "b a", 1.0),
        ("mentions_all", {"words": ["a", "b"]}, "b x a", 1.0),
        ("mentions_all", {"words": ["a", "b"]}, "b x", 0.0),
        ("lacks", {"words": ["a"]}, "b x", 1.0),
        ("lacks", {"words": ["a"]}, "b a", 0.0),
        ("length_between", {"low": 2, "high": 3}, "a", 0.0),
        ("length_between", {"low": 2, "high": 3}, "a b", 1.0),
        ("length_between", {"low": 2, "high": 3}, "a b c", 1.0),
        ("length_between", {"low": 2, "high": 3}, "a b c d", 0.0),
        ("off_topic", {"most": 4}, "fluids rest iron and", 0.0),
        ("off_topic", {"most": 4}, "mass fluids mass", 0.25),
        ("off_topic", {"most": 4}, "mass photon ion glow decay", 1.0),
        ("repeats", {"most": 3}, "a b", 0.0),
        ("repeats", {"most": 3}, "a a b b", 2 / 3),
        ("repeats", {"most": 3}, "a a a a a a", 1.0),
        ("opens_with", {"words": ["a"]}, "a b", 1.0),
        ("opens_with", {"words": ["a"]}, "b a", 0.0),
        ("opens_with", {"words": ["a"]}, "", 0.0),
        ("echoes_prompt", {}, "my fever", 1.0),
        ("echoes_prompt", {}, "feverish", 0.0),
        ("count_multiple", {"of": 3}, "a b c", 1.0),
        ("count_multiple", {"of": 3}, "a b", 0.0),
        ("initial_between", {"low": "g", "high": "m", "at_least": 2}, "golf x", 0.0),
        ("initial_between", {"low": "g", "high": "m", "at_least": 2}, "golf moon", 1.0),
        ("long_words", {"letters": 4}, "abc", 0.0),
        ("long_words", {"letters": 4}, "abc abcd", 1.0),
        ("ends_between", {"low": "a", "high": "h"}, "zoo apple", 1.0),
        ("ends_between", {"low": "a", "high": "h"}, "apple zoo", 0.0),
        ("ends_between", {"low": "a", "high": "h"}, "", 0.0),
        ("double_letters", {"at_least": 1}, "aba", 0.0),
        ("double_letters", {"at_least": 1}, "abba", 1.0),
        ("double_letters", {"at_least": 2}, "abba x", 0.0),
        ("always", {}, "", 1.0),
    ],
)
def test_checks_by_hand(name: str, params: dict[str, object], text: str, want: float) -> None:
    assert float(get_check(f"words.{name}")(text, TASK, **params) or 0.0) == pytest.approx(want)


@pytest.mark.parametrize("criterion", CATALOGUE, ids=lambda c: c.id)
@pytest.mark.parametrize("text", ["", ".", "mass", "and and and superb maybe fever " + "x" * 200])
def test_every_entry_gives_a_verdict_on_anything(criterion: Criterion, text: str) -> None:
    value = run_check(criterion, text, TASK).value
    assert value is not None
    assert 0.0 <= value <= 1.0
