"""Planted failures raise their alarm and clean runs raise none."""

import random

import pytest

from rl_core.alarms import DEAD_FLOOR, MIN_RUN
from rl_core.rollout import Rollout
from rl_core.rubric import Criterion, Rubric, group_rewards
from rl_core.state import HarnessState
from rl_core.statistics import diagnose
from rl_core.task import Task, TaskSet
from rl_core.verdict import Verdict

DOMAINS = ("medical", "writing")
CRITERIA = ("facts", "order", "tone", "extra")


def world(n_tasks=24, criteria=CRITERIA):
    rubric = Rubric(criteria=tuple(Criterion(id=c, text="x") for c in criteria))
    return [Task(id=f"t{i}", prompt="p", domain=DOMAINS[i % 2], rubric=rubric) for i in range(n_tasks)]


def simulate(tasks, rng, *, groups=4, size=8, quality=None, verdict=None, text=None, value=None):
    """Rollouts and reference values. Each rollout has a hidden quality q; a criterion is met with probability q.

    ``quality(task)``, ``verdict(task, criterion, q)``, ``text(q, verdicts)``, ``value(q, verdicts)`` replace the parts.
    """
    rolls, labels = [], {}
    for step in range(groups):
        for task in tasks:
            rows, made = [], []
            for _ in range(size):
                q = rng.random() if quality is None else quality(task)
                row = {}
                for c in task.rubric.criteria:
                    met = verdict(task, c.id, q) if verdict else None
                    row[c.id] = Verdict.of(rng.random() < q if met is None else met)
                rows.append(row)
                plain = {k: v.value for k, v in row.items()}
                made.append((q, plain, text(q, plain) if text else " ".join(rng.choices("abcdefgh", k=8))))
            for i, (row, reward, (q, plain, t)) in enumerate(
                zip(rows, group_rewards(task.rubric, rows), made, strict=True)
            ):
                r = Rollout(f"{task.id}-{step}-{i}", task.id, f"{task.id}-{step}", step, t, verdicts=row, reward=reward)
                rolls.append(r)
                labels[r.id] = q if value is None else value(q, plain)
    return rolls, labels


def report(tasks, rolls, labels=None):
    return diagnose(rolls, TaskSet(tasks), HarnessState(), labels)


def kinds(rep):
    return {(a.kind, a.where.domains or a.where.tasks, a.family or a.feature) for a in rep.alarms}


@pytest.mark.parametrize(("q", "kind"), [(0.0, "dead_low"), (1.0, "dead_high")])
def test_dead_domain(q, kind):
    tasks = world()
    rng = random.Random(3)
    rolls, _ = simulate(tasks, rng, quality=lambda t: q if t.domain == "medical" else rng.random())
    rep = report(tasks, rolls)
    assert not rep.healthy
    assert {a.kind for a in rep.alarms} == {kind}
    domain = next(a for a in rep.alarms if a.where.domains)
    assert domain.where.domains == ("medical",)
    assert domain.interval[0] > DEAD_FLOOR[kind]
    assert (domain.support, domain.statistic) == (48, 1.0)
    assert domain.severity == pytest.approx(0.5)  # half of the rollouts
    assert 1 <= len(domain.evidence) <= 12
    by_id = {r.id: r for r in rolls}
    assert all(by_id[e].reward == q for e in domain.evidence)
    listed = next(a for a in rep.alarms if a.where.tasks)
    assert set(listed.where.tasks) == {t.id for t in tasks if t.domain == "medical"}


def test_flat_domain():
    tasks = world()
    rng = random.Random(4)
    rolls, _ = simulate(tasks, rng, verdict=lambda t, c, q: c in ("facts", "order") if t.domain == "writing" else None)
    assert ("dead_flat", ("writing",), None) in kinds(report(tasks, rolls))


def test_a_few_dead_tasks_are_listed_but_never_on_one_group():
    tasks = world()
    dead = {"t0", "t2", "t4"}

    def run(groups):
        rng = random.Random(5)
        return report(
            tasks, simulate(tasks, rng, groups=groups, quality=lambda t: 0.0 if t.id in dead else rng.random())[0]
        )

    rep = run(6)
    (alarm,) = rep.alarms
    assert (alarm.kind, set(alarm.where.tasks)) == ("dead_low", dead)  # 3 of 12: no alarm for the domain
    assert rep.tasks["t0"].run == 6
    assert MIN_RUN >= 2
    assert run(1).healthy


def test_blind_reward():
    tasks = world()
    rng = random.Random(6)
    # The reference sees something that no criterion does.
    rolls, labels = simulate(tasks, rng, value=lambda q, v: rng.random())
    found = kinds(report(tasks, rolls, labels))
    assert ("blind", (), None) in found
    # Each criterion separates answers, but not as the reference does.
    assert {f for k, where, f in found if k == "spurious" and not where} <= set(CRITERIA)
    assert any(k == "spurious" for k, _, _ in found)
    assert not any(k == "inverted" for k, _, _ in found)


def test_inverted_criterion_and_scope():
    tasks = world()
    rng = random.Random(7)
    rolls, labels = simulate(
        tasks, rng, verdict=lambda t, c, q: rng.random() > q if c == "tone" and t.domain == "medical" else None
    )
    rep = report(tasks, rolls, labels)
    assert ("inverted", ("medical",), "tone") in kinds(rep)
    assert ("inverted", ("writing",), "tone") not in kinds(rep)
    assert not any(a.kind == "inverted" and a.family != "tone" for a in rep.alarms)
    alarm = next(a for a in rep.of("inverted") if a.where.domains)
    assert alarm.interval[1] < 0
    # Where a criterion is inverted it is not called spurious as well.
    assert ("spurious", ("medical",), "tone") not in kinds(rep)


def test_whole_reward_inverted():
    tasks = world()
    rolls, labels = simulate(tasks, random.Random(8), value=lambda q, v: 1 - q)
    assert ("inverted", (), None) in kinds(report(tasks, rolls, labels))


def test_spurious_length_with_and_without_reference():
    tasks = world()
    rng = random.Random(9)

    def long_if_extra(q, v):
        return " ".join(rng.choices("abcdefgh", k=20 if v["extra"] else 10))

    rolls, labels = simulate(
        tasks,
        rng,
        groups=8,
        verdict=lambda t, c, q: rng.random() < 0.5 if c == "extra" else None,
        text=long_if_extra,
    )
    rep = report(tasks, rolls, labels)
    assert ("spurious", (), "length") in kinds(rep)
    assert ("spurious", (), "extra") in kinds(rep)
    stats = rep.overall.features["length"]
    assert stats.reward.value > 0.3 > 0.15 > abs(stats.reference.value)
    without = report(tasks, rolls)
    alarm = next(a for a in without.alarms if a.feature == "length")
    assert "no reference" in alarm.text
    assert all(a.kind == "spurious" and a.feature for a in without.alarms)


def test_length_that_the_reference_wants_is_not_spurious():
    tasks = world()
    rng = random.Random(10)
    rolls, labels = simulate(tasks, rng, text=lambda q, v: " ".join(rng.choices("abcdefgh", k=5 + round(20 * q))))
    rep = report(tasks, rolls, labels)
    assert rep.overall.features["length"].reward.value > 0.5
    assert not any(a.feature for a in rep.alarms)


def test_noisy_judge():
    tasks = world()
    rng = random.Random(11)

    def verdict(task, criterion, q):
        good = q > 0.5
        return (rng.random() < 0.75) == good if criterion == "order" else good

    rolls, _ = simulate(tasks, rng, verdict=verdict, text=lambda q, v: "good" if q > 0.5 else "bad")
    rep = report(tasks, rolls)
    noisy = rep.of("noisy")
    assert [a.family for a in noisy] == ["order"]
    assert rep.overall.criteria["order"].flip_rate.value == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("labelled", [True, False])
def test_clean_runs_raise_no_alarm(labelled):
    """Family-wise error 5 % by design; tests near no floor raise far fewer."""
    tasks = world(20)
    alarms = 0
    for seed in range(25):
        rolls, labels = simulate(tasks, random.Random(100 + seed), groups=2)
        alarms += len(report(tasks, rolls, labels if labelled else None).alarms)
    assert alarms <= 1


def test_chance_runs_of_dead_groups_stay_quiet():
    """Groups that are dead by chance (mastered in 4 of 5 rollouts) are no saturated tasks."""
    tasks = world(40, criteria=("facts",))
    rng = random.Random(12)
    rolls, _ = simulate(tasks, rng, groups=3, quality=lambda t: 0.85)
    rep = report(tasks, rolls)
    assert rep.overall.groups.dead_high.value > 0.15
    assert rep.healthy
