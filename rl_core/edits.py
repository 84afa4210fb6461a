"""Typed edits: one change to one of the three interfaces. Data only, never code.

Every rubric edit is a special case of the composite (weight multipliers per criterion
family plus added criteria), so that applying, testing and comparing have one path.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from rl_core.rubric import Criterion

Interface = Literal["sampler", "guidance", "rubric"]

#: Trust region of one edit.
MAX_MULTIPLIER = 8.0
MAX_ADDED = 4


class Scope(BaseModel):
    """Where an edit applies: everything, some domains, or some tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    domains: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    def covers(self, task_id: str, domain: str) -> bool:
        if not self.domains and not self.tasks:
            return True
        return domain in self.domains or task_id in self.tasks

    @property
    def level(self) -> Literal["global", "domain", "task"]:
        if self.tasks:
            return "task"
        return "domain" if self.domains else "global"

    def __str__(self) -> str:
        if self.tasks:
            return f"{len(self.tasks)} task(s)"
        return ", ".join(self.domains) if self.domains else "all tasks"


class _Edit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def key(self) -> str:
        """Stable name of the content (12 hex digits)."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class SamplerEdit(_Edit):
    """Multiply the drawing weight of the tasks in scope; keep a uniform floor under all.

    ``mix_floor`` f: the drawn distribution is (1 − f)·weights + f·uniform (None: keep).
    """

    interface: Literal["sampler"] = "sampler"
    op: Literal["weights"] = "weights"
    rules: tuple[tuple[Scope, float], ...] = Field(min_length=1, max_length=64)
    mix_floor: float | None = Field(default=None, ge=0.01, le=1.0)

    @field_validator("rules")
    @classmethod
    def _bounded(cls, rules: tuple[tuple[Scope, float], ...]) -> tuple[tuple[Scope, float], ...]:
        for _, factor in rules:
            if not (math.isfinite(factor) and 1 / 64 <= factor <= 64):
                raise ValueError("a sampler factor must lie between 1/64 and 64")
        return rules


GuidanceKind = Literal["plan", "partial_answer", "criteria", "exemplar"]


class GuidanceItem(BaseModel):
    """A hint given to part of a group's rollouts, used for generation only.

    ``dose``: share of the group that is guided at full strength; ``amount``: share of the
    material shown (partial answer, criteria). Text is needed for ``plan`` and ``exemplar``;
    the other kinds are rendered from the task.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str = Field(min_length=1, max_length=80)
    kind: GuidanceKind
    scope: Scope = Scope()
    text: str = Field(default="", max_length=2000)
    dose: float = Field(default=0.5, gt=0.0, le=1.0)
    amount: float = Field(default=1.0, gt=0.0, le=1.0)


class GuidanceAdd(_Edit):
    interface: Literal["guidance"] = "guidance"
    op: Literal["add"] = "add"
    item: GuidanceItem


class GuidanceDose(_Edit):
    interface: Literal["guidance"] = "guidance"
    op: Literal["dose"] = "dose"
    item_id: str
    dose: float = Field(gt=0.0, le=1.0)


class GuidanceRemove(_Edit):
    interface: Literal["guidance"] = "guidance"
    op: Literal["remove"] = "remove"
    item_id: str


class _RubricEdit(_Edit):
    interface: Literal["rubric"] = "rubric"
    scope: Scope = Scope()


class RubricAdd(_RubricEdit):
    op: Literal["add"] = "add"
    criterion: Criterion


class RubricPenalty(_RubricEdit):
    """Add a criterion with negative weight."""

    op: Literal["penalty"] = "penalty"
    criterion: Criterion

    @field_validator("criterion")
    @classmethod
    def _negative(cls, criterion: Criterion) -> Criterion:
        if criterion.weight >= 0:
            raise ValueError("a penalty needs a negative weight")
        return criterion


class RubricReweight(_RubricEdit):
    op: Literal["reweight"] = "reweight"
    family: str
    multiplier: float = Field(ge=0.0, le=MAX_MULTIPLIER)


class RubricRetire(_RubricEdit):
    op: Literal["retire"] = "retire"
    family: str


class RubricComposite(_RubricEdit):
    """A whole re-weighting as one edit: multipliers per family (0 retires) and new criteria."""

    op: Literal["composite"] = "composite"
    multipliers: dict[str, float] = Field(default_factory=dict)
    added: tuple[Criterion, ...] = Field(default=(), max_length=MAX_ADDED)

    @field_validator("multipliers")
    @classmethod
    def _bounded(cls, multipliers: dict[str, float]) -> dict[str, float]:
        for family, m in multipliers.items():
            if not (math.isfinite(m) and 0 <= m <= MAX_MULTIPLIER):
                raise ValueError(f"multiplier of {family!r} must lie between 0 and {MAX_MULTIPLIER:g}")
        return multipliers


RubricEdit = RubricAdd | RubricPenalty | RubricReweight | RubricRetire | RubricComposite
GuidanceEdit = GuidanceAdd | GuidanceDose | GuidanceRemove
Edit = SamplerEdit | GuidanceEdit | RubricEdit

_ADAPTER: TypeAdapter[Edit] = TypeAdapter(
    Annotated[
        SamplerEdit
        | Annotated[GuidanceEdit, Field(discriminator="op")]
        | Annotated[RubricEdit, Field(discriminator="op")],
        Field(discriminator="interface"),
    ]
)


def parse_edit(data: object) -> Edit:
    """Edit from plain data. Raises pydantic.ValidationError on anything that is not one."""
    return _ADAPTER.validate_python(data)


def as_composite(edit: RubricEdit) -> RubricComposite:
    """The same rubric edit in its general form."""
    if isinstance(edit, RubricComposite):
        return edit
    if isinstance(edit, (RubricAdd, RubricPenalty)):
        return RubricComposite(scope=edit.scope, added=(edit.criterion,))
    if isinstance(edit, RubricReweight):
        return RubricComposite(scope=edit.scope, multipliers={edit.family: edit.multiplier})
    return RubricComposite(scope=edit.scope, multipliers={edit.family: 0.0})


def describe(edit: Edit) -> str:
    """One readable line."""
    if isinstance(edit, SamplerEdit):
        parts = [f"x{factor:g} on {scope}" for scope, factor in edit.rules]
        floor = f", floor {edit.mix_floor:g}" if edit.mix_floor is not None else ""
        return "sampler: " + "; ".join(parts) + floor
    if isinstance(edit, GuidanceAdd):
        i = edit.item
        return f"guidance: {i.kind.replace('_', ' ')} hint for {i.scope}, dose {i.dose:g}, amount {i.amount:g}"
    if isinstance(edit, GuidanceDose):
        return f"guidance: dose of {edit.item_id} to {edit.dose:g}"
    if isinstance(edit, GuidanceRemove):
        return f"guidance: remove {edit.item_id}"
    c = as_composite(edit)
    parts = [f"{f} x{m:.2g}" if m else f"retire {f}" for f, m in c.multipliers.items()]
    parts += [f"add {a.id} ({a.weight:+.2g})" for a in c.added]
    return f"rubric ({edit.scope}): " + ", ".join(parts)
