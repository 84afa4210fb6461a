"""Ledger: every decision about every edit, one JSON line each, on disk before anybody uses it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from rl_core.edits import Edit, Interface, describe, parse_edit
from rl_core.errors import InputError
from rl_core.run_folder import append_line, read_jsonl

Status = Literal["accepted", "rejected", "inconclusive", "vetoed", "rolled_back"]

#: Points of the e-process that are kept for display.
MAX_E_PATH = 64
_HUGE = 1e300


def _as_edit(value: object) -> object:
    if isinstance(value, BaseModel):
        return value
    try:
        return parse_edit(value)
    except ValidationError as e:
        err = e.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(str(x) for x in err['loc'])}: {err['msg']}") from None


def _finite(value: object) -> object:
    """JSON has no infinity: an overflowing e-value is clipped; NaN is missing, never zero."""
    if isinstance(value, float):
        return None if math.isnan(value) else max(-_HUGE, min(_HUGE, value))
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


class _Finite(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: object) -> object:
        return _finite(data)


class Figures(_Finite):
    """What the critic measured. None: not measured (a vetoed edit has no pairs).

    ``pairs`` compared groups; ``mean_d``, ``sd_d``, ``interval`` of d = lift(candidate) − lift(current);
    ``e_value`` against ``threshold``; ``rollouts`` and ``labels`` bought for this test;
    ``e_path`` the e-value along the pairs, thinned to at most 64 points.
    """

    pairs: int | None = None
    mean_d: float | None = None
    sd_d: float | None = None
    lift_current: float | None = None
    lift_candidate: float | None = None
    e_value: float | None = None
    threshold: float | None = None
    rollouts: int | None = None
    labels: int | None = None
    interval: tuple[float | None, float | None] | None = None
    e_path: tuple[float | None, ...] = ()

    @field_validator("e_path")
    @classmethod
    def _thin(cls, path: tuple[float | None, ...]) -> tuple[float | None, ...]:
        if len(path) <= MAX_E_PATH:
            return path
        last = len(path) - 1
        return tuple(path[round(i * last / (MAX_E_PATH - 1))] for i in range(MAX_E_PATH))


class Failure(_Finite):
    """The failure that the edit answers: kind, its statistic, where it was seen, why it counts."""

    kind: str
    statistic: float | None = None
    where: str = ""
    reason: str = ""


class LedgerEntry(BaseModel):
    """One decision.

    ``state_version`` is the version in force after it, ``prediction`` the lift that the proposer
    expected. ``description`` is filled in when it is empty.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    update: int = Field(ge=0)
    step: int = Field(ge=0)
    interface: Interface
    edit: Annotated[Edit, BeforeValidator(_as_edit)]
    status: Status
    state_version: int = Field(ge=0)
    figures: Figures = Figures()
    reason: str = ""
    description: str = ""
    failure: Failure | None = None
    prediction: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        out = {**data, "prediction": _finite(data.get("prediction"))}
        if not out.get("description") and "edit" in out:
            out["edit"] = edit = _as_edit(out["edit"])
            if isinstance(edit, Edit):
                out["description"] = describe(edit)
        return out

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.interface != self.edit.interface:
            raise ValueError(f"interface {self.interface!r}, but the edit changes {self.edit.interface!r}")
        return self

    @property
    def key(self) -> tuple[int, str, str]:
        """Equal keys are the same decision: update, content of the edit, status."""
        return (self.update, self.edit.key, self.status)


class Ledger:
    """Append-only file of decisions. One writer; readers may come at any time."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._entries = self.read()
        self._keys = {e.key for e in self._entries}

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, decision: LedgerEntry | Mapping[str, Any]) -> bool:
        """Write one decision; it is on disk when this returns. False when it is there already.

        A last line torn by a kill is repaired first. Raises InputError on a wrong field.
        """
        entry = decision if isinstance(decision, LedgerEntry) else _parse(dict(decision), where=str(self.path))
        if entry.key in self._keys:
            return False
        append_line(self.path, entry.model_dump(mode="json"))
        self._entries.append(entry)
        self._keys.add(entry.key)
        return True

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        return tuple(self._entries)

    def decisions(self, update: int) -> list[LedgerEntry]:
        """The decisions of one harness update, in order."""
        return [e for e in self._entries if e.update == update]

    def read(self) -> list[LedgerEntry]:
        """Every whole line of the file. Raises InputError naming a line that is not a decision."""
        return [
            _parse(row, where=f"{self.path}, decision {number}")
            for number, row in enumerate(read_jsonl(self.path), start=1)
        ]


def _parse(row: dict[str, Any], *, where: str) -> LedgerEntry:
    try:
        return LedgerEntry.model_validate(row)
    except ValidationError as e:
        err = e.errors(include_url=False)[0]
        field = ".".join(str(x) for x in err["loc"]) or None
        raise InputError(err["msg"], where=where, field=field, mend="correct or delete that decision") from None
