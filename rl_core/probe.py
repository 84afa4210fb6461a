"""Pairs: one edit tried on the frozen policy, one group of rollouts at a time.

Each kind of edit has its own pairing; all give d = lift(candidate) − lift(current) on groups of
tasks drawn at random from the edit's scope, and none uses rollouts or labels that suggested it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from rl_core.bank import Entry, ReferenceBank, half_of
from rl_core.edits import Edit, GuidanceAdd, GuidanceEdit, RubricEdit, SamplerEdit, as_composite
from rl_core.guidance import GuidedPrompt, Renderer, guide, importance_ratio, place_hint
from rl_core.judge.checks import Scorer
from rl_core.lift import lift
from rl_core.policy import FrozenPolicy, Prompt
from rl_core.reference import Reference, reference_values
from rl_core.rollout import Rollout
from rl_core.rubric import Criterion, Rubric, group_rewards
from rl_core.sampler import stream
from rl_core.state import HarnessState, candidate
from rl_core.task import Task, TaskSet

#: Stands between the two groups in the key of a sampler pair.
GROUPS_OF_KEY = "|"
#: Groups generated in one batch.
CHUNK = 8


class Pair(NamedTuple):
    """``d`` = lift under the candidate minus ``current`` = lift under the current state, both per rollout.

    ``key``: id of the group it came from, or two ids joined by ``GROUPS_OF_KEY``; a group tests an edit once.
    """

    d: float
    current: float
    key: str


@dataclass
class Cost:
    """What testing has used so far."""

    rollouts: int = 0
    labels: int = 0
    reference_calls: int = 0


@dataclass
class ProbeContext:
    """Everything a pairing may use. ``max_rollouts`` and ``max_labels`` are hard caps on ``cost``.

    ``fresh_after``: rollouts of this step and later suggested the edit, so they never test it.
    ``hinted`` collects (reward, unguided mean log-prob) of the hinted probe rollouts, for the guard
    against hints whose successes the policy cannot reach unguided.
    """

    state: HarnessState
    tasks: TaskSet
    bank: ReferenceBank
    scorer: Scorer
    reference: Reference | None
    policy: FrozenPolicy | None
    step: int
    seed: int
    group_size: int
    render: Renderer = place_hint
    doses: Mapping[str, float] = field(default_factory=dict)
    ratio_cap: float = 1.0
    fresh_after: int = 10**9
    max_rollouts: int = 10**9
    max_labels: int = 10**9
    cost: Cost = field(default_factory=Cost)
    hinted: list[tuple[float, float]] = field(default_factory=list)


def pairs_for(edit: Edit, ctx: ProbeContext) -> Iterator[Pair]:
    """The pairs of any edit, lazily. Raises InputError when the edit does not fit the state."""
    if isinstance(edit, SamplerEdit):
        return sampler_pairs(edit, ctx)
    if edit.interface == "guidance":
        return guidance_pairs(edit, ctx)
    return rubric_pairs(edit, ctx)


def rubric_pairs(edit: RubricEdit, ctx: ProbeContext) -> Iterator[Pair]:
    """One banked test-half group judged under both rubrics: no rollout, no new label.

    The criteria of both rubrics are judged in one call, as in production.
    """
    new = candidate(ctx.state, edit)
    entries = ctx.bank.test(step=ctx.step, scope=as_composite(edit).scope)
    rng = stream(ctx.seed, "rubric-pairs", ctx.step, edit.key)
    for i in rng.permutation(len(entries)):
        both = lift_under_both(entries[i], ctx.state, new, ctx.tasks, ctx.scorer, ratio_cap=ctx.ratio_cap)
        if both is not None:
            yield Pair(both[1] - both[0], both[0], entries[i].group.id)


def lift_under_both(
    entry: Entry, old: HarnessState, new: HarnessState, tasks: TaskSet, scorer: Scorer, *, ratio_cap: float = 1.0
) -> tuple[float, float] | None:
    """Lift of one referenced group under the rubrics of two states, judged once; None where it has none."""
    task, rolls = tasks[entry.group.task_id], entry.group.rollouts
    old_rubric, new_rubric = old.rubric_for(task), new.rubric_for(task)
    texts = [r.completion for r in rolls]
    verdicts = scorer.verdicts(task, texts, union_rubric(old_rubric, new_rubric))
    rewritten = rewritten_criteria(old_rubric, new_rubric)
    after = verdicts
    if rewritten:
        again = scorer.verdicts(task, texts, new_rubric.model_copy(update={"criteria": rewritten}))
        after = [{**row, **more} for row, more in zip(verdicts, again, strict=True)]
    ratios = [importance_ratio(r, cap=ratio_cap) for r in rolls]
    a = lift(group_rewards(old_rubric, verdicts), entry.values, ratios)
    b = lift(group_rewards(new_rubric, after), entry.values, ratios)
    return None if a is None or b is None else (a, b)


def union_rubric(a: Rubric, b: Rubric) -> Rubric:
    """All criteria of both rubrics (a's version of a shared id): one judging serves both."""
    have = {c.id for c in a.criteria}
    return a.model_copy(update={"criteria": (*a.criteria, *(c for c in b.criteria if c.id not in have))})


def rewritten_criteria(old: Rubric, new: Rubric) -> tuple[Criterion, ...]:
    """Criteria of ``new`` that put another question under an id that ``old`` has too (weights do not matter)."""
    have = {c.id: c for c in old.criteria}
    return tuple(c for c in new.criteria if c.id in have and _question(c) != _question(have[c.id]))


def _question(c: Criterion) -> tuple[object, ...]:
    return c.text, c.kind, c.levels, c.route


def guidance_pairs(edit: GuidanceEdit, ctx: ProbeContext) -> Iterator[Pair]:
    """Fresh rollouts of one task under both states, sharing what both would draw alike.

    For a new hint: ``dose·G`` hinted and the rest plain, against ``G`` plain ones. A new hint is
    tried at its own dose; hints in use at their current, decayed doses. Domain and global hints are
    tried on tasks of the test half first.
    """
    new = candidate(ctx.state, edit)
    item_id = edit.item.id if isinstance(edit, GuidanceAdd) else edit.item_id
    item = next(i for i in (*new.guidance, *ctx.state.guidance) if i.id == item_id)
    rng = stream(ctx.seed, "guidance-pairs", ctx.step, edit.key)
    scope = [t for t in ctx.tasks if item.scope.covers(t.id, t.domain)]
    if not scope:
        return
    order = [scope[i] for i in rng.permutation(len(scope))]
    if item.scope.level != "task":
        order.sort(key=lambda t: half_of(t.id) != "test")
    new_doses = _doses_under(new, ctx)
    for chunk in count():
        part = [order[(chunk * CHUNK + j) % len(order)] for j in range(CHUNK)]
        sides = [
            [
                guide(ctx.state, [t], ctx.group_size, doses=ctx.doses, render=ctx.render)[0],
                guide(new, [t], ctx.group_size, doses=new_doses, render=ctx.render)[0],
            ]
            for t in part
        ]
        drawn = _draw(part, sides, ctx, f"{edit.key}-{chunk}")
        if drawn is None:
            return
        for task, (current, guided) in zip(part, drawn, strict=True):
            everything = list({id(r): r for r in (*current, *guided)}.values())
            values = _label(task, everything, ctx)
            if values is None:
                return
            by_id = dict(zip((r.id for r in everything), values, strict=True))
            a = _lift_under(ctx.state, task, current, [by_id[r.id] for r in current], ctx)
            b = _lift_under(new, task, guided, [by_id[r.id] for r in guided], ctx)
            ctx.hinted += [
                (r.reward, r.logprob_plain)
                for r in guided
                if r.guidance_id == item_id and r.reward is not None and r.logprob_plain is not None
            ]
            if a is not None and b is not None:
                yield Pair(b - a, a, guided[0].group_id)


def _doses_under(new: HarnessState, ctx: ProbeContext) -> dict[str, float]:
    """Decayed doses under ``new``: the decay of a hint stays when its dose is changed, and goes with the hint."""
    out: dict[str, float] = {}
    for task_id, dose in ctx.doses.items():
        task = ctx.tasks[task_id]
        old_item, item = ctx.state.guidance_for(task), new.guidance_for(task)
        if old_item is not None and item is not None and old_item.id == item.id:
            out[task_id] = dose * item.dose / old_item.dose
    return out


def sampler_pairs(edit: SamplerEdit, ctx: ProbeContext) -> Iterator[Pair]:
    """One task drawn under each weighting: d = lift of the candidate's draw minus that of the current one's.

    The two draws are maximally coupled, so they differ as rarely as the two distributions allow, and
    pairs with the same task (d = 0 exactly) are skipped: E[d] is the chance of different draws times
    the mean of d among those, so the sign is the same at a fraction of the rollouts. Groups of the
    bank's test half serve first: tasks of one domain that the edit treats alike stand for one another.
    When none is left a group is drawn fresh and labelled.
    """
    new = candidate(ctx.state, edit)
    before = ctx.state.sampler.distribution(ctx.tasks)
    after = new.sampler.distribution(ctx.tasks)
    ids = list(before)
    change = np.array([after[i] - before[i] for i in ids])
    gain, loss = np.clip(change, 0, None), np.clip(-change, 0, None)
    if gain.sum() < 1e-9:
        return
    rng = stream(ctx.seed, "sampler-pairs", ctx.step, edit.key)
    # what marked a task as dead would come out as dead again: only groups from before that window serve
    older = [e for e in ctx.bank.test(step=ctx.step) if e.group.step < ctx.fresh_after]
    banked = [older[i] for i in rng.permutation(len(older))]
    kinds = {i: (ctx.tasks[i].domain, round(before[i], 12), round(after[i], 12)) for i in ids}
    for chunk in count():
        found, fresh = [], []
        for _ in range(CHUNK // 2):
            for side in (loss, gain):
                have = _take(banked, kinds, dict(zip(ids, side, strict=True)), rng)
                found.append(have)
                if have is None:
                    fresh.append(ctx.tasks[ids[int(rng.choice(len(ids), p=side / side.sum()))]])
        rows = [[guide(ctx.state, [t], ctx.group_size, doses=ctx.doses, render=ctx.render)[0]] for t in fresh]
        drawn = _draw(fresh, rows, ctx, f"{edit.key}-{chunk}")
        if drawn is None:
            return
        new_groups = iter(zip(fresh, drawn, strict=True))
        lifts: list[float | None] = []
        names: list[str] = []
        for have in found:
            if have is None:
                task, (rolls,) = next(new_groups)
                values = _label(task, rolls, ctx)
                if values is None:
                    return
            else:
                task, rolls, values = ctx.tasks[have.group.task_id], have.group.rollouts, have.values
            lifts.append(_lift_under(ctx.state, task, rolls, values, ctx))
            names.append(rolls[0].group_id)
        for j in range(0, CHUNK, 2):
            low, high = lifts[j], lifts[j + 1]
            if low is not None and high is not None:
                yield Pair(high - low, low, GROUPS_OF_KEY.join(names[j : j + 2]))


def _take(
    banked: list[Entry], kinds: Mapping[str, Hashable], weight: Mapping[str, float], rng: np.random.Generator
) -> Entry | None:
    """Draw a banked group and remove it; None when none is left.

    Each kind of task is drawn in proportion to the weight of all its tasks, however many groups of it
    the bank happens to hold.
    """
    total: dict[Hashable, float] = {}
    for task_id, kind in kinds.items():
        total[kind] = total.get(kind, 0.0) + weight[task_id]
    held = Counter(kinds[e.group.task_id] for e in banked)
    p = np.array([total[kinds[e.group.task_id]] / held[kinds[e.group.task_id]] for e in banked])
    if not len(p) or p.sum() <= 0:
        return None
    return banked.pop(int(rng.choice(len(p), p=p / p.sum())))


def _draw(
    tasks: Sequence[Task], sides: Sequence[Sequence[list[GuidedPrompt]]], ctx: ProbeContext, tag: str
) -> list[list[list[Rollout]]] | None:
    """Fresh groups ``[task][side][rollout]``; sides of one task share rollouts drawn with the same prompt.

    None when the cap on rollouts or labels would be passed. Prompts wanted equally often go through one batch.
    """
    needs: list[dict[Prompt, tuple[int, str | None]]] = []
    for rows in sides:
        need: dict[Prompt, tuple[int, str | None]] = {}
        for row in rows:
            for prompt, k in Counter(g.generate_with for g in row).items():
                gid = next(g.guidance_id for g in row if g.generate_with == prompt)
                need[prompt] = (max(k, need.get(prompt, (0, None))[0]), gid)
        needs.append(need)
    wanted = [(i, prompt, k, gid) for i, need in enumerate(needs) for prompt, (k, gid) in need.items()]
    total = sum(k for _, _, k, _ in wanted)
    if ctx.cost.rollouts + total > ctx.max_rollouts:
        return None
    if ctx.reference is not None and ctx.cost.labels + total > ctx.max_labels:
        return None
    if wanted and ctx.policy is None:
        raise RuntimeError("this edit needs a policy to probe and none was given")
    pool: dict[tuple[int, Prompt], list[Rollout]] = {}
    for size in sorted({k for _, _, k, _ in wanted}):
        batch = [w for w in wanted if w[2] == size]
        seed = int(stream(ctx.seed, "probe", ctx.step, tag, size).integers(2**31))
        assert ctx.policy is not None
        answers = ctx.policy.generate([w[1] for w in batch], n=size, seed=seed)
        for (i, prompt, _, gid), completions in zip(batch, answers, strict=True):
            group = f"probe-{ctx.step}-{tag}-{i}"
            pool[i, prompt] = [
                Rollout(
                    id=f"{group}-{gid or 'plain'}-{j}",
                    task_id=tasks[i].id,
                    group_id=group,
                    step=ctx.step,
                    completion=c.text,
                    phase="probe",
                    guidance_id=gid,
                    tokens=c.tokens,
                    truncated=c.truncated,
                    logprob=c.logprob,
                    harness_version=ctx.state.version,
                    policy_version=ctx.policy.version,
                )
                for j, c in enumerate(completions)
            ]
            ctx.cost.rollouts += len(completions)
    hinted = [r for rolls in pool.values() for r in rolls if r.guidance_id is not None]
    if hinted and ctx.policy is not None:
        by_id = {t.id: t for t in tasks}
        plain = ctx.policy.logprobs([by_id[r.task_id].prompt for r in hinted], [r.completion for r in hinted])
        for r, value in zip(hinted, plain, strict=True):
            r.logprob_plain = value
    out = []
    for i, rows in enumerate(sides):
        groups = []
        for row in rows:
            used: Counter[Prompt] = Counter()
            group_rolls = []
            for g in row:
                group_rolls.append(pool[i, g.generate_with][used[g.generate_with]])
                used[g.generate_with] += 1
            groups.append(group_rolls)
        out.append(groups)
    return out


def _label(task: Task, rolls: Sequence[Rollout], ctx: ProbeContext) -> list[float | None] | None:
    """Reference values of one task's rollouts in one call; None when the label cap would be passed.

    Without a reference a second judge pass under the current rubric stands in: its covariance with the
    first is signal, since independent flips cancel. The second pass sees the completions rotated by one,
    so that noise tied to a position and answers cached by group are not the first pass over again; noise
    that depends on the text alone stays. It shows signal, not validity.
    """
    texts = [r.completion for r in rolls]
    if ctx.reference is None:
        rubric = ctx.state.rubric_for(task)
        rows = ctx.scorer.verdicts(task, [*texts[1:], *texts[:1]], rubric)
        return group_rewards(rubric, [*rows[-1:], *rows[:-1]])
    if ctx.cost.labels + len(texts) > ctx.max_labels:
        return None
    ctx.cost.labels += len(texts)
    ctx.cost.reference_calls += 1
    return reference_values(ctx.reference, task, texts)


def _lift_under(
    state: HarnessState, task: Task, rolls: Sequence[Rollout], values: Sequence[float | None], ctx: ProbeContext
) -> float | None:
    rubric = state.rubric_for(task)
    rewards = group_rewards(rubric, ctx.scorer.verdicts(task, [r.completion for r in rolls], rubric))
    for r, reward in zip(rolls, rewards, strict=True):
        if r.phase == "probe":
            r.reward = reward
    return lift(rewards, values, [importance_ratio(r, cap=ctx.ratio_cap) for r in rolls])
