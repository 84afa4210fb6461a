"""Verdict: what a judge or a check said about one criterion of one completion."""

from __future__ import annotations

from typing import Literal, NamedTuple

Cause = Literal["timeout", "refusal", "unparsable", "budget", "error", "not_applicable"]


class Verdict(NamedTuple):
    """``value`` in [0, 1] (met = 1, unmet = 0, a level in between) or None with its cause.

    A missing verdict is never 0.
    """

    value: float | None
    cause: Cause | None = None

    @classmethod
    def of(cls, met: bool | float) -> Verdict:
        return cls(float(met))

    @classmethod
    def missing(cls, cause: Cause) -> Verdict:
        return cls(None, cause)
