"""RubricReward: the one stable reward function in front of a rubric that changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_core.adapters.loop import GuidedPromptLike, LoopHarness, ScoredLike
from rl_core.errors import InputError
from rl_core.state import HarnessState
from rl_core.task import Task, TaskSet
from rl_core.verdict import Verdict

#: Criterion families that get a metric of their own; rubrics written per task would flood the log.
MAX_FAMILIES = 32


@dataclass
class BoundBatch:
    """One generation batch of training: what was drawn, and under which state. Rows are group after group."""

    step: int
    first_group: int
    group_size: int
    state: HarnessState
    tasks: list[Task]
    prompts: list[GuidedPromptLike]
    guided_ids: dict[int, list[int]] = field(default_factory=dict)
    completion_ids: list[list[int]] | None = None
    texts: list[str] = field(default_factory=list)
    scored: list[ScoredLike] = field(default_factory=list)

    @property
    def guided(self) -> list[bool]:
        return [p.guidance_id is not None for p in self.prompts]


class RubricReward:
    """Reward function for TRL's ``reward_funcs``: scores groups through the harness.

    In training (once attached) a batch is scored under the state version it was drawn with. Otherwise, that is
    in evaluation or without ``attach``, rows are scored under the current state by their ``task_id``.
    ``tasks`` holds evaluation tasks that the harness does not train on. A withheld reward is None: TRL leaves
    the row out of its group's baseline and gives it advantage 0. Raises InputError for rows without a known task.
    """

    __name__ = "rubric"

    def __init__(self, harness: LoopHarness, *, tasks: TaskSet | None = None) -> None:
        self.harness = harness
        self.batch: BoundBatch | None = None
        self._extra = tasks
        self._families: dict[tuple[int, str], dict[str, str]] = {}

    def __call__(
        self,
        completions: Sequence[Any],
        task_id: Sequence[str] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """One reward per row, None where withheld."""
        texts = [completion_text(c) for c in completions]
        batch = self.batch
        if batch is not None:
            state, sizes = batch.state, [batch.group_size] * len(batch.tasks)
            tasks = batch.tasks
        else:
            state = self.harness.state
            tasks, sizes = self._runs(task_id, len(texts))
        groups, at = [], 0
        for size in sizes:
            groups.append(texts[at : at + size])
            at += size
        scored = [list(g) for g in self.harness.score(tasks, groups, state.version)]
        rows = [s for group in scored for s in group]
        if len(rows) != len(texts):
            raise InputError(
                f"{len(rows)} scores for {len(texts)} completions",
                where="harness.score",
                mend="return one score for each completion, group by group",
            )
        if batch is not None:
            batch.texts, batch.scored = texts, rows
        if log_metric is not None:
            self._log(log_metric, state, tasks, scored)
        return [s.reward for s in rows]

    def _runs(self, task_id: Sequence[str] | None, rows: int) -> tuple[list[Task], list[int]]:
        """Tasks and run lengths of neighbouring rows with one task id."""
        if task_id is None or len(task_id) != rows:
            raise InputError(
                "rows without a task id",
                where="data set",
                field="task_id",
                mend="build the data set with harness_dataset(harness)",
            )
        tasks: list[Task] = []
        sizes: list[int] = []
        for k, tid in enumerate(task_id):
            if k and tid == task_id[k - 1]:
                sizes[-1] += 1
            else:
                tasks.append(self._task(tid))
                sizes.append(1)
        return tasks, sizes

    def _task(self, task_id: str) -> Task:
        for known in (self.harness.tasks, self._extra):
            if known is not None and task_id in known:
                return known[task_id]
        raise InputError(
            f"unknown task id {task_id!r}",
            where="data set",
            field="task_id",
            mend="give evaluation tasks as RubricReward(harness, tasks=...)",
        )

    def _family(self, state: HarnessState, task: Task, criterion_id: str) -> str:
        key = (state.version, task.id)
        if key not in self._families:
            if any(version != state.version for version, _ in self._families):
                self._families.clear()
            self._families[key] = {c.id: c.family for c in state.rubric_for(task).criteria}
        return self._families[key].get(criterion_id, criterion_id)

    def _log(
        self,
        log_metric: Callable[[str, float], None],
        state: HarnessState,
        tasks: Sequence[Task],
        scored: Sequence[Sequence[ScoredLike]],
    ) -> None:
        values: dict[str, list[float]] = defaultdict(list)
        missing = total = 0
        for task, group in zip(tasks, scored, strict=True):
            for row in group:
                verdicts: Mapping[str, Verdict] = row.verdicts
                for cid, verdict in verdicts.items():
                    total += 1
                    if verdict.value is None:
                        missing += 1
                    else:
                        values[self._family(state, task, cid)].append(verdict.value)
        common = Counter({family: len(v) for family, v in values.items()}).most_common(MAX_FAMILIES)
        for family, _ in common:
            log_metric(f"rubric/{family}", sum(values[family]) / len(values[family]))
        if total:
            log_metric("harness/no_verdict", missing / total)
        log_metric("harness/state_version", float(state.version))


def completion_text(completion: Any) -> str:
    """The text of TRL's completion: a string, or the content of the last message."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else ""
    return content if isinstance(content, str) else ""
