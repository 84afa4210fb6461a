"""Hints: which rollouts of a group are guided, what they read, and what a guided success is worth unguided.

A guided rollout is generated with the hint and trained on the unguided prompt. Evaluation is never guided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rl_core.edits import GuidanceItem
from rl_core.policy import Prompt
from rl_core.rollout import Rollout
from rl_core.state import HarnessState
from rl_core.task import Message, Task

#: (hint text, task) -> the prompt the guided rollout is generated with.
Renderer = Callable[[str, Task], Prompt]


@dataclass(frozen=True)
class GuidedPrompt:
    """What one rollout is generated with and what the loss sees."""

    task_id: str
    generate_with: Prompt
    train_on: Prompt
    guidance_id: str | None = None


def place_hint(hint: str, task: Task) -> Prompt:
    """Default renderer: the hint before the prompt; as a system message for chats."""
    if isinstance(task.prompt, str):
        return f"{hint}\n{task.prompt}"
    return (Message(role="system", content=hint), *task.prompt)


def hint_text(item: GuidanceItem, task: Task) -> str | None:
    """The hint for this task, or None when the task has nothing to show.

    ``partial_answer``: the first ``amount`` share of the reference answer's words, rounded up to whole
    words (of an answer of three words 0.7 shows all three: there the hint gives the key points away, and
    only the importance ratio and the loss on the unguided prompt keep that honest);
    ``criteria``: the first ``amount`` share of the positive criteria's texts, rounded up;
    ``plan`` and ``exemplar``: the item's own text.
    """
    if item.kind == "partial_answer":
        words = (task.reference_answer or "").split()
        return " ".join(words[: math.ceil(item.amount * len(words))]) if words else None
    if item.kind == "criteria":
        texts = [c.text for c in task.rubric.criteria if c.weight > 0]
        return " ".join(texts[: math.ceil(item.amount * len(texts))]) if texts else None
    return item.text or None


def guided_count(dose: float, group_size: int) -> int:
    """Guided rollouts in a group; at least one plain rollout is always kept as the unguided measure."""
    return min(max(round(dose * group_size), 0), group_size - 1)


def guide(
    state: HarnessState,
    tasks: Sequence[Task],
    group_size: int,
    *,
    doses: Mapping[str, float] | None = None,
    render: Renderer = place_hint,
) -> list[list[GuidedPrompt]]:
    """Prompts ``[task][rollout]``: the first ``round(dose·G)`` rollouts of a group are guided.

    ``doses`` overrides the item's dose per task id (decay with unguided success). Pure.
    """
    out = []
    for task in tasks:
        item = state.guidance_for(task)
        hint = hint_text(item, task) if item else None
        k = guided_count((doses or {}).get(task.id, item.dose), group_size) if item and hint else 0
        plain = GuidedPrompt(task.id, task.prompt, task.prompt)
        row = [plain] * group_size
        if k and item and hint:
            row = [GuidedPrompt(task.id, render(hint, task), task.prompt, item.id)] * k + [plain] * (group_size - k)
        out.append(row)
    return out


def importance_ratio(rollout: Rollout, *, cap: float = 1.0, floor: float = 0.0) -> float:
    """Length-normalised ratio exp(mean log π(y|x) − mean log π(y|x, hint)), truncated to [floor, cap].

    1 for plain rollouts. A guided rollout without log-probs counts 0: what it is worth unguided is unknown.
    """
    if rollout.guidance_id is None:
        return 1.0
    if rollout.logprob is None or rollout.logprob_plain is None:
        return 0.0
    return min(max(math.exp(min(rollout.logprob_plain - rollout.logprob, 0.0)), floor), cap)
