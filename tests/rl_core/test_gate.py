"""The gate: e-values by brute force, error rates and power by seeded simulation, and every way a test can end."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_core import gate
from rl_core.gate import PATH_POINTS, AcceptanceRule, Decision, Form, decide, log_e_value
from rl_core.probe import GROUPS_OF_KEY, Pair

GOOD = [0.1, 0.14] * 100
#: Lively pairs that gain nothing: neither hope nor harm before the cap.
DULL = [0.12, -0.1, 0.13, -0.09] * 50
FORMS: st.SearchStrategy[Form] = st.sampled_from(["self_normalised", "betting"])
LAMBDA_SELF = [0.5 * 80.0 ** (i / 11) for i in range(12)]
LAMBDA_BET = [0.05 + 0.9 * i / 11 for i in range(12)]


def pairs(ds: list[float] | np.ndarray, prefix: str = "g") -> Iterator[Pair]:
    return (Pair(float(d), 0.2, f"{prefix}{i}") for i, d in enumerate(ds))


# ---- e-values


@pytest.mark.parametrize("ds", [[0.3], [0.1, -0.2, 0.25], [-1.0, 1.0, 0.0], [0.4] * 30])
def test_self_normalised_by_brute_force(ds: list[float]) -> None:
    terms = [math.exp(lam * sum(ds) - lam * lam / 2 * sum(d * d for d in ds)) for lam in LAMBDA_SELF]
    assert math.exp(log_e_value(np.array(ds), "self_normalised")) == pytest.approx(sum(terms) / 12)


@pytest.mark.parametrize("margin", [0.0, 0.05, -0.02])
@pytest.mark.parametrize("ds", [[0.3], [0.1, -0.2, 0.25], [-0.9, 0.9, 0.0], [0.4] * 30])
def test_betting_by_brute_force(ds: list[float], margin: float) -> None:
    terms = [math.prod(1 + lam / (1 + margin) * d for d in ds) for lam in LAMBDA_BET]
    assert math.exp(log_e_value(np.array(ds), "betting", margin)) == pytest.approx(sum(terms) / 12)


@pytest.mark.parametrize("form", ["self_normalised", "betting"])
def test_no_pairs_no_evidence(form: Form) -> None:
    assert log_e_value(np.array([]), form) == 0.0


@given(st.lists(st.floats(-1, 1), max_size=80), FORMS)
def test_e_values_are_finite_and_do_not_depend_on_order(ds: list[float], form: Form) -> None:
    value = log_e_value(np.array(ds), form)
    assert math.isfinite(value)
    assert log_e_value(np.array(ds[::-1]), form) == pytest.approx(value, abs=1e-6)


def test_betting_is_a_martingale_under_any_null_of_mean_zero() -> None:
    # a little gain often, a great loss rarely: outcomes enumerated, so the expectation is exact
    outcomes, chances = np.array([0.1, -0.9]), np.array([0.9, 0.1])
    assert float(outcomes @ chances) == pytest.approx(0.0)
    for n in (1, 2, 6):
        grid = np.array(np.meshgrid(*[[0, 1]] * n)).reshape(n, -1).T
        expected = sum(float(np.prod(chances[g])) * math.exp(log_e_value(outcomes[g], "betting")) for g in grid)
        assert expected == pytest.approx(1.0)


def test_self_normalised_is_a_supermartingale_under_a_symmetric_null_only() -> None:
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1).T
    expected = np.mean(
        [math.exp(log_e_value(s * np.array([0.3, 0.1, 0.2, 0.9, 0.05, 0.4]), "self_normalised")) for s in signs]
    )
    assert expected <= 1.0 + 1e-9
    # the rare harm that its docstring warns of: mean 0, and yet E above 1 (why betting has a say)
    many_small = np.array([0.02] * 45)
    assert math.exp(log_e_value(many_small, "self_normalised")) * 0.98**45 > 5


# ---- error rates and power, simulated with fixed seeds


Draw = Callable[[np.random.Generator, int], np.ndarray]


def run_many(draw: Draw, rule: AcceptanceRule, streams: int, seed: int) -> list[Decision]:
    rng = np.random.default_rng(seed)
    return [decide(pairs(draw(rng, rule.max_pairs)), rule) for _ in range(streams)]


NULLS: dict[str, Draw] = {
    "normal": lambda rng, n: np.clip(rng.normal(0, 0.1, n), -1, 1),
    "mostly nothing": lambda rng, n: rng.choice([-0.3, 0.0, 0.3], n, p=[0.1, 0.8, 0.1]),
    "harmful": lambda rng, n: np.clip(rng.normal(-0.02, 0.1, n), -1, 1),
}


@pytest.mark.parametrize("form", ["self_normalised", "betting"])
@pytest.mark.parametrize("null", list(NULLS))
def test_false_acceptances_stay_below_alpha(form: Form, null: str) -> None:
    rule = AcceptanceRule(form=form, alpha=0.05, min_pairs=24, max_pairs=60)
    streams = 400
    wrong = sum(d.status == "accepted" for d in run_many(NULLS[null], rule, streams, seed=17))
    assert wrong / streams <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / streams)


def test_betting_is_calibrated_where_a_little_gain_hides_a_rare_harm() -> None:
    rule = AcceptanceRule(form="betting", alpha=0.05, max_pairs=60)

    def rare_harm(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.choice([0.02, -0.98], n, p=[0.98, 0.02])

    wrong = sum(d.status == "accepted" for d in run_many(rare_harm, rule, 400, seed=5))
    assert wrong / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def gaining(sd: float, rng: np.random.Generator, n: int) -> np.ndarray:
    return np.clip(rng.normal(0.7 * sd, sd, n), -1, 1)


def test_a_gain_of_seven_tenths_of_a_deviation_is_found_within_forty_pairs() -> None:
    rule = AcceptanceRule()
    for sd in (0.02, 0.15):  # scale-free
        found = run_many(partial(gaining, sd), rule, 200, seed=3)
        quick = sum(d.status == "accepted" and d.figures["pairs"] <= 40 for d in found)
        assert quick >= 0.8 * len(found)


# ---- how a test ends


@pytest.mark.parametrize("least", [12, 24, 40])
def test_no_acceptance_below_the_least_pairs(least: int) -> None:
    got = decide(pairs(GOOD), AcceptanceRule(min_pairs=least, max_pairs=60))
    assert got.status == "accepted"
    assert got.figures["pairs"] == least
    short = decide(pairs(GOOD[: least - 1]), AcceptanceRule(min_pairs=least, max_pairs=60))
    assert short.status == "inconclusive"
    assert short.figures["e_value"] > 20


def test_betting_accepts_as_soon_as_it_may() -> None:
    rule = AcceptanceRule(form="betting", min_pairs=24, max_pairs=60)
    got = decide(pairs([0.6] * 60), rule)
    assert got.status == "accepted"
    assert got.figures["pairs"] < 24
    assert got.figures["e_value"] >= 20


def test_a_contradiction_by_betting_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = AcceptanceRule(min_pairs=24, max_pairs=40)
    assert decide(pairs(GOOD), rule).status == "accepted"
    honest = gate.log_e_value
    monkeypatch.setattr(
        gate, "log_e_value", lambda xs, form, margin=0.0: -0.01 if form == "betting" else honest(xs, form, margin)
    )
    refused = decide(pairs(GOOD), rule)
    assert refused.status != "accepted"
    assert refused.figures["e_value"] > 20


@given(st.lists(st.floats(-1, 1), min_size=24, max_size=60))
def test_a_projection_to_the_present_is_the_present(ds: list[float]) -> None:
    xs, rule = np.array(ds), AcceptanceRule()
    assert gate._projected(xs, len(xs), rule, spread=1.0) == log_e_value(xs, "self_normalised")


@pytest.mark.parametrize("more", [1, 2, 7, 30])
def test_a_projection_goes_on_at_the_mean(more: int) -> None:
    # with no spread of its own, what is still to come is the mean again, whether one pair or thirty
    xs = np.array([0.05] * 24)
    ahead = gate._projected(xs, 24 + more, AcceptanceRule(), spread=1.0)
    assert ahead == pytest.approx(log_e_value(np.array([0.05] * (24 + more)), "self_normalised"))
    # with spread: sum and sum of squares of the rest are what mean and deviation say
    ys = np.array([0.1, 0.3] * 12)
    sd = float(np.std(ys, ddof=1))
    total = ys.sum() + more * (0.2 + sd / math.sqrt(24))
    square = (ys**2).sum() + more * (0.2 + sd / math.sqrt(24)) ** 2 + (more - more % 2) * sd**2
    want = math.log(sum(math.exp(lam * total - lam * lam / 2 * square) for lam in LAMBDA_SELF) / 12)
    assert gate._projected(ys, 24 + more, AcceptanceRule(), spread=1.0) == pytest.approx(want)


def test_harm_stops_early() -> None:
    got = decide(pairs([-0.3, -0.25] * 30), AcceptanceRule())
    assert got.status == "rejected"
    assert "harm" in got.reason
    assert got.figures["pairs"] < 24
    assert got.carry == {}


def test_futility_stops_before_the_cap() -> None:
    got = decide(pairs([0.0] * 60), AcceptanceRule())
    assert got.status == "rejected"
    assert "futility" in got.reason
    assert got.figures["pairs"] == 10
    small = decide(pairs([0.03, -0.03] * 30), AcceptanceRule())
    assert small.status == "rejected"
    assert small.figures["pairs"] < 60


def test_a_slow_gain_is_not_given_up() -> None:
    # 0.45 sd: E stays below 20 until about 50 pairs
    ds = [0.145 if i % 2 else -0.055 for i in range(100)]
    got = decide(pairs(ds), AcceptanceRule())
    assert got.status == "accepted"
    assert 24 < got.figures["pairs"] <= 60


def test_no_more_pairs_is_inconclusive_and_carries_over() -> None:
    rule = AcceptanceRule()
    first = decide(pairs(GOOD[:15]), rule)
    assert first.status == "inconclusive"
    assert "no more pairs" in first.reason
    assert first.figures["pairs"] == 15
    # the same groups again count nothing, new ones go on from there
    same = decide(pairs(GOOD[:15]), rule, carried=json.loads(json.dumps(first.carry)))
    assert same.status == "inconclusive"
    assert same.figures["pairs"] == 15
    assert same.figures["e_value"] == pytest.approx(first.figures["e_value"])
    more = decide(pairs(GOOD), rule, carried=json.loads(json.dumps(same.carry)))
    assert more.status == "accepted"
    assert more.figures["pairs"] == 24
    assert more.figures["e_value"] == pytest.approx(decide(pairs(GOOD), rule).figures["e_value"])
    assert more.carry == {}


def test_a_group_counts_once_also_as_half_of_a_pair() -> None:
    rule = AcceptanceRule()

    def both(names: list[tuple[str, str]]) -> Iterator[Pair]:
        return (Pair(0.1, 0.0, GROUPS_OF_KEY.join(n)) for n in names)

    first = decide(both([("a", "b"), ("c", "d")]), rule)
    again = decide(both([("a", "x"), ("y", "d"), ("d", "a"), ("u", "v")]), rule, carried=first.carry)
    assert again.figures["pairs"] == 3
    assert again.carry["keys"] == ["a|b", "c|d", "u|v"]
    repeated = decide(both([("a", "b"), ("b", "c"), ("a", "b")]), rule)
    assert repeated.figures["pairs"] == 1


def test_undecided_at_the_cap_goes_on_at_the_next_update() -> None:
    rule = AcceptanceRule(min_pairs=24, max_pairs=8)
    first = decide(pairs(GOOD), rule)
    assert first.status == "inconclusive"
    assert "cap on pairs" in first.reason
    assert first.figures["pairs"] == 8
    second = decide(pairs(GOOD, "h"), rule, carried=first.carry)
    assert second.figures["pairs"] == 16
    third = decide(pairs(GOOD, "i"), rule, carried=second.carry)
    assert third.status == "accepted"
    assert third.figures["pairs"] == 24


def test_close_to_the_threshold_at_the_cap_is_not_futile() -> None:
    # E stays just below 20 up to the cap; each look before it still had hope
    ds = [*[0.2, -0.06] * 5, *[0.055, 0.035] * 9, 0.01, -0.02]
    got = decide(pairs(ds), AcceptanceRule(min_pairs=24, max_pairs=30))
    assert got.status == "inconclusive"
    assert got.figures["pairs"] == 30
    assert 15 < got.figures["e_value"] < 20
    assert len(got.carry["ds"]) == 30


def test_an_exhausted_cap_without_hope_is_futility() -> None:
    rule = AcceptanceRule(min_pairs=24, max_pairs=24)
    got = decide(pairs([0.0, 0.01] * 4 + DULL[:16]), rule)
    assert got.status == "rejected"
    assert "futility" in got.reason


def test_a_failing_source_is_inconclusive_never_accepted() -> None:
    def breaks_after(n: int) -> Iterator[Pair]:
        yield from pairs(GOOD[:n])
        raise ConnectionError("the policy server went away")

    for n in (0, 10, 23):
        got = decide(breaks_after(n), AcceptanceRule())
        assert got.status == "inconclusive"
        assert "ConnectionError: the policy server went away" in got.reason
        assert got.figures["pairs"] == n
        assert got.carry["ds"] == pytest.approx(GOOD[:n])
    strong = decide(breaks_after(23), AcceptanceRule())
    assert strong.figures["e_value"] > 20


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_lift_that_is_no_number_stops_the_test(bad: float) -> None:
    got = decide(pairs([*GOOD[:12], bad, *GOOD]), AcceptanceRule())
    assert got.status == "inconclusive"
    assert "not a finite number" in got.reason
    assert got.figures["pairs"] == 12
    json.dumps(got.figures, allow_nan=False)


def test_an_edit_without_any_pair_is_inconclusive() -> None:
    got = decide(iter(()), AcceptanceRule())
    assert got.status == "inconclusive"
    assert got.figures["pairs"] == 0
    assert got.figures["e_value"] == 1.0
    json.dumps(got.figures, allow_nan=False)


# ---- thresholds and margins


def test_thresholds() -> None:
    assert AcceptanceRule(alpha=0.05).threshold == pytest.approx(20.0)
    assert AcceptanceRule(alpha=0.05, accepted_so_far=3, planned_tests=99).threshold == pytest.approx(20.0)
    assert AcceptanceRule(mode="run_wise", alpha=0.10, planned_tests=16).threshold == pytest.approx(160.0)
    assert AcceptanceRule(mode="run_wise", alpha=0.10, planned_tests=16, accepted_so_far=3).threshold == pytest.approx(
        40
    )


def test_run_wise_needs_more_evidence() -> None:
    ds = [0.15 if i % 2 else -0.05 for i in range(200)]
    quick = decide(pairs(ds), AcceptanceRule(max_pairs=200))
    careful = decide(pairs(ds), AcceptanceRule(mode="run_wise", max_pairs=200))
    assert quick.status == careful.status == "accepted"
    assert careful.figures["pairs"] > quick.figures["pairs"]
    assert careful.figures["e_value"] >= careful.figures["threshold"] == pytest.approx(320.0)


def test_a_margin_asks_for_more_and_non_inferiority_for_less() -> None:
    ds = [0.05, 0.01] * 60
    assert decide(pairs(ds), AcceptanceRule(margin=0.0)).status == "accepted"
    assert decide(pairs(ds), AcceptanceRule(margin=0.05)).status == "rejected"
    level = [0.01, -0.01] * 60
    assert decide(pairs(level), AcceptanceRule(margin=0.0)).status == "rejected"
    assert decide(pairs(level), AcceptanceRule(margin=-0.02)).status == "accepted"
    assert decide(pairs([0.0] * 60), AcceptanceRule(margin=-0.02)).status == "accepted"


# ---- figures


@given(st.lists(st.floats(-1, 1), max_size=70), FORMS)
def test_figures_are_finite_and_plain(ds: list[float], form: Form) -> None:
    got = decide(pairs(ds), AcceptanceRule(form=form))
    text = json.dumps({"figures": got.figures, "carry": got.carry}, allow_nan=False)
    assert json.loads(text)["figures"] == got.figures
    assert len(got.figures["e_path"]) <= PATH_POINTS
    assert got.figures["pairs"] <= 60
    assert got.status in ("accepted", "rejected", "inconclusive")
    assert got.reason.startswith(got.status)
    assert (got.status == "inconclusive") == bool(got.carry)


def test_figures_say_what_was_measured() -> None:
    ds = [0.05, 0.25, 0.15] * 8
    got = decide(pairs(ds), AcceptanceRule())
    f = got.figures
    assert f["pairs"] == 24
    assert f["mean_d"] == pytest.approx(0.15)
    assert f["sd_d"] == pytest.approx(np.std(ds, ddof=1))
    assert f["lift_current"] == pytest.approx(0.2)
    assert f["lift_candidate"] == pytest.approx(0.35)
    assert f["interval"][0] < 0.15 < f["interval"][1]
    assert f["interval"][1] - f["interval"][0] < 0.12
    assert len(f["e_path"]) == 24
    assert f["e_path"][-1] == pytest.approx(f["e_value"])
    assert f["e_path"][0] == pytest.approx(math.exp(log_e_value(np.array([0.05]), "self_normalised")))
    assert "+0.200 to +0.350" in got.reason


def test_a_long_path_is_thinned_to_its_ends() -> None:
    got = decide(pairs([0.12, -0.08] * 100), AcceptanceRule(min_pairs=200, max_pairs=200))
    path = got.figures["e_path"]
    assert len(path) == PATH_POINTS
    assert path[-1] == pytest.approx(got.figures["e_value"])


def test_same_pairs_same_decision() -> None:
    ds = list(np.random.default_rng(4).normal(0.05, 0.1, 60))
    assert decide(pairs(ds), AcceptanceRule()) == decide(pairs(ds), AcceptanceRule())
