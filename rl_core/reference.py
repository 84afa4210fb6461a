"""Reference: trusted values over completions, used to diagnose and to test, never as training reward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from rl_core.errors import InputError
from rl_core.task import Task


class Reference(Protocol):
    """``values`` in [0, 1] for the completions of one task, judged together; None where it could not judge."""

    name: str

    def values(self, task: Task, completions: Sequence[str]) -> list[float | None]: ...


def reference_values(reference: Reference, task: Task, texts: Sequence[str]) -> list[float | None]:
    """The reference's values, checked: plain floats in [0, 1]; None where it gave none or none that is finite.

    Raises InputError naming the reference and the task for a wrong number of values, a value that is
    no number, or one outside [0, 1].
    """
    name = getattr(reference, "name", type(reference).__name__)
    where = f"reference {name!r}, task {task.id!r}"
    mend = "return one number in [0, 1], or None, for each completion"
    given: Any = reference.values(task, texts)
    try:
        raw: list[Any] = list(given)
    except TypeError:
        raise InputError(f"{type(given).__name__} is no list", where=where, field="values", mend=mend) from None
    if len(raw) != len(texts):
        raise InputError(f"{len(raw)} values for {len(texts)} completions", where=where, field="values", mend=mend)
    out: list[float | None] = []
    for i, value in enumerate(raw):
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError("text is no number")
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            shown = " ".join(repr(value).split())[:40]
            raise InputError(f"{shown} is no number", where=where, field=f"values[{i}]", mend=mend) from None
        if math.isfinite(number) and not 0.0 <= number <= 1.0:
            raise InputError(f"{number:g} is outside [0, 1]", where=where, field=f"values[{i}]", mend=mend)
        out.append(number if math.isfinite(number) else None)
    return out
