"""Aggregation rules and the no-verdict rule of a group."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rl_core.rubric import Criterion, Rubric, aggregate, group_rewards, spread_tolerance
from rl_core.verdict import Verdict

WEIGHTS = st.integers(-8, 8).filter(bool).map(float)


def rubric(*weights: float, aggregation: str = "inverted_negatives", **fields: object) -> Rubric:
    criteria = [Criterion(id=f"c{i}", text="t", weight=w, **fields) for i, w in enumerate(weights)]
    return Rubric(criteria=tuple(criteria), aggregation=aggregation)


def row(*values: float | None) -> dict[str, Verdict]:
    return {f"c{i}": Verdict(v) if v is not None else Verdict.missing("timeout") for i, v in enumerate(values)}


@st.composite
def judged(draw: st.DrawFn) -> tuple[list[float], dict[str, float]]:
    weights = draw(st.lists(WEIGHTS, min_size=1, max_size=6))
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=len(weights), max_size=len(weights)))
    return weights, {f"c{i}": v for i, v in enumerate(values)}


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [("positive_sum", 0.125), ("inverted_negatives", 0.417), ("absolute_sum", 0.083)],
)
def test_published_example(aggregation: str, expected: float) -> None:
    """Weights 5 (met), 3 (unmet), -4 (violated): one set of verdicts, three published rewards."""
    reward = aggregate(rubric(5, 3, -4, aggregation=aggregation), {"c0": 1.0, "c1": 0.0, "c2": 1.0})
    assert reward == pytest.approx(expected, abs=5e-4)


@given(judged())
def test_bounds(case: tuple[list[float], dict[str, float]]) -> None:
    weights, values = case
    assert 0 <= aggregate(rubric(*weights), values) <= 1
    assert 0 <= aggregate(rubric(*weights, aggregation="levels_mean"), values) <= 1
    assert -1 <= aggregate(rubric(*weights, aggregation="absolute_sum"), values) <= 1
    if max(weights) > 0:
        assert aggregate(rubric(*weights, aggregation="positive_sum"), values) <= 1


@given(judged())
def test_inverted_is_absolute_shifted_by_the_negative_share(case: tuple[list[float], dict[str, float]]) -> None:
    weights, values = case
    negative = -sum(w for w in weights if w < 0) / sum(abs(w) for w in weights)
    absolute = aggregate(rubric(*weights, aggregation="absolute_sum"), values)
    assert aggregate(rubric(*weights), values) == pytest.approx(absolute + negative)


@given(judged(), st.floats(0.1, 50))
def test_scale_of_the_weights_does_not_matter(case: tuple[list[float], dict[str, float]], factor: float) -> None:
    weights, values = case
    for rule in ("inverted_negatives", "absolute_sum", "category_mean", "levels_mean"):
        scaled = aggregate(rubric(*(w * factor for w in weights), aggregation=rule), values)
        assert scaled == pytest.approx(aggregate(rubric(*weights, aggregation=rule), values))


@given(judged(), st.integers(0, 5))
def test_meeting_a_criterion_moves_the_reward_by_its_share(
    case: tuple[list[float], dict[str, float]], pick: int
) -> None:
    weights, values = case
    i = pick % len(weights)
    low, high = {**values, f"c{i}": 0.0}, {**values, f"c{i}": 1.0}
    step = aggregate(rubric(*weights), high) - aggregate(rubric(*weights), low)
    assert step == pytest.approx(weights[i] / sum(abs(w) for w in weights))


def test_category_mean_gives_each_category_the_same_say() -> None:
    criteria = tuple(
        Criterion(id=i, text="t", weight=w, category=c) for i, w, c in (("a", 6, "x"), ("b", 2, "x"), ("c", 1, "y"))
    )
    r = Rubric(criteria=criteria, aggregation="category_mean")
    assert aggregate(r, {"a": 1.0, "b": 0.0, "c": 1.0}) == pytest.approx((6 / 8 + 1) / 2)
    one = rubric(6, 2, -1, aggregation="category_mean", category="x")
    values = {"c0": 1.0, "c1": 0.0, "c2": 1.0}
    assert aggregate(one, values) == pytest.approx(aggregate(rubric(6, 2, -1), values))


def test_levels_mean_turns_negative_criteria_round() -> None:
    r = rubric(3, -3, aggregation="levels_mean")
    assert aggregate(r, {"c0": 0.5, "c1": 0.25}) == pytest.approx((0.5 + 0.75) / 2)


def test_given_weights_replace_the_rubrics_own_and_zero_leaves_out() -> None:
    assert aggregate(rubric(1, 1), {"c0": 1.0, "c1": 0.0}, {"c0": 3.0}) == pytest.approx(0.75)
    assert aggregate(rubric(1, 1), {"c0": 1.0, "c1": 0.0}, {"c1": 0.0}) == 1.0


def test_no_value_at_all_is_an_error_not_a_zero() -> None:
    with pytest.raises(ValueError, match="no criterion has a value"):
        aggregate(rubric(1, 2), {})


def test_missing_negative_or_protected_withholds_the_reward() -> None:
    assert group_rewards(rubric(9, -1), [row(1, None), row(1, 0)]) == [None, 1.0]
    protected = Rubric(criteria=(*rubric(9).criteria, Criterion(id="c1", text="t", weight=1, protected=True)))
    assert group_rewards(protected, [row(1, None), row(1, 0)]) == [None, pytest.approx(0.9)]


def test_a_quarter_of_the_weight_may_be_missing_and_no_more() -> None:
    assert group_rewards(rubric(3, 1), [row(1, None), row(1, 0)]) == [1.0, 1.0]
    assert group_rewards(rubric(2.9, 1), [row(1, None), row(1, 0)]) == [None, pytest.approx(2.9 / 3.9)]


def test_gaps_of_different_rollouts_add_up() -> None:
    """Each lacks 20 %, together 40 % of the weight would be dropped for the group: no reward at all."""
    assert group_rewards(rubric(3, 1, 1), [row(1, None, 1), row(0, 1, None)]) == [None, None]


def test_positive_sum_without_a_positive_verdict_is_withheld() -> None:
    assert group_rewards(rubric(1, -4, aggregation="positive_sum"), [row(None, 0), row(1, 1)]) == [None, None]


@given(judged(), st.data())
def test_a_gap_never_makes_spread(case: tuple[list[float], dict[str, float]], data: st.DataObject) -> None:
    """Equal completions get equal rewards, whatever the judge failed to say about one of them."""
    weights, values = case
    lost = data.draw(st.sets(st.sampled_from(sorted(values))))
    whole = {k: Verdict(v) for k, v in values.items()}
    gappy = {k: Verdict.missing("unparsable") if k in lost else v for k, v in whole.items()}
    with_gap, without = group_rewards(rubric(*weights), [gappy, whole])
    if with_gap is not None:
        assert with_gap == without
        kept = {k: v for k, v in values.items() if k not in lost}
        assert with_gap == pytest.approx(aggregate(rubric(*weights), kept))


@given(judged())
def test_absent_and_missing_verdicts_are_the_same(case: tuple[list[float], dict[str, float]]) -> None:
    weights, values = case
    whole = {k: Verdict(v) for k, v in values.items()}
    absent = {k: v for k, v in whole.items() if k != "c0"}
    missing = {**whole, "c0": Verdict.missing("refusal")}
    assert group_rewards(rubric(*weights), [absent, whole]) == group_rewards(rubric(*weights), [missing, whole])


def test_spread_tolerance_is_half_the_smallest_step() -> None:
    assert spread_tolerance(rubric(6, -2)) == pytest.approx(0.5 * 2 / 8)
    graded = Rubric(criteria=(Criterion(id="g", text="t", kind="graded", levels=("a", "b", "c")),))
    assert spread_tolerance(graded) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: rubric(0.0),
        lambda: rubric(float("nan")),
        lambda: rubric(float("inf")),
        lambda: Criterion(id="", text="t"),
        lambda: Criterion(id="g", text="t", kind="graded", levels=("only",)),
        lambda: Rubric(criteria=()),
        lambda: Rubric(criteria=(Criterion(id="a", text="t"), Criterion(id="a", text="u"))),
        lambda: rubric(-1, aggregation="positive_sum"),
    ],
)
def test_unsound_rubrics_are_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(ValidationError):
        bad()
