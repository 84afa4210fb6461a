from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from memory.errors import StoreError
from memory.records import (
    MAX_TEXT,
    SCHEMA,
    EditOutcome,
    FailureEpisode,
    RealisedEffect,
    log2_change,
    parse_record,
)


def failure(**changes: Any) -> FailureEpisode:
    base = {"run": "r", "step": 10, "update": 1, "interface": "rubric", "domain": "medical", "text": "ties everywhere"}
    return FailureEpisode.model_validate({**base, **changes})


def edit(**changes: Any) -> EditOutcome:
    base = {"run": "r", "step": 10, "update": 1, "interface": "rubric", "outcome": "rejected", "key": "k", "text": "x"}
    return EditOutcome.model_validate({**base, **changes})


def test_the_id_names_the_event_and_not_its_figures() -> None:
    one = failure(key="blind:medical")
    assert one.id == failure(key="blind:medical", text="told otherwise", step=11, data={"a": 1}).id
    assert one.content != failure(key="blind:medical", text="told otherwise").content
    others = ({"key": "blind:science"}, {"key": "blind:medical", "update": 2}, {"key": "blind:medical", "run": "s"})
    assert one.id not in {failure(**changes).id for changes in others}
    assert edit(key="blind:medical").id != one.id


def test_without_a_key_the_text_and_its_place_name_the_event() -> None:
    assert failure().id == failure(data={"x": 1}).id
    assert len({failure().id, failure(text="other").id, failure(domain="science").id}) == 3


def test_a_line_comes_back_as_the_same_record() -> None:
    record = edit(
        text="weird \ud800 text \u2028 and \x00 and é",
        data={"n": np.float32(0.5), "k": np.int64(3), "bad": np.nan, "inf": float("inf"), "deep": {"t": (1, "a")}},
    )
    line = record.to_line()
    assert "\n" not in line
    assert line.isascii()
    assert parse_record(json.loads(line)) == record
    assert record.data == {"n": 0.5, "k": 3, "bad": None, "inf": None, "deep": {"t": [1, "a"]}}


def test_text_and_data_are_bounded() -> None:
    assert len(failure(text="a" * 9999).text) == MAX_TEXT
    with pytest.raises(ValueError, match="at most"):
        failure(data={"a": "x" * 70_000})


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([], "must be a JSON object"),
        ({"kind": "rumour"}, "unknown kind 'rumour'; use one of: failure, edit, effect"),
        ({"kind": "failure", "run": "r", "step": -1, "update": 0, "text": "t"}, "field 'step'"),
        ({"kind": "failure", "run": "r", "step": 1, "update": 0, "text": "t", "colour": 1}, "field 'colour'"),
        ({"kind": "failure", "run": "r", "step": 1, "update": 0, "text": "t", "interface": "A/B"}, "field 'interface'"),
        ({"kind": "failure", "schema_version": SCHEMA + 1}, "upgrade the program"),
    ],
)
def test_what_is_no_record_is_named_in_one_line(data: object, says: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse_record(data, where="file.jsonl, line 3")
    assert says in str(caught.value)
    assert str(caught.value).startswith("file.jsonl, line 3: ")
    assert "\n" not in str(caught.value)


def test_a_repeat_is_stopped_only_after_futility_or_harm_and_while_nothing_changed() -> None:
    futile = edit(data={"reason_class": "futility", "interval": [0.2, 0.4]})
    assert futile.stops_repeat(0.3)
    assert futile.stops_repeat(None)
    assert not futile.stops_repeat(0.5)
    assert not futile.stops_repeat(0.1)
    assert edit(data={"reason_class": "harm"}).stops_repeat(0.3)
    assert edit(outcome="rolled_back").stops_repeat(0.3)
    assert not edit(data={"reason_class": "guard"}).stops_repeat(0.3)
    for outcome in ("inconclusive", "vetoed", "accepted"):
        assert not edit(outcome=outcome, data={"reason_class": "futility"}).stops_repeat(0.3)


def test_log2_change_is_bounded_and_adding_opposes_retiring() -> None:
    assert log2_change({"a": 2.0, "b": 0.5, "c": 0.0, "d": 1.0, "e": 1e-9}, ("f",)) == {
        "a": 1.0,
        "b": -1.0,
        "c": -4.0,
        "e": -4.0,
        "f": 4.0,
    }
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="multiplier of 'a'"):
            log2_change({"a": bad})


def test_an_effect_has_a_known_outcome() -> None:
    with pytest.raises(ValueError, match="helped"):
        RealisedEffect.model_validate({"run": "r", "step": 1, "update": 1, "outcome": "great", "text": "t"})
