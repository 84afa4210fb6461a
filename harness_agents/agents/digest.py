"""What LLM agents are shown: bounded for any number of tasks, answers fenced, nothing of the test half."""

from __future__ import annotations

from typing import Any

from harness_agents.agents.protocols import Situation
from rl_core.edits import Scope, describe
from rl_core.judge.text import fence

MAX_GROUPS = 4
MAX_ANSWER = 600
MAX_TASKS_NAMED = 12


def scope_in_words(scope: Scope) -> str:
    """All tasks, some domains, or the first few task ids."""
    if scope.tasks:
        shown = ", ".join(scope.tasks[:MAX_TASKS_NAMED])
        more = len(scope.tasks) - MAX_TASKS_NAMED
        return f"tasks {shown}" + (f" and {more} more" if more > 0 else "")
    return f"domains {', '.join(scope.domains)}" if scope.domains else "all tasks"


def state_in_words(s: Situation) -> list[str]:
    """What the three interfaces hold now."""
    lines = [f"state v{s.state.version}"]
    lines += [f"sampler: x{factor:g} on {scope_in_words(scope)}" for scope, factor in s.state.sampler.rules[-10:]]
    lines += [f"hint {i.id}: {i.kind}, dose {i.dose:g}, for {scope_in_words(i.scope)}" for i in s.state.guidance[-10:]]
    lines += [describe(e) for e in s.state.rubric[-10:]]
    return lines


def history_lines(s: Situation) -> list[str]:
    """Earlier decisions of this run, without the gate's figures."""
    return [f"update {e.update}: {e.description}: {e.status}" for e in s.history[-20:]]


def answers_shown(s: Situation, mark: str) -> list[dict[str, Any]]:
    """Best and worst answer by the reference of the groups in which reward and reference disagree most."""
    scored = []
    for e in s.entries:
        pairs = zip(e.values, e.group.rollouts, strict=True)
        rows = [(v, r) for v, r in pairs if v is not None and r.reward is not None]
        if len(rows) < 2:
            continue
        rows.sort(key=lambda row: row[0])
        (low, worst), (high, best) = rows[0], rows[-1]
        gap = (high - low) - ((best.reward or 0.0) - (worst.reward or 0.0))
        scored.append((gap, e.group.task_id, (low, worst), (high, best)))
    scored.sort(key=lambda x: (-x[0], x[1]))
    return [
        {
            "id": r.id,
            "task": fence(s.tasks[task].prompt_text, "task", mark, limit=MAX_ANSWER),
            "answer": fence(r.completion, "answer", mark, limit=MAX_ANSWER),
            "reward": r.reward,
            "reference": value,
        }
        for _, task, *pair in scored[:MAX_GROUPS]
        for value, r in pair
    ]
