"""Task: one training prompt with its domain and rubric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rl_core.errors import InputError
from rl_core.rubric import Rubric


class Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    role: Literal["system", "user", "assistant"]
    content: str


class Task(BaseModel):
    """One training prompt: plain text or chat messages, a domain, a Rubric."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    prompt: str | tuple[Message, ...]
    domain: str = "default"
    rubric: Rubric
    reference_answer: str | None = None
    parent: str | None = None
    meta: dict[str, str | int | float | bool | list[str] | None] = Field(default_factory=dict)

    @property
    def prompt_text(self) -> str:
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n".join(m.content for m in self.prompt)


class TaskSet:
    """Tasks by id, in a fixed order. Duplicate ids are refused."""

    def __init__(self, tasks: Sequence[Task], *, source: str = "tasks") -> None:
        self._by_id: dict[str, Task] = {}
        for row, task in enumerate(tasks):
            if task.id in self._by_id:
                raise InputError(
                    f"duplicate task id {task.id!r}",
                    where=f"{source}, row {row + 1}",
                    field="id",
                    mend="give every task its own id",
                )
            self._by_id[task.id] = task
        if not self._by_id:
            raise InputError("no tasks", where=source, mend="pass at least one task")

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._by_id.values())

    def __getitem__(self, task_id: str) -> Task:
        return self._by_id[task_id]

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._by_id

    @property
    def ids(self) -> list[str]:
        return list(self._by_id)

    @property
    def domains(self) -> list[str]:
        return list(dict.fromkeys(t.domain for t in self))
