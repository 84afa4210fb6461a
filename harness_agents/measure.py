"""The one place where the graph calls the measuring half of the critic (rl_core: bank, probe, gate)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness_agents.services import Services
from rl_core.bank import Entry, ReferenceBank, half_of
from rl_core.edits import Edit, GuidanceAdd, GuidanceDose, GuidanceRemove, RubricRetire, SamplerEdit
from rl_core.gate import AcceptanceRule, decide
from rl_core.probe import GROUPS_OF_KEY, Cost, Pair, ProbeContext, pairs_for
from rl_core.reference import reference_values
from rl_core.reward_report import RewardReport
from rl_core.rollout import Group, Rollout, groups_of
from rl_core.rubric import group_rewards
from rl_core.sampler import stream
from rl_core.state import HarnessState
from rl_core.statistics import diagnose

#: Retiring a criterion that says nothing must not cost more lift than this (it can never pass d = 0).
NON_INFERIORITY = 0.02

Status = Literal["accepted", "rejected", "inconclusive", "vetoed"]


@dataclass
class Measured:
    """``why``: reason class that agents may read; ``reason`` and ``figures`` are for people and the ledger."""

    status: Status
    why: str
    reason: str
    figures: dict[str, Any]
    carry: dict[str, Any] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)


def measure(
    services: Services,
    edit: Edit,
    state: HarnessState,
    *,
    cost: Mapping[str, int],
    accepted_so_far: int,
    exclude: Iterable[str] = (),
    carried: Mapping[str, Any] | None = None,
    silent: Container[str] = (),
) -> Measured:
    """Test one edit on the frozen policy on top of ``state``.

    ``cost``: what this update has used (keys rollouts, labels); what the test uses is in the figures.
    ``exclude``: keys of pairs that an edit it descends from has used. ``silent``: families whose retirement
    only has to do no harm, since the report shows that they say nothing.
    """
    run, config = services.now, services.config
    if isinstance(edit, GuidanceRemove) and edit.item_id in run.idle_hints:
        return Measured(
            "accepted",
            "idle",
            "accepted: its dose is 0 for every task, so removing it changes no rollout",
            {"pairs": 0, "mean_d": 0.0, "rollouts": 0, "labels": 0},
        )
    spent = run.live = Cost()
    fresh_after = min((r.step for r in run.rollouts), default=run.step)
    if carried is not None:  # what suggested it at an earlier update does not test it now either
        fresh_after = min(fresh_after, int(carried.get("fresh_after", fresh_after)))
    used = {group for key in exclude for group in key.split(GROUPS_OF_KEY)}
    reference_free_rubric = services.reference is None and edit.interface == "rubric"
    bank = signal_bank(services, state) if reference_free_rubric else services.bank
    if used and isinstance(edit, SamplerEdit):  # else a used group would be paired with a fresh one, paid for in vain
        bank = _without(bank, used, services, run.step)
    context = ProbeContext(
        state=state,
        tasks=services.tasks,
        bank=bank,
        scorer=services.scorer,
        reference=services.reference,
        policy=run.policy,
        step=run.step,
        seed=config.seed,
        group_size=config.train.group_size,
        render=services.render,
        doses=run.doses,
        ratio_cap=config.guidance.ratio_cap,
        fresh_after=fresh_after,
        max_rollouts=max(config.gate.max_rollouts_per_update - cost.get("rollouts", 0), 0),
        max_labels=services.label_room(cost),
        cost=spent,
    )
    gate = config.gate
    rule = AcceptanceRule(
        mode=gate.mode,
        form=gate.form,
        alpha=gate.alpha,
        planned_tests=gate.planned_tests,
        accepted_so_far=accepted_so_far,
        margin=-NON_INFERIORITY if isinstance(edit, RubricRetire) and edit.family in silent else gate.margin,
        min_pairs=gate.min_pairs,
        max_pairs=gate.max_pairs,
    )
    keys: list[str] = []
    decision = decide(_noted(pairs_for(edit, context), keys, used), rule, carried=carried)
    figures = {
        **decision.figures,
        "rollouts": spent.rollouts,
        "labels": spent.labels,
        "reference_calls": spent.reference_calls,
    }
    out = Measured(
        decision.status, _why(decision.status, decision.reason), decision.reason, figures, dict(decision.carry), keys
    )
    if out.carry:
        out.carry["fresh_after"] = fresh_after
    if out.status == "accepted" and isinstance(edit, (GuidanceAdd, GuidanceDose)):
        _guard_learnable(out, context.hinted, config.guidance.min_logprob)
    if services.reference is None:
        out.reason += " (no reference: signal, not validity)"
    return out


def _noted(pairs: Iterator[Pair], keys: list[str], exclude: set[str]) -> Iterator[Pair]:
    for pair in pairs:
        if exclude.isdisjoint(pair.key.split(GROUPS_OF_KEY)):
            keys.append(pair.key)
            yield pair


def _why(status: str, reason: str) -> str:
    if status == "rejected":
        return "harm" if "harm" in reason else "futility"
    return status


def _without(bank: ReferenceBank, used: set[str], services: Services, step: int) -> ReferenceBank:
    """The bank's test half less the used groups. Nothing is stored."""
    out = ReferenceBank(None, tasks=services.tasks, max_age_steps=services.config.gate.max_age_steps)
    for e in bank.test(step=step):
        if e.group.id not in used:
            out.add(e.group, e.values, step=e.step)
    return out


def _guard_learnable(out: Measured, hinted: Sequence[tuple[float, float]], least: float) -> None:
    """A hint whose successes the policy can hardly say without it teaches nothing, whatever its gain in lift.

    ``hinted``: (reward, mean unguided log-prob) of the hinted probes; ``least`` in nats a token. Less harm
    than before is no lift either.
    """
    if float(out.figures["lift_candidate"]) <= 0:
        out.status, out.why = "rejected", "futility"
        out.reason = f"rejected: no lift under the edit either ({out.reason})"
        return
    if not hinted:
        out.status, out.why = "vetoed", "unlearnable"
        out.reason = "vetoed: unlearnable: the policy gives no log-probs of hinted answers"
        return
    mean = sum(r for r, _ in hinted) / len(hinted)
    successes = [lp for r, lp in hinted if r >= mean]
    typical = sum(successes) / len(successes)
    out.figures["hinted_logprob"] = typical
    if typical < least:
        out.status, out.why = "vetoed", "unlearnable"
        out.reason = (
            f"vetoed: hinted successes have {typical:.1f} nats a token without the hint, "
            f"below {least:g}: the policy could not learn them"
        )


def signal_bank(services: Services, state: HarnessState) -> ReferenceBank:
    """Without a reference: groups of the window, valued by a second independent judge pass. Nothing is stored.

    It can show that a criterion separates nothing; it says nothing about what is right.
    """
    bank = ReferenceBank(None, tasks=services.tasks, max_age_steps=services.config.gate.max_age_steps)
    groups = [g for g in training_groups(services.now.rollouts) if half_of(g.task_id) == "test"]
    for g in uniform_choice(groups, services.config.gate.max_pairs, services.config.seed, services.now.update):
        task = services.tasks[g.task_id]
        rubric = state.rubric_for(task)
        verdicts = services.scorer.verdicts(task, [r.completion for r in g.rollouts], rubric)
        bank.add(g, group_rewards(rubric, verdicts), step=g.step)
    return bank


def training_groups(rollouts: Sequence[Rollout]) -> list[Group]:
    """Whole groups of training rollouts, oldest first."""
    return groups_of(r for r in rollouts if r.phase in ("train", "control"))


def uniform_choice(groups: Sequence[Group], n: int, seed: int, update: int) -> list[Group]:
    """``n`` groups at random, the same ones after a restart."""
    order = stream(seed, "labels", update).permutation(len(groups))
    return [groups[i] for i in order[:n]]


def label_groups(services: Services, cost: Mapping[str, int]) -> dict[str, int]:
    """Buy reference values for groups of the most recent steps, within the budget. Returns the new cost.

    Groups are drawn uniformly and labelled whole; the bank sorts them into its halves. After a
    restart the same groups are chosen, and those already in the bank are counted but not bought again.
    """
    out = {
        "rollouts": cost.get("rollouts", 0),
        "labels": cost.get("labels", 0),
        "reference_calls": cost.get("reference_calls", 0),
    }
    if services.reference is None:
        return out
    run, config = services.now, services.config
    wanted = config.reference.first_groups if run.update == 1 else config.reference.trickle_groups
    for g in uniform_choice(_recent(training_groups(run.rollouts), 2 * wanted), wanted, config.seed, run.update):
        if len(g.rollouts) > services.label_room(out):
            break
        if g.id not in services.bank:
            texts = [r.completion for r in g.rollouts]
            values = reference_values(services.reference, services.tasks[g.task_id], texts)
        out["labels"] += len(g.rollouts)
        out["reference_calls"] += 1
        run.live = Cost(0, out["labels"], out["reference_calls"])  # counts even when the next one fails
        if g.id not in services.bank:
            services.bank.add(g, values, step=g.step)
    return out


def _recent(groups: Sequence[Group], at_least: int) -> list[Group]:
    """Groups of the latest steps that together hold at least so many (the policy moves, old answers age)."""
    out: list[Group] = []
    for step in sorted({g.step for g in groups}, reverse=True):
        if len(out) >= at_least:
            break
        out += [g for g in groups if g.step == step]
    return out


def evidence_entries(services: Services) -> list[Entry]:
    """The half of the bank that agents may read."""
    return services.bank.evidence(step=services.now.step)


def count_test_groups(services: Services) -> dict[str, int]:
    """Number of test groups by domain: a count, never their content."""
    counts: dict[str, int] = {}
    for e in services.bank.test(step=services.now.step):
        domain = services.tasks[e.group.task_id].domain
        counts[domain] = counts.get(domain, 0) + 1
    return counts


def build_report(services: Services) -> RewardReport:
    """Diagnosis of the window; what is said against the reference comes from the bank's evidence half.

    Banked groups are judged again under the present rubrics, so that labels bought at earlier
    checkpoints keep counting. Each of the two parts controls its own alarms.
    """
    run = services.now
    previous = None
    if run.previous and run.previous.get("report"):
        previous = RewardReport.from_dict(run.previous["report"])
    report = diagnose(run.rollouts, services.tasks, run.state, None, previous)
    if services.reference is None:
        return _criteria_of_evidence(report, services)
    entries = evidence_entries(services)
    if not entries:
        return report
    judged: list[Rollout] = []
    values: dict[str, float] = {}
    for e in entries:
        task = services.tasks[e.group.task_id]
        rubric = run.state.rubric_for(task)
        verdicts = services.scorer.verdicts(task, [r.completion for r in e.group.rollouts], rubric)
        rewards = group_rewards(rubric, verdicts)
        for r, row, reward, value in zip(e.group.rollouts, verdicts, rewards, e.values, strict=True):
            judged.append(_again(r, row, reward))
            if value is not None:
                values[r.id] = value
    against = diagnose(judged, services.tasks, run.state, values)
    alarms = [a for a in report.alarms if a.kind in ("dead_low", "dead_high", "dead_flat", "noisy")]
    alarms += [a for a in against.alarms if a.kind in ("blind", "spurious", "inverted")]
    domains = {
        name: s.model_copy(update={"validity": against.domains[name].validity}) if name in against.domains else s
        for name, s in report.domains.items()
    }
    return report.model_copy(
        update={
            "labels": against.labels,
            "overall": report.overall.model_copy(update={"validity": against.overall.validity}),
            "domains": domains,
            "alarms": tuple(sorted(alarms, key=lambda a: -a.severity)),
            "tests": report.tests + against.tests,
        }
    )


def _criteria_of_evidence(report: RewardReport, services: Services) -> RewardReport:
    """The report with what is said of single criteria taken from evidence tasks: the others test (``signal_bank``)."""
    run = services.now
    mine = [r for r in run.rollouts if half_of(r.task_id) == "evidence"]
    criteria = diagnose(mine, services.tasks, run.state, features={}) if mine else None
    parts = criteria.domains if criteria else {}
    domains = {
        name: s.model_copy(update={"criteria": parts[name].criteria if name in parts else {}})
        for name, s in report.domains.items()
    }
    overall = report.overall.model_copy(update={"criteria": criteria.overall.criteria if criteria else {}})
    return report.model_copy(update={"overall": overall, "domains": domains})


def _again(r: Rollout, verdicts: Mapping[str, Any], reward: float | None) -> Rollout:
    return Rollout(
        id=r.id,
        task_id=r.task_id,
        group_id=r.group_id,
        step=r.step,
        completion=r.completion,
        policy_version=r.policy_version,
        harness_version=r.harness_version,
        phase="train",
        guidance_id=r.guidance_id,
        verdicts=verdicts,
        reward=reward,
        tokens=r.tokens,
        truncated=r.truncated,
    )
