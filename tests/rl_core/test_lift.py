"""Lift: hand-worked groups, its bounds, and what it must not reward."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_core.lift import lift

UNIT = st.floats(0, 1)
ROWS = st.lists(st.tuples(UNIT, UNIT), min_size=2, max_size=12)


def test_two_rollouts_by_hand() -> None:
    # rewards 0, 1: sd (n - 1) = 1/sqrt 2, advantages -+0.5 / (0.70711 + 0.0001); reference 0, 1 around 0.5
    want = 0.5 / (math.sqrt(0.5) + 1e-4) * 0.5
    assert lift([0.0, 1.0], [0.0, 1.0]) == pytest.approx(want)
    assert lift([0.0, 1.0], [0.0, 1.0]) == pytest.approx(0.35350, abs=1e-5)


def test_four_rollouts_by_hand() -> None:
    # rewards 1 1 0 0: sd = sqrt(1/3), A = +-0.86588; reference 0.8 0.4 0.4 0 has mean 0.4: (0.4 A + 0 + 0 + 0.4 A) / 4
    a = 0.5 / (math.sqrt(1 / 3) + 1e-4)
    assert lift([1.0, 1.0, 0.0, 0.0], [0.8, 0.4, 0.4, 0.0]) == pytest.approx(0.2 * a)


def test_it_is_the_correlation_times_the_spread_of_the_reference() -> None:
    rewards, reference = [0.1, 0.5, 0.9, 0.4, 0.6], [0.0, 0.7, 0.8, 0.9, 0.2]
    n = len(rewards)
    mr, mv = sum(rewards) / n, sum(reference) / n
    cov = sum((a - mr) * (b - mv) for a, b in zip(rewards, reference, strict=True)) / n
    sd = math.sqrt(sum((a - mr) ** 2 for a in rewards) / (n - 1))
    assert lift(rewards, reference) == pytest.approx(cov / (sd + 1e-4))


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_a_dead_group_gives_zero(level: float) -> None:
    assert lift([level] * 4, [0.0, 1.0, 0.3, 0.9]) == 0.0


def test_spread_that_the_reference_does_not_value_gives_zero() -> None:
    assert lift([0.0, 1.0, 0.0, 1.0], [0.6, 0.6, 0.6, 0.6]) == pytest.approx(0.0)
    assert lift([0.0, 1.0, 0.0, 1.0], [0.2, 0.2, 0.8, 0.8]) == pytest.approx(0.0)


@given(ROWS)
def test_it_lies_within_one_half(rows: list[tuple[float, float]]) -> None:
    value = lift([r for r, _ in rows], [v for _, v in rows])
    assert value is not None
    assert -0.5 <= value <= 0.5


@given(ROWS)
def test_an_inverted_reward_has_the_opposite_sign(rows: list[tuple[float, float]]) -> None:
    rewards, values = [r for r, _ in rows], [v for _, v in rows]
    straight, turned = lift(rewards, values), lift([1 - r for r in rewards], values)
    assert straight is not None
    assert turned == pytest.approx(-straight, abs=1e-9)


def test_an_inverted_reward_is_negative() -> None:
    assert (lift([1.0, 0.7, 0.3, 0.0], [0.0, 0.3, 0.7, 1.0]) or 0.0) < -0.3


@given(ROWS, st.lists(UNIT, min_size=12, max_size=12))
def test_ratios_discount_rollout_by_rollout(rows: list[tuple[float, float]], ratios: list[float]) -> None:
    rewards, values = [r for r, _ in rows], [v for _, v in rows]
    got = lift(rewards, values, ratios[: len(rows)])
    # each rollout's share of the sum is multiplied by its ratio in [0, 1], so no share grows or turns round
    shares = []
    for i in range(len(rows)):
        only = [float(i == j) for j in range(len(rows))]
        shares.append(lift(rewards, values, only) or 0.0)
    assert got == pytest.approx(sum(c * s for c, s in zip(ratios, shares, strict=False)), abs=1e-9)
    assert lift(rewards, values, [1.0] * len(rows)) == lift(rewards, values)


def test_guided_successes_count_less() -> None:
    rewards, values = [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]
    full, discounted = lift(rewards, values), lift(rewards, values, [0.2, 0.2, 1.0, 1.0])
    assert full is not None
    assert discounted == pytest.approx(0.6 * full)


def test_a_rollout_without_reward_has_no_say() -> None:
    # advantage 0 for the gap; the mean of the reference still knows all four
    a = 0.5 / (math.sqrt(0.5) + 1e-4)
    want = (a * (1.0 - 0.4) - a * (0.0 - 0.4)) / 4
    assert lift([1.0, 0.0, None, None], [1.0, 0.0, 0.3, 0.3]) == pytest.approx(want)
    assert lift([None, 1.0], [0.0, 1.0]) == 0.0


def test_a_rollout_without_reference_is_left_out() -> None:
    # advantages over all three, sum and mean over the two with a value; a gap is not a zero
    a = (1.0 - 1 / 3) / (math.sqrt(1 / 3) + 1e-4)
    b = (0.0 - 1 / 3) / (math.sqrt(1 / 3) + 1e-4)
    want = (a * 0.4 + b * -0.4) / 2
    assert lift([1.0, 0.0, 0.0], [0.9, 0.1, None]) == pytest.approx(want)


def test_fewer_than_two_reference_values_say_nothing() -> None:
    assert lift([1.0, 0.0], [0.9, None]) is None
    assert lift([1.0, 0.0], [None, None]) is None
    assert lift([], []) is None


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="zip"):
        lift([1.0, 0.0], [0.5])
