"""What the rules read out of a situation: dead tasks, hints that were tried, criteria that say nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from harness_agents.agents.protocols import Refusal, Situation
from rl_core.edits import GuidanceAdd, GuidanceKind, Scope
from rl_core.reward_report import CriterionStats, DeadKind
from rl_core.state import HarnessState
from rl_core.task import Task

#: Hints the rules can render from the task itself, in the order in which they are tried.
HINT_KINDS: tuple[GuidanceKind, ...] = ("partial_answer", "criteria")
#: Two clusters of tasks that share at least this part are the same cluster.
SAME_CLUSTER = 0.5
#: Fewer mastered tasks than this say nothing about how often they stay mastered.
MIN_MASTERED = 8
#: Share of the last groups of mastered tasks that must be dead_high again.
MASTERED_SHARE = 0.85
#: Last groups in a row that must be dead before one task is called dead without an alarm of its domain.
MIN_RUN = 2


def dead_tasks(s: Situation, kind: DeadKind) -> list[str]:
    """Tasks that are dead in this way: in their last groups in a row, or in all groups where their domain alarms.

    One group alone says little; the pooled alarm of the domain is what allows it to count.
    """
    alarmed = {d for a in s.report.of(kind) for d in a.where.domains}
    listed = {t for a in s.report.of(kind) for t in a.where.tasks}
    out = []
    for task_id, t in s.report.tasks.items():
        if task_id not in s.tasks:
            continue
        scored = t.groups - t.unscored
        every = scored > 0 and getattr(t, kind) == scored
        if task_id in listed or (t.last == kind and t.run >= MIN_RUN) or (every and t.domain in alarmed):
            out.append(task_id)
    return out


def steadily(s: Situation, task_id: str, kind: DeadKind | Literal["live"], groups: int = 3) -> bool:
    """Whether the task's last ``groups`` groups were all of this kind."""
    t = s.report.tasks.get(task_id)
    return t is not None and t.last == kind and t.run >= groups


def surely_mastered(s: Situation) -> list[str]:
    """Tasks whose groups were all dead_high, when the pooled last group of such tasks says that they stay so.

    Picking tasks by their past groups picks lucky ones, too; the last group of each is kept out of the
    choice and tells without that bias how often the chosen are really dead. One failure in a group of
    eight still teaches a lot, so tasks that are only mostly mastered are worth their draws.
    """
    chosen, stayed = [], 0
    for task_id, t in s.report.tasks.items():
        scored = t.groups - t.unscored
        past = t.dead_high - (t.last == "dead_high")
        if task_id in s.tasks and scored >= 2 and past == scored - 1:
            chosen.append(task_id)
            stayed += t.last == "dead_high"
    if len(chosen) < MIN_MASTERED or stayed < MASTERED_SHARE * len(chosen):
        return []
    return [i for i in chosen if s.report.tasks[i].last == "dead_high"]


def draw_share(state: HarnessState, tasks: Iterable[Task], ids: Iterable[str]) -> float:
    """Share of draws that goes to these tasks now."""
    p = state.sampler.distribution(tasks)
    return sum(p.get(i, 0.0) for i in ids)


def net_factor(state: HarnessState, task: Task) -> float:
    """Product of the sampler rules that cover the task."""
    factor = 1.0
    for scope, f in state.sampler.rules:
        if scope.covers(task.id, task.domain):
            factor *= f
    return factor


def tried_hints(s: Situation, ids: Sequence[str], refused: Sequence[Refusal] = ()) -> dict[GuidanceKind, str]:
    """Hint kind -> what came of it, for hints tried before on (mostly) the same tasks. The latest counts."""
    out: dict[GuidanceKind, str] = {}
    wanted = set(ids)
    told = [(e.edit, e.status) for e in s.history] + [(r.edit, r.status) for r in refused]
    for edit, status in told:
        if not isinstance(edit, GuidanceAdd):
            continue
        scope = edit.item.scope
        covered = sum(scope.covers(i, s.tasks[i].domain) for i in wanted)
        if wanted and covered >= SAME_CLUSTER * len(wanted):
            out[edit.item.kind] = status
    return out


def next_hint(s: Situation, ids: Sequence[str], refused: Sequence[Refusal] = ()) -> GuidanceKind | None:
    """The first kind of hint that these tasks have material for and that was not turned down for them."""
    if not s.capabilities.guidance:
        return None
    tried = tried_hints(s, ids, refused)
    for kind in HINT_KINDS:
        have = kind == "criteria" or all(s.tasks[i].reference_answer for i in ids)
        if have and tried.get(kind) not in ("rejected", "vetoed", "rolled_back"):
            return kind
    return None


def protected_families(state: HarnessState, tasks: Iterable[Task], scope: Scope) -> set[str]:
    """Families that hold a protected criterion in some rubric within scope."""
    return {
        c.family for t in tasks if scope.covers(t.id, t.domain) for c in state.rubric_for(t).criteria if c.protected
    }


def silent_criteria(criteria: Mapping[str, CriterionStats]) -> dict[str, tuple[Literal["dead", "double"], float]]:
    """Families that tell nothing apart, or that double another one.

    The first are met, or unmet, in 99 % of completions and surely in 90 %. Of a pair of doubles
    the one with the smaller share of weight is named.
    """
    out: dict[str, tuple[Literal["dead", "double"], float]] = {}
    for name, c in criteria.items():
        rate = c.pass_rate
        if rate.value is None:
            continue
        if (rate.value > 0.99 and rate.low > 0.9) or (rate.value < 0.01 and rate.high < 0.1):
            out[name] = ("dead", rate.value)
    for name, c in criteria.items():
        for other, phi in c.redundancy.items():
            if name in out or other in out or other not in criteria or phi.value is None:
                continue
            lighter = (c.weight_share, name) <= (criteria[other].weight_share, other)
            if phi.low > 0.9 and c.sign == criteria[other].sign and lighter:
                out[name] = ("double", phi.value)
    return out
