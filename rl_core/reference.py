"""Reference: trusted values over completions, used to diagnose and to test, never as training reward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rl_core.task import Task


class Reference(Protocol):
    """``values`` in [0, 1] for the completions of one task, judged together; None where it could not judge."""

    name: str

    def values(self, task: Task, completions: Sequence[str]) -> list[float | None]: ...
