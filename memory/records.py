"""What is remembered: failure episodes, edits with the critic's verdict, effects realised later.

Every record has one embedded ``text`` and a JSON ``data``. Its ``id`` is a hash of
(run, kind, update, key): the same event told twice is one record, also after a restart.

The gate's test half must stay unseen by whoever proposes the next edit, so ``text`` (which
recall hands to agents) tells the decision and its class of reason; figures go into ``data``.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from memory.errors import StoreError

#: Version of the record layout; a higher one in a file means a newer program wrote it.
SCHEMA = 1
MAX_TEXT = 2000
MAX_DATA = 65_536
#: log2 change that stands for "from present to absent" (a weight multiplier of 0).
RETIRED = -4.0

_SLUG = r"^[a-z][a-z0-9_-]{0,39}$"


class Record(BaseModel):
    """Common part of all kinds.

    ``domain`` is empty for something that concerns all domains. ``key`` names the event
    within its update (an edit's key, a failure's kind and place); left empty it is a hash of
    interface, domain and text. ``text`` is cut at 2,000 characters. In ``data`` numbers that
    are not finite become null, and its JSON may take 64 KiB.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    run: str = Field(min_length=1, max_length=200)
    step: int = Field(ge=0)
    update: int = Field(ge=0)
    interface: str = Field(default="none", pattern=_SLUG)
    domain: str = Field(default="", max_length=200)
    outcome: str = Field(pattern=_SLUG)
    key: str = Field(default="", max_length=200)
    text: str = Field(min_length=1)
    data: dict[str, JsonValue] = Field(default_factory=dict)
    schema_version: int = Field(default=SCHEMA, ge=1, le=SCHEMA)

    @field_validator("run", "domain", "key", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        return _clean(value)

    @field_validator("text", mode="before")
    @classmethod
    def _bounded_text(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        text = _clean(value).strip()
        return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"

    @field_validator("data", mode="before")
    @classmethod
    def _bounded_data(cls, value: object) -> object:
        cleaned = _plain(value)
        if len(json.dumps(cleaned, default=str)) > MAX_DATA:
            raise ValueError(f"data may take at most {MAX_DATA} characters of JSON")
        return cleaned

    @cached_property
    def event(self) -> str:
        """Name of the event within its update."""
        return self.key or _hash([self.interface, self.domain, self.text])[:16]

    @cached_property
    def id(self) -> str:
        """20 hex digits of the hash of (run, kind, update, key)."""
        return _hash([self.run, self.kind, self.update, self.event])[:20]

    @cached_property
    def content(self) -> str:
        """8 hex digits of the hash of everything in the record: tells a revision from a repeat."""
        return _hash(self.model_dump(mode="json"))[:8]

    def to_line(self) -> str:
        """One line of JSON, ASCII only, without the newline."""
        return json.dumps({"id": self.id, **self.model_dump(mode="json")}, allow_nan=False)


class FailureEpisode(Record):
    """A failure that diagnosis found. ``outcome``: "open", or what became of it."""

    kind: Literal["failure"] = "failure"
    outcome: str = Field(default="open", pattern=_SLUG)


class EditOutcome(Record):
    """An edit and what the critic decided. ``key`` must be the edit's own stable key.

    Keys of ``data`` that this package reads (all optional):
    ``reason_class`` "futility" | "harm" | ...: why it was rejected;
    ``statistic`` float and ``interval`` [low, high]: the failure's triggering statistic when
    the edit was proposed, and the interval of that statistic;
    ``change`` {family: log2 of the weight multiplier}: see :func:`log2_change`.
    """

    kind: Literal["edit"] = "edit"
    outcome: Literal["accepted", "rejected", "inconclusive", "vetoed", "rolled_back"]
    key: str = Field(min_length=1, max_length=200)

    STOPPING: ClassVar[frozenset[str]] = frozenset({"futility", "harm"})

    @cached_property
    def change(self) -> dict[str, float]:
        """Weight change per criterion family (empty when not a re-weighting)."""
        change = self.data.get("change")
        if not isinstance(change, dict):
            return {}
        return {f: float(x) for f, x in change.items() if isinstance(x, int | float)}

    def stops_repeat(self, statistic: float | None) -> bool:
        """Whether this outcome forbids the same edit now (design: section 8).

        True after a decision of futility or harm while the triggering statistic is still
        inside its earlier interval; an unknown statistic or interval counts as unchanged.
        Inconclusive and vetoed edits may be tried again.
        """
        harmed = self.outcome == "rolled_back"
        if not harmed and not (self.outcome == "rejected" and self.data.get("reason_class") in self.STOPPING):
            return False
        interval = self.data.get("interval")
        if statistic is None or not isinstance(interval, list) or len(interval) != 2:
            return True
        low, high = interval
        if not isinstance(low, int | float) or not isinstance(high, int | float):
            return True
        return low <= statistic <= high


class RealisedEffect(Record):
    """What an accepted edit did later. ``outcome``: "helped", "harmed", "neutral" or "unknown"."""

    kind: Literal["effect"] = "effect"
    outcome: Literal["helped", "harmed", "neutral", "unknown"]


KINDS: Mapping[str, type[Record]] = {"failure": FailureEpisode, "edit": EditOutcome, "effect": RealisedEffect}


def parse_record(data: object, *, where: str = "record") -> Record:
    """Record from plain data. Raises StoreError naming the place and the first wrong field."""
    if not isinstance(data, dict):
        raise StoreError("a record must be a JSON object", where=where, mend="correct or remove it")
    fields = {k: v for k, v in data.items() if k != "id"}
    version = fields.get("schema_version", SCHEMA)
    if isinstance(version, int) and version > SCHEMA:
        raise StoreError(
            f"record layout {version} is newer than this program's {SCHEMA}", where=where, mend="upgrade the program"
        )
    kind = fields.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise StoreError(f"unknown kind {kind!r:.60}", where=where, mend="use one of: " + ", ".join(KINDS))
    try:
        return model.model_validate(fields)
    except ValidationError as e:
        err = e.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(x) for x in err["loc"])
        raise StoreError(f"field {field!r}: {err['msg']}", where=where, mend="correct or remove it") from None


def log2_change(multipliers: Mapping[str, float], added: tuple[str, ...] = ()) -> dict[str, float]:
    """Weight change of a re-weighting: {family: log2(multiplier)}, bounded to [-4, 4].

    A multiplier of 0 (retired) is -4 and a family that is ``added`` is +4, so adding and
    retiring the same family point in opposite directions. Raises ValueError on a multiplier
    that is negative or not finite.
    """
    change: dict[str, float] = {}
    for family, m in multipliers.items():
        if not (math.isfinite(m) and m >= 0):
            raise ValueError(f"multiplier of {family!r} must be a number of at least 0")
        change[family] = RETIRED if m == 0 else max(RETIRED, min(-RETIRED, math.log2(m)))
    change.update({family: -RETIRED for family in added})
    return {family: x for family, x in change.items() if x != 0.0}


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _clean(value: Any) -> Any:
    """Text without lone surrogates and NUL, which neither UTF-8 nor SQLite can hold."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "replace").decode("utf-8").replace("\x00", " ")


def _plain(value: object) -> object:
    """JSON-shaped copy; numbers of numpy and others become int and float, non-finite ones None."""
    if isinstance(value, Mapping):
        return {_clean(str(k)): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else None
    return _clean(value)
