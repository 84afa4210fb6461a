"""Edits are data with bounds; a state is what its edits make of it, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rl_core.edits import (
    MAX_ADDED,
    MAX_MULTIPLIER,
    Edit,
    GuidanceAdd,
    GuidanceDose,
    GuidanceItem,
    GuidanceRemove,
    RubricAdd,
    RubricComposite,
    RubricPenalty,
    RubricRetire,
    RubricReweight,
    SamplerEdit,
    Scope,
    as_composite,
    describe,
    parse_edit,
)
from rl_core.errors import InputError
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.state import HarnessState, SamplerState, apply, candidate
from rl_core.task import Task

DOMAINS = ("medical", "science", "writing")
WORDS = st.sampled_from(["fact", "length", "echo", "tone"])
SCOPES = st.builds(
    Scope,
    domains=st.lists(st.sampled_from(DOMAINS), max_size=2, unique=True).map(tuple),
    tasks=st.lists(st.sampled_from(["t0", "t3"]), max_size=1).map(tuple),
)
CRITERIA = st.builds(
    Criterion,
    id=WORDS.map("new-{}".format),
    text=st.text(min_size=1, max_size=20),
    weight=st.floats(0.1, 5),
    category=st.none() | WORDS,
    route=st.just(CheckRoute(name="length_band", params={"low": 3, "words": ["a", "b"], "on": True, "none": None})),
)
PENALTIES = CRITERIA.map(lambda c: c.model_copy(update={"weight": -c.weight}))
MULTIPLIERS = st.floats(0, MAX_MULTIPLIER)
ITEMS = st.builds(
    GuidanceItem,
    id=st.sampled_from(["g1", "g2"]),
    kind=st.sampled_from(["plan", "partial_answer", "criteria", "exemplar"]),
    scope=SCOPES,
    text=st.text(max_size=30),
    dose=st.floats(0.01, 1),
)
RUBRIC_EDITS = st.one_of(
    st.builds(RubricAdd, scope=SCOPES, criterion=CRITERIA),
    st.builds(RubricPenalty, scope=SCOPES, criterion=PENALTIES),
    st.builds(RubricReweight, scope=SCOPES, family=WORDS, multiplier=MULTIPLIERS),
    st.builds(RubricRetire, scope=SCOPES, family=WORDS),
    st.builds(
        RubricComposite,
        scope=SCOPES,
        multipliers=st.dictionaries(WORDS, MULTIPLIERS, max_size=3),
        added=st.lists(CRITERIA, max_size=2).map(tuple),
    ),
)
SAMPLER_EDITS = st.builds(
    SamplerEdit,
    rules=st.lists(st.tuples(SCOPES, st.floats(1 / 64, 64)), min_size=1, max_size=3).map(tuple),
    mix_floor=st.none() | st.floats(0.01, 1),
)
EDITS = st.one_of(
    RUBRIC_EDITS,
    SAMPLER_EDITS,
    st.builds(GuidanceAdd, item=ITEMS),
    st.builds(GuidanceDose, item_id=st.just("g1"), dose=st.floats(0.01, 1)),
    st.builds(GuidanceRemove, item_id=st.just("g1")),
)


def task(i: int) -> Task:
    criteria = (
        Criterion(id="fact", text="right fact", weight=4),
        Criterion(id="safe", text="no harm", weight=2, category="tone", protected=True),
        Criterion(id="length", text="short", weight=1),
        Criterion(id="echo", text="echoes the rubric", weight=-2),
    )
    return Task(id=f"t{i}", prompt="p", domain=DOMAINS[i % 3], rubric=Rubric(criteria=criteria))


TASKS = [task(i) for i in range(6)]


def weights(state: HarnessState, t: Task) -> dict[str, float]:
    return {c.id: c.weight for c in state.rubric_for(t).criteria}


@given(EDITS)
def test_edit_survives_json_with_its_key(edit: Edit) -> None:
    again = parse_edit(json.loads(json.dumps(edit.model_dump(mode="json"))))
    assert again == edit
    assert type(again) is type(edit)
    assert again.key == edit.key
    assert describe(edit).startswith(edit.interface)
    assert "\n" not in describe(edit)


def test_key_depends_on_the_content() -> None:
    assert RubricRetire(family="a").key != RubricRetire(family="b").key
    assert RubricRetire(family="a").key != RubricReweight(family="a", multiplier=0).key


@given(st.lists(RUBRIC_EDITS | SAMPLER_EDITS, max_size=5))
def test_apply_is_candidate_after_candidate_and_repeats(edits: list[Edit]) -> None:
    step_by_step = HarnessState()
    for edit in edits:
        step_by_step = candidate(step_by_step, edit)
    at_once = apply(HarnessState(), edits, version=7, step=30)
    assert at_once.digest == step_by_step.digest == apply(HarnessState(), edits, version=7, step=30).digest
    assert (at_once.version, at_once.parent, at_once.effective_from_step) == (7, 0, 30)


@given(st.lists(RUBRIC_EDITS | SAMPLER_EDITS, max_size=4), st.lists(ITEMS, max_size=1))
def test_state_survives_json(edits: list[Edit], items: list[GuidanceItem]) -> None:
    state = apply(HarnessState(), [*edits, *(GuidanceAdd(item=i) for i in items)], version=3, step=9)
    again = HarnessState.from_json(state.to_json())
    assert again == state
    assert again.digest == state.digest


@given(RUBRIC_EDITS | SAMPLER_EDITS)
def test_a_candidate_leaves_the_state_alone(edit: Edit) -> None:
    state = HarnessState(version=4)
    before = state.to_json()
    assert candidate(state, edit).version == 4
    assert state.to_json() == before


def test_digest_is_of_the_content_only() -> None:
    state = apply(HarnessState(), [RubricRetire(family="fact")], version=1, step=10)
    assert state.digest == state.model_copy(update={"version": 9, "parent": 8, "effective_from_step": 0}).digest
    assert state.digest != HarnessState().digest


def test_a_changed_state_file_is_refused() -> None:
    text = HarnessState(version=2).to_json().replace('"mix_floor": 0.2', '"mix_floor": 0.3')
    with pytest.raises(InputError, match=r"state v2.*digest"):
        HarnessState.from_json(text)


@given(st.lists(RUBRIC_EDITS, min_size=1, max_size=5), st.sampled_from(TASKS))
def test_protected_criteria_keep_their_weight(edits: list[Edit], t: Task) -> None:
    assert weights(apply(HarnessState(), edits, version=1, step=1), t)["safe"] == 2


def test_an_added_criterion_cannot_replace_a_protected_one() -> None:
    twin = Criterion(id="safe", text="anything goes", weight=0.1)
    state = candidate(HarnessState(), RubricAdd(criterion=twin))
    assert state.rubric_for(TASKS[0])["safe"] == TASKS[0].rubric["safe"]


@given(RUBRIC_EDITS, st.sampled_from(TASKS))
def test_tasks_out_of_scope_keep_their_rubric(edit: RubricAdd, t: Task) -> None:
    if not edit.scope.covers(t.id, t.domain):
        assert candidate(HarnessState(), edit).rubric_for(t) == t.rubric


@given(RUBRIC_EDITS, st.sampled_from(TASKS))
def test_a_rubric_edit_does_what_its_composite_does(edit: RubricAdd, t: Task) -> None:
    assert weights(candidate(HarnessState(), edit), t) == weights(candidate(HarnessState(), as_composite(edit)), t)


def test_reweight_retire_add_and_penalty() -> None:
    state = HarnessState()
    edits = [
        RubricReweight(family="fact", multiplier=2),
        RubricReweight(family="fact", multiplier=0.25, scope=Scope(domains=("medical",))),
        RubricRetire(family="length"),
        RubricAdd(criterion=Criterion(id="cites", text="cites", weight=3)),
        RubricPenalty(criterion=Criterion(id="pads", text="pads", weight=-1), scope=Scope(tasks=("t1",))),
    ]
    state = apply(state, edits, version=1, step=1)
    assert weights(state, TASKS[0]) == {"fact": 2, "safe": 2, "echo": -2, "cites": 3}
    assert weights(state, TASKS[1]) == {"fact": 8, "safe": 2, "echo": -2, "cites": 3, "pads": -1}


def test_a_later_edit_can_reweight_what_an_earlier_one_added() -> None:
    add = RubricAdd(criterion=Criterion(id="cites", text="cites", weight=3, category="source"))
    state = apply(HarnessState(), [add, RubricReweight(family="source", multiplier=2)], version=1, step=1)
    assert weights(state, TASKS[0])["cites"] == 6


@pytest.mark.parametrize("aggregation", ["inverted_negatives", "positive_sum"])
def test_an_edit_may_not_empty_a_rubric(aggregation: str) -> None:
    criteria = [Criterion(id="only", text="t")]
    if aggregation == "positive_sum":
        criteria.append(Criterion(id="bad", text="t", weight=-1))
    t = Task(id="x", prompt="p", rubric=Rubric(criteria=tuple(criteria), aggregation=aggregation))
    with pytest.raises(InputError, match="'x' would be empty"):
        candidate(HarnessState(), RubricRetire(family="only")).rubric_for(t)


@given(st.lists(SAMPLER_EDITS, max_size=4))
def test_every_task_keeps_its_share_of_the_floor(edits: list[Edit]) -> None:
    sampler = apply(HarnessState(), edits, version=1, step=1).sampler
    p = sampler.distribution(TASKS)
    assert sum(p.values()) == pytest.approx(1)
    assert min(p.values()) >= sampler.mix_floor / len(TASKS) - 1e-12


def test_sampler_factors_multiply_and_the_floor_is_kept_unless_named() -> None:
    edit = SamplerEdit(rules=((Scope(domains=("medical",)), 3.0), (Scope(tasks=("t0",)), 2.0)))
    state = candidate(HarnessState(sampler=SamplerState(mix_floor=0.1)), edit)
    p = state.sampler.distribution(TASKS)
    assert state.sampler.mix_floor == 0.1
    plain = {k: (v - 0.1 / 6) for k, v in p.items()}
    assert plain["t0"] / plain["t1"] == pytest.approx(6)
    assert plain["t3"] / plain["t1"] == pytest.approx(3)
    assert candidate(state, SamplerEdit(rules=((Scope(), 1.0),), mix_floor=0.5)).sampler.mix_floor == 0.5


def test_the_last_hint_that_covers_a_task_counts() -> None:
    wide = GuidanceItem(id="wide", kind="plan", text="first look, then say")
    narrow = GuidanceItem(id="narrow", kind="criteria", scope=Scope(domains=("medical",)), dose=0.25)
    state = apply(HarnessState(), [GuidanceAdd(item=wide), GuidanceAdd(item=narrow)], version=1, step=1)
    assert state.guidance_for(TASKS[0]) == narrow
    assert state.guidance_for(TASKS[1]) == wide
    state = apply(
        state, [GuidanceDose(item_id="wide", dose=0.125), GuidanceRemove(item_id="narrow")], version=2, step=2
    )
    assert state.guidance == (wide.model_copy(update={"dose": 0.125}),)
    assert HarnessState().guidance_for(TASKS[0]) is None


def test_guidance_edits_that_do_not_fit_are_refused() -> None:
    item = GuidanceItem(id="g", kind="plan")
    state = candidate(HarnessState(), GuidanceAdd(item=item))
    with pytest.raises(InputError, match="'g' exists already"):
        candidate(state, GuidanceAdd(item=item))
    for edit in (GuidanceDose(item_id="h", dose=0.5), GuidanceRemove(item_id="h")):
        with pytest.raises(InputError, match=r"no guidance with id 'h'.*name one of: g"):
            candidate(state, edit)


@pytest.mark.parametrize(
    "data",
    [
        {"interface": "rubric", "op": "reweight", "family": "a", "multiplier": MAX_MULTIPLIER + 0.1},
        {"interface": "rubric", "op": "reweight", "family": "a", "multiplier": -1},
        {"interface": "rubric", "op": "composite", "multipliers": {"a": float("nan")}},
        {"interface": "rubric", "op": "composite", "multipliers": {"a": MAX_MULTIPLIER + 0.1}},
        {
            "interface": "rubric",
            "op": "composite",
            "added": [{"id": f"a{i}", "text": "t"} for i in range(MAX_ADDED + 1)],
        },
        {"interface": "rubric", "op": "penalty", "criterion": {"id": "a", "text": "t", "weight": 1}},
        {"interface": "rubric", "op": "add", "criterion": {"id": "a", "text": "t" * 2001}},
        {"interface": "rubric", "op": "delete", "family": "a"},
        {"interface": "sampler", "rules": []},
        {"interface": "sampler", "rules": [[{}, 65.0]]},
        {"interface": "sampler", "rules": [[{}, float("nan")]]},
        {"interface": "sampler", "rules": [[{}, 2.0]], "mix_floor": 0.0},
        {"interface": "guidance", "op": "dose", "item_id": "g", "dose": 1.5},
        {"interface": "guidance", "op": "add", "item": {"id": "g", "kind": "shell"}},
        {"interface": "guidance", "op": "remove", "item_id": "g", "code": "import os"},
        {"interface": "trainer", "op": "weights"},
        "retire everything",
        None,
    ],
)
def test_what_lies_outside_the_trust_region_or_is_no_edit_is_refused(data: object) -> None:
    with pytest.raises(ValidationError):
        parse_edit(data)
