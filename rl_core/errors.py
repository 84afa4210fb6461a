"""The one error a user is meant to read: what is wrong, where, and how to mend it."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input from outside (file, row, field, argument).

    The message is one line that names the place and the mend; the command line
    prints it and exits with code 2.
    """

    def __init__(
        self, problem: str, *, where: str | None = None, field: str | None = None, mend: str | None = None
    ) -> None:
        self.problem, self.where, self.field, self.mend = problem, where, field, mend
        place = ", ".join(p for p in (where, f"field {field!r}" if field else None) if p)
        text = f"{place}: {problem}" if place else problem
        super().__init__(f"{text}; {mend}" if mend else text)
