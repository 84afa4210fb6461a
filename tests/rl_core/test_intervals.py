import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_core.intervals import (
    Fit,
    binomial_upper,
    cluster_correlation,
    cluster_ratio,
    correlation_difference,
    holm,
    t_quantile,
    t_upper,
)


@pytest.mark.parametrize(
    ("df", "quantile"),  # two-sided 95 %, printed tables
    [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (120, 1.980), (5000, 1.960)],
)
def test_t_quantile_matches_the_tables(df, quantile):
    assert t_quantile(0.975, df) == pytest.approx(quantile, abs=6e-4)
    assert t_upper(t_quantile(0.975, df), df) == pytest.approx(0.025, abs=1e-9)
    assert t_upper(-1.3, df) == pytest.approx(1 - t_upper(1.3, df))


@given(st.integers(0, 25), st.integers(0, 25), st.floats(0.05, 0.95))
def test_binomial_tail_against_its_sum(count, more, p):
    trials = count + more
    exact = sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(count, trials + 1))
    assert binomial_upper(count, trials, p) == pytest.approx(min(exact, 1.0), abs=1e-9)


def test_ratio_by_hand():
    # r = 6/10; residuals 2-1.8=.2, 1-1.8=-.8, 3-2.4=.6; variance 3/2 * 1.04 / 100, raised to the binomial .24/10
    fit = cluster_ratio(np.array([2.0, 1, 3]), np.array([3.0, 3, 4]))
    assert (fit.value, fit.tasks, fit.n) == (0.6, 3, 10)
    assert fit.se == pytest.approx(math.sqrt(0.024))
    plain = cluster_ratio(np.array([2.0, 1, 3]), np.array([3.0, 3, 4]), binary=False)
    assert plain.se == pytest.approx(math.sqrt(1.5 * 1.04 / 100))
    assert plain.estimate().low == pytest.approx(0.6 - 4.30265 * plain.se, abs=1e-4)


def test_few_tasks_know_nothing():
    fit = cluster_ratio(np.array([4.0, 4.0]), np.array([8.0, 8.0]))
    assert (fit.estimate().low, fit.estimate().high, fit.p_above(0.1)) == (0.0, 1.0, 1.0)
    assert cluster_ratio(np.zeros(4), np.zeros(4)).estimate().value is None


def test_unanimous_tasks_get_the_exact_bound():
    fit = cluster_ratio(np.array([5.0] * 10), np.array([5.0] * 10))
    e = fit.estimate()
    assert e.high == 1.0
    assert e.low == pytest.approx(0.025 ** (1 / 10))
    assert fit.p_above(0.25) == pytest.approx(0.25**10)
    none = cluster_ratio(np.zeros(10), np.full(10, 5.0))
    assert (none.estimate().low, none.p_below(0.5)) == (0.0, pytest.approx(0.5**10))


def test_cluster_interval_is_wider_when_tasks_differ():
    same = cluster_ratio(np.full(20, 4.0), np.full(20, 8.0))
    split = cluster_ratio(np.array([8.0, 0.0] * 10), np.full(20, 8.0))
    assert split.se > 2 * same.se


def test_interval_covers_about_95_percent_with_correlated_rows():
    rng = np.random.default_rng(1)
    hits, plain_hits, runs = 0, 0, 400
    for _ in range(runs):
        p = rng.beta(1.0, 1.0, 30)  # every task its own rate, mean 0.5
        fit = cluster_ratio(rng.binomial(8, p).astype(float), np.full(30, 8.0))
        e = fit.estimate()
        hits += e.low <= 0.5 <= e.high
        plain_hits += abs(fit.value - 0.5) <= 1.96 * math.sqrt(0.25 / 240)
    assert 0.92 <= hits / runs <= 0.985
    assert plain_hits / runs < 0.85  # what ignoring the tasks would do


@given(
    st.lists(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=6), min_size=3, max_size=6)
)
def test_pooled_correlation_against_plain_pearson(groups):
    xs, ys, sums = [], [], []
    for rows in groups:
        x, y = (np.array(v) - np.mean(v) for v in zip(*rows, strict=True))
        xs.append(x)
        ys.append(y)
        sums.append([float(x @ y), float(x @ x), float(y @ y)])
    x, y = np.concatenate(xs), np.concatenate(ys)
    if x @ x < 1e-3 or y @ y < 1e-3:
        return
    got = cluster_correlation(*np.array(sums).T, n=len(x)).fit
    assert got.value == pytest.approx(float(x @ y / math.sqrt((x @ x) * (y @ y))), abs=1e-9)
    assert got.estimate().low <= got.value <= got.estimate().high


def test_difference_of_equal_correlations_is_nothing():
    rng = np.random.default_rng(0)
    sums = np.abs(rng.normal(size=(3, 12))) + np.array([[0.0], [1.0], [1.0]])
    a = cluster_correlation(*sums, n=100)
    diff = correlation_difference(a, a)
    assert diff.value == 0.0
    assert diff.p_above(0.0) == 1.0


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_p_values_point_the_right_way():
    fit = Fit(0.5, 0.1, 40, 20)
    assert fit.p_above(0.25) < 0.02 < 0.5 < fit.p_above(0.55)
    assert fit.p_below(0.75) == pytest.approx(fit.p_above(0.25))
