"""Rows in our own Task schema: {"id", "prompt", "domain", "rubric": {"criteria": [...], "aggregation"}, ...}."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rl_core.datasets.rows import read_rows
from rl_core.errors import InputError
from rl_core.judge.checks import get_check
from rl_core.rubric import CheckRoute
from rl_core.task import Task, TaskSet

_MEND = {
    "missing": "add it",
    "extra_forbidden": "remove it or correct its name",
    "too_short": "give at least one criterion",
}


def load_jsonl(path: str | Path, *, limit: int | None = None) -> TaskSet:
    """Tasks of a JSONL file, the first ``limit`` of them.

    Raises InputError naming file, row and field: broken JSON, a wrong, missing or unknown field, an empty
    rubric, a duplicate id, a check that is not registered.
    """
    tasks: list[Task] = []
    seen: dict[str, str] = {}
    for place, row in read_rows(path):
        task = _task(place, row)
        if task.id in seen:
            raise InputError(
                f"duplicate task id {task.id!r} (first in {seen[task.id]})",
                where=place,
                field="id",
                mend="give every task its own id",
            )
        seen[task.id] = place.rpartition(", ")[2]
        for i, c in enumerate(task.rubric.criteria):
            if isinstance(c.route, CheckRoute):
                try:
                    get_check(c.route.name)
                except InputError as e:
                    raise InputError(
                        e.problem, where=place, field=f"rubric.criteria.{i}.route.name", mend=e.mend
                    ) from None
        if limit is None or len(tasks) < limit:
            tasks.append(task)
    return TaskSet(tasks, source=str(path))


def _task(place: str, row: dict[str, Any]) -> Task:
    try:
        return Task.model_validate(row)
    except ValidationError as e:
        errors = e.errors(include_url=False)
        # A prompt may be text or messages: pydantic lists both tries, the deeper one tells more.
        first = max(errors, key=lambda x: len(x["loc"])) if errors[0]["loc"][:1] == ("prompt",) else errors[0]
        field = ".".join(str(x) for x in first["loc"]) or None
        text = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(text, where=place, field=field, mend=_MEND.get(first["type"], "correct the value")) from None
