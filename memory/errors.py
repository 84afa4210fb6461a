"""The one error of this package."""

from __future__ import annotations


class StoreError(ValueError):
    """The memory cannot do what was asked. The message is one line: place, problem, mend."""

    def __init__(self, problem: str, *, where: str | None = None, mend: str | None = None) -> None:
        self.problem, self.where, self.mend = problem, where, mend
        text = f"{where}: {problem}" if where else problem
        super().__init__(" ".join((f"{text}; {mend}" if mend else text).split()))
