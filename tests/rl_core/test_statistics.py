"""Diagnosis against brute force and by hand."""

import itertools
import json
import math
import random
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rl_core.edits import RubricRetire
from rl_core.errors import InputError
from rl_core.rollout import Rollout
from rl_core.rubric import Criterion, Rubric, group_rewards, spread_tolerance
from rl_core.state import HarnessState, apply
from rl_core.statistics import REFERENCE_MARGIN, RewardReport, diagnose
from rl_core.task import Task, TaskSet
from rl_core.verdict import Verdict

STATE = HarnessState()


def rubric_of(*weights, aggregation="inverted_negatives"):
    return Rubric(
        criteria=tuple(Criterion(id=f"c{i}", text="x", weight=w) for i, w in enumerate(weights)),
        aggregation=aggregation,
    )


def group(task, name, rows, *, step=0, rewards=None, texts=None):
    """One group from verdict rows ({criterion: value or None})."""
    verdicts = [{k: Verdict.missing("timeout") if v is None else Verdict.of(v) for k, v in row.items()} for row in rows]
    rewards = group_rewards(task.rubric, verdicts) if rewards is None else rewards
    return [
        Rollout(f"{name}-{i}", task.id, name, step, texts[i] if texts else f"{name} {i}", verdicts=v, reward=r)
        for i, (v, r) in enumerate(zip(verdicts, rewards, strict=True))
    ]


def rewards_only(*rewards, weights=(1.0, 1.0), state=STATE, aggregation="inverted_negatives"):
    """Report over one group that has these rewards."""
    task = Task(id="t", prompt="p", rubric=rubric_of(*weights, aggregation=aggregation))
    return diagnose(group(task, "g", [{}] * len(rewards), rewards=list(rewards)), TaskSet([task]), state)


def kind_of(report):
    return report.tasks["t"].last


@pytest.mark.parametrize(
    ("rewards", "kind"),
    [
        ([0.0, 0.0, 0.0], "dead_low"),
        ([1.0, 1.0], "dead_high"),
        ([0.5, 0.5, 0.5], "dead_flat"),
        ([0.25, 0.25], "dead_low"),
        ([0.75, 0.75], "dead_high"),
        ([0.1 + 0.2, 0.3, 0.3], "dead_flat"),  # differ only by rounding
        ([0.0, 0.5], "live"),
        ([0.0, None, 0.0], "dead_low"),
        ([None, None, 1.0], "none"),
        ([1.0], "none"),
        ([None, None], "none"),
        ([math.nan, 0.5, 0.5], "dead_flat"),
    ],
)
def test_kind_of_a_group(rewards, kind):
    report = rewards_only(*rewards)
    assert kind_of(report) == kind
    g = report.overall.groups
    assert (g.groups, g.unscored) == (1, int(kind == "none"))
    lost = sum(r is None or kind != "live" for r in rewards) / len(rewards)
    assert report.tasks["t"].wasted == pytest.approx(lost)


def test_low_and_high_follow_what_the_rubric_can_pay():
    # A penalty that nobody violates pays 1/2 under this rule: meeting nothing good is still "all low".
    assert kind_of(rewards_only(0.5, 0.5, weights=(1.0, -1.0))) == "dead_low"
    assert kind_of(rewards_only(1.0, 1.0, weights=(1.0, -1.0))) == "dead_high"
    assert kind_of(rewards_only(0.5, 0.5, weights=(1.0, -1.0), aggregation="absolute_sum")) == "dead_high"
    assert kind_of(rewards_only(-0.5, -0.5, weights=(1.0, -1.0), aggregation="positive_sum")) == "dead_low"
    assert kind_of(rewards_only(1.0, 1.0, weights=(-1.0,))) == "dead_high"


def test_rubric_is_read_under_the_state():
    # Without c1 one verdict moves the reward by 1, with it by 1/10.
    task_report = rewards_only(0.5, 0.54, weights=(9.0, 1.0))
    assert kind_of(task_report) == "dead_flat"
    retired = apply(STATE, [RubricRetire(family="c1")], version=1, step=0)
    assert kind_of(rewards_only(0.0, 0.4, weights=(9.0, 1.0))) == "live"
    assert kind_of(rewards_only(0.0, 0.4, weights=(9.0, 1.0), state=retired)) == "dead_low"


def test_by_hand_two_tasks():
    a = Task(id="a", prompt="p", domain="x", rubric=rubric_of(1.0, 1.0))
    b = Task(id="b", prompt="p", domain="y", rubric=rubric_of(1.0, 1.0))
    rolls = [
        *group(a, "g1", [{"c0": 1, "c1": 1}, {"c0": 1, "c1": 0}, {"c0": 0, "c1": 1}, {"c0": 0, "c1": 0}]),
        *group(b, "g2", [{"c0": 0, "c1": 0}] * 4, step=1),
    ]
    report = diagnose(rolls, TaskSet([a, b]), STATE)
    g = report.overall.groups
    assert (g.live.value, g.dead_low.value, g.wasted.value) == (0.5, 0.5, 0.5)
    assert (g.live.low, g.live.high, g.live.tasks) == (0.0, 1.0, 2)  # fewer than 3 tasks
    assert report.domains["x"].groups.live.value == 1.0
    assert report.overall.criteria["c0"].pass_rate.value == 0.25
    assert report.overall.criteria["c0"].item_total.value == pytest.approx(0.0)  # c0 and c1 are independent here
    assert (report.first_step, report.last_step, report.healthy) == (0, 1, True)


def test_item_total_by_hand():
    # c0 agrees with the rest (c1) in 3 of 4 rollouts: phi = (ad - bc) / sqrt(...) = 1/sqrt(3)
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0, 1.0))
    rows = [{"c0": 1, "c1": 1}, {"c0": 1, "c1": 1}, {"c0": 0, "c1": 1}, {"c0": 0, "c1": 0}]
    stats = diagnose(group(task, "g", rows), TaskSet([task]), STATE).overall.criteria["c0"]
    assert stats.item_total.value == pytest.approx(1 / math.sqrt(3))
    # 27 % of 4 is one rollout: the lower one is the last (0), the upper one is any of the first three (2/3)
    assert stats.discrimination.value == pytest.approx(2 / 3)


def test_penalty_is_oriented():
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0, -1.0))
    rows = [{"c0": 1, "c1": 0}, {"c0": 1, "c1": 0}, {"c0": 0, "c1": 1}, {"c0": 0, "c1": 1}]
    stats = diagnose(group(task, "g", rows), TaskSet([task]), STATE).overall.criteria["c1"]
    assert (stats.sign, stats.pass_rate.value) == (-1, 0.5)
    assert stats.item_total.value == pytest.approx(1.0)
    assert stats.discrimination.value == pytest.approx(1.0)
    assert stats.redundancy["c0"].value == pytest.approx(1.0)


def test_one_criterion_has_no_rest_to_compare_with():
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0))
    stats = diagnose(group(task, "g", [{"c0": 1}, {"c0": 0}]), TaskSet([task]), STATE).overall.criteria["c0"]
    assert (stats.discrimination.value, stats.item_total.value, stats.redundancy) == (None, None, {})


def test_coin_flip_trap():
    """A coin looks discriminating when all rows are pooled and ranked by a reward that holds the coin itself."""
    rng = random.Random(1)
    tasks = [Task(id=f"t{i}", prompt="p", rubric=rubric_of(*[1.0] * 6)) for i in range(40)]
    rolls = []
    for i, task in enumerate(tasks):
        skill = rng.random()
        for j in range(4):
            rows = [
                {"c0": float(rng.random() < 0.5), **{f"c{k}": float(rng.random() < skill) for k in range(1, 6)}}
                for _ in range(8)
            ]
            rolls += group(task, f"g{i}-{j}", rows)
    ranked = sorted(rolls, key=lambda r: r.reward)
    m = round(0.27 * len(ranked))
    pooled = sum(r.verdicts["c0"].value for r in ranked[-m:]) - sum(r.verdicts["c0"].value for r in ranked[:m])
    assert pooled / m > 0.25
    coin = diagnose(rolls, TaskSet(tasks), STATE).overall.criteria["c0"]
    assert abs(coin.discrimination.value) < 0.1
    assert coin.discrimination.low < 0 < coin.discrimination.high
    assert coin.item_total.low < 0 < coin.item_total.high


# ---- brute force ---------------------------------------------------------------------------------

VALUE = st.sampled_from([0.0, 1.0, 1.0, 0.0, 0.5, None])


@st.composite
def runs(draw):
    tasks = []
    for i in range(draw(st.integers(1, 4))):
        weights = draw(st.lists(st.sampled_from([1.0, 2.0, -1.0, 0.5]), min_size=1, max_size=4))
        if all(w < 0 for w in weights):
            weights = [1.0, *weights[1:]]
        tasks.append(Task(id=f"t{i}", prompt="p", domain=f"d{i % 2}", rubric=rubric_of(*weights)))
    rolls, labels = [], {}
    for g in range(draw(st.integers(1, 6))):
        task = draw(st.sampled_from(tasks))
        size = draw(st.integers(1, 6))
        rows = [{c.id: draw(VALUE) for c in task.rubric.criteria} for _ in range(size)]
        rolls += group(task, f"g{g}", rows, step=g, texts=[draw(st.sampled_from("ab")) for _ in range(size)])
    for r in rolls:
        if draw(st.booleans()):
            labels[r.id] = draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    return tasks, rolls, labels


def brute_kind(task, rewards):
    known = [r for r in rewards if r is not None]
    if len(known) < 2:
        return None
    if max(known) - min(known) > spread_tolerance(task.rubric) + 1e-9:
        return "live"
    total = sum(abs(c.weight) for c in task.rubric.criteria)
    worst = sum(abs(c.weight) for c in task.rubric.criteria if c.weight < 0) / total
    mean = sum(known) / len(known)
    if mean <= worst + (1 - worst) / 4 + 1e-9:
        return "dead_low"
    return "dead_high" if mean >= worst + (1 - worst) * 3 / 4 - 1e-9 else "dead_flat"


def brute_pearson(groups):
    """Correlation after centring within each list of (x, y)."""
    xy = xx = yy = 0.0
    for rows in groups:
        mx, my = (sum(v) / len(rows) for v in zip(*rows, strict=True))
        xy += sum((x - mx) * (y - my) for x, y in rows)
        xx += sum((x - mx) ** 2 for x, y in rows)
        yy += sum((y - my) ** 2 for x, y in rows)
    return None if xx < 1e-12 or yy < 1e-12 else xy / math.sqrt(xx * yy)


def brute_discrimination(rows):
    """Mean over every order that sorts by the rest score."""
    m = max(1, round(0.27 * len(rows)))
    ds = []
    for order in itertools.permutations(rows):
        if all(a[1] <= b[1] + 1e-9 for a, b in itertools.pairwise(order)):
            ds.append((sum(v for v, _ in order[-m:]) - sum(v for v, _ in order[:m])) / m)
    return sum(ds) / len(ds)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(runs())
def test_report_against_brute_force(run):
    tasks, rolls, labels = run
    by_task = {t.id: t for t in tasks}
    report = diagnose(rolls, TaskSet(tasks), STATE, labels)
    groups = defaultdict(list)
    for r in rolls:
        groups[r.group_id].append(r)
    kinds = {g: brute_kind(by_task[rs[0].task_id], [r.reward for r in rs]) for g, rs in groups.items()}
    scored = [k for k in kinds.values() if k]
    got = report.overall.groups
    assert (got.groups, got.unscored) == (len(kinds), len(kinds) - len(scored))
    for kind in ("live", "dead_low", "dead_high", "dead_flat"):
        share = getattr(got, kind).value
        assert share == (pytest.approx(scored.count(kind) / len(scored)) if scored else None)
    lost = sum(r.reward is None or kinds[r.group_id] != "live" for r in rolls)
    assert got.wasted.value == pytest.approx(lost / len(rolls))

    for name, stats in report.overall.criteria.items():
        seen = [(r, c) for r in rolls for c in by_task[r.task_id].rubric.criteria if c.id == name]
        values = [r.verdicts[name].value for r, _ in seen if r.verdicts[name].value is not None]
        assert stats.no_verdict.value == pytest.approx(1 - len(values) / len(seen))
        assert stats.pass_rate.value == (pytest.approx(sum(values) / len(values)) if values else None)
        item, ds = [], []
        for g, rs in groups.items():
            rubric = by_task[rs[0].task_id].rubric
            if kinds[g] != "live" or name not in {c.id for c in rubric.criteria}:
                continue
            paid = [r for r in rs if r.reward is not None]
            whole = [c for c in rubric.criteria if all(r.verdicts[c.id].value is not None for r in paid)]
            if name not in {c.id for c in whole} or len(whole) < 2:
                continue
            w, total = rubric[name].weight, sum(abs(c.weight) for c in rubric.criteria)
            rows = [
                (
                    r.verdicts[name].value if w > 0 else 1 - r.verdicts[name].value,
                    sum(c.weight * r.verdicts[c.id].value / total for c in whole if c.id != name),
                )
                for r in paid
            ]
            item.append(rows)
            if max(y for _, y in rows) - min(y for _, y in rows) > 1e-9:
                ds.append(brute_discrimination(rows))
        expected = brute_pearson(item)
        assert stats.item_total.value == (None if expected is None else pytest.approx(expected, abs=1e-6))
        assert stats.discrimination.value == (pytest.approx(sum(ds) / len(ds), abs=1e-6) if ds else None)

        ref = []
        for rs in groups.values():
            rows = [
                ((v if by_task[r.task_id].rubric[name].weight > 0 else 1 - v), labels[r.id])
                for r in rs
                if r.id in labels and name in r.verdicts and (v := r.verdicts[name].value) is not None
            ]
            ref += [rows] if rows else []
        expected = brute_pearson(ref)
        assert stats.reference.value == (None if expected is None else pytest.approx(expected, abs=1e-6))

    pairs = tied = against = 0
    for rs in groups.values():
        tolerance = spread_tolerance(by_task[rs[0].task_id].rubric) + 1e-9
        known = [r for r in rs if r.reward is not None and r.id in labels]
        for a, b in itertools.combinations(known, 2):
            gap = labels[a.id] - labels[b.id]
            if abs(gap) < REFERENCE_MARGIN:
                continue
            pairs += 1
            delta = a.reward - b.reward
            tied += abs(delta) <= tolerance
            against += abs(delta) > tolerance and delta * gap < 0
    v = report.overall.validity
    if not labels:
        assert v is None
    else:
        assert (v.labels, v.pairs) == (len(labels), pairs)
        assert v.tied.value == (pytest.approx(tied / pairs) if pairs else None)
        assert v.inverted.value == (pytest.approx(against / pairs) if pairs else None)
        unseen = pairs - (pairs - tied - 2 * against)
        assert v.blind.value == (pytest.approx(min(1.0, unseen / pairs)) if pairs else None)
    for estimate in (got.live, got.wasted, got.mean_reward):
        assert estimate.value is None or estimate.low <= estimate.value <= estimate.high
    assert RewardReport.from_json(report.to_json()) == report


@settings(max_examples=30, deadline=None)
@given(runs(), st.randoms(use_true_random=False))
def test_order_of_the_rollouts_does_not_matter(run, rng):
    tasks, rolls, labels = run
    shuffled = rolls[:]
    rng.shuffle(shuffled)
    one = diagnose(rolls, TaskSet(tasks), STATE, labels).overall
    two = diagnose(shuffled, TaskSet(tasks), STATE, labels).overall
    assert one.groups.live.value == pytest.approx(two.groups.live.value)
    for name, stats in one.criteria.items():
        assert stats.item_total.value == pytest.approx(two.criteria[name].item_total.value)


# ---- odds and ends -------------------------------------------------------------------------------


def test_families_are_pooled_over_tasks_and_within_a_rubric():
    def task(i, *ids):
        criteria = tuple(Criterion(id=f"{x}{i}", text="x", category=x[:4]) for x in ids)
        return Task(id=f"t{i}", prompt="p", rubric=Rubric(criteria=criteria))

    tasks = [task(0, "fact"), task(1, "fact", "facts")]
    rolls = group(tasks[0], "g0", [{"fact0": 1}, {"fact0": 0}])
    rolls += group(tasks[1], "g1", [{"fact1": 1, "facts1": 0}, {"fact1": 1, "facts1": 1}])
    report = diagnose(rolls, TaskSet(tasks), STATE)
    assert list(report.overall.criteria) == ["fact"]
    assert report.overall.criteria["fact"].pass_rate.value == pytest.approx((1 + 0 + 0.5 + 1) / 4)


def test_flip_rate_from_identical_completions():
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0, 1.0))
    # Ten pairs of equal texts; two pairs get two different verdicts on c0: P(differ) = .2 = 2e(1 - e)
    rolls = []
    for i in range(10):
        rolls += group(task, f"g{i}", [{"c0": 1, "c1": 1}, {"c0": float(i > 1), "c1": 1}], texts=[f"a{i}"] * 2)
    stats = diagnose(rolls, TaskSet([task]), STATE).overall.criteria
    e = stats["c0"].flip_rate.value
    assert 2 * e * (1 - e) == pytest.approx(0.2)
    assert (stats["c0"].flip_rate.n, stats["c1"].flip_rate.value) == (10, 0.0)


def test_probe_and_eval_rollouts_do_not_count():
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0, 1.0))
    rolls = group(task, "g", [{}] * 2, rewards=[0.0, 1.0])
    probe = group(task, "h", [{}] * 2, rewards=[0.0, 0.0])
    for r in probe:
        r.phase = "probe"
    assert diagnose([*rolls, *probe], TaskSet([task]), STATE).rollouts == 2
    with pytest.raises(InputError, match="only eval and probe"):
        diagnose(probe, TaskSet([task]), STATE)


def test_a_rollout_logged_twice_counts_once():
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0, 1.0))
    rolls = group(task, "g", [{}] * 2, rewards=[0.0, 1.0])
    assert diagnose([*rolls, *rolls], TaskSet([task]), STATE).rollouts == 2


def test_bad_input():
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0))
    with pytest.raises(InputError, match="no rollouts"):
        diagnose([], TaskSet([task]), STATE)
    with pytest.raises(InputError, match="unknown task 'other'"):
        diagnose([Rollout("r", "other", "g", 0, "x", reward=1.0)], TaskSet([task]), STATE)


def test_trend_and_run_of_a_task():
    task = Task(id="t", prompt="p", rubric=rubric_of(1.0, 1.0))
    before = diagnose(group(task, "g0", [{}] * 2, rewards=[0.0, 1.0]), TaskSet([task]), STATE)
    rolls = [
        r
        for i, pay in enumerate([1.0, 0.0, None, 0.0, 0.0])
        for r in group(task, f"g{i}", [{}] * 2, rewards=[0.0 if pay else pay, pay], step=i)
    ]
    now = diagnose(rolls, TaskSet([task]), STATE, None, before)
    assert now.trend["live"] == pytest.approx(0.25 - 1.0)
    assert (now.tasks["t"].last, now.tasks["t"].run, now.tasks["t"].unscored) == ("dead_low", 3, 1)


def test_report_is_plain_strict_json_and_prints():
    report = rewards_only(0.0, 0.0)
    assert json.loads(report.to_json()) == report.to_dict()
    assert RewardReport.from_dict(report.to_dict()) == report
    text = "\n".join(report.summary_lines())
    assert "100 % of rollouts paid for no gradient" in text
    assert "no alarms" in text
