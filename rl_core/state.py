"""HarnessState: the three interfaces together, immutable, numbered, hashed; and how an edit makes the next one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from rl_core.edits import (
    Edit,
    GuidanceAdd,
    GuidanceDose,
    GuidanceItem,
    GuidanceRemove,
    RubricComposite,
    SamplerEdit,
    Scope,
    as_composite,
)
from rl_core.errors import InputError
from rl_core.rubric import Criterion, Rubric
from rl_core.task import Task


class SamplerState(BaseModel):
    """Drawing weights by rule; the distribution is (1 − floor)·weights + floor·uniform."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rules: tuple[tuple[Scope, float], ...] = ()
    mix_floor: float = Field(default=0.2, ge=0.01, le=1.0)

    def distribution(self, tasks: Iterable[Task]) -> dict[str, float]:
        """Task id -> probability, sums to 1."""
        raw: dict[str, float] = {}
        for t in tasks:
            w = 1.0
            for scope, factor in self.rules:
                if scope.covers(t.id, t.domain):
                    w *= factor
            raw[t.id] = w
        total, n = sum(raw.values()), len(raw)
        return {k: (1 - self.mix_floor) * w / total + self.mix_floor / n for k, w in raw.items()}


class HarnessState(BaseModel):
    """One version covers sampler, guidance and rubric; every rollout records it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: int = 0
    parent: int | None = None
    effective_from_step: int = 0
    sampler: SamplerState = SamplerState()
    guidance: tuple[GuidanceItem, ...] = ()
    rubric: tuple[RubricComposite, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the content (without version numbers): equal content, equal digest."""
        body = self.model_dump(mode="json", include={"sampler", "guidance", "rubric"})
        return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def rubric_for(self, task: Task) -> Rubric:
        """The task's rubric under this state: accepted rubric edits in order of acceptance.

        Protected criteria keep their weight and cannot be replaced. Raises InputError when nothing that
        the aggregation can count would be left.
        """
        criteria: dict[str, Criterion] = {c.id: c for c in task.rubric.criteria}
        for edit in self.rubric:
            if not edit.scope.covers(task.id, task.domain):
                continue
            for cid, c in list(criteria.items()):
                m = edit.multipliers.get(c.family, 1.0)
                if c.protected or m == 1.0:
                    continue
                if m == 0.0:
                    del criteria[cid]
                else:
                    criteria[cid] = c.model_copy(update={"weight": c.weight * m})
            for c in edit.added:
                if c.id not in criteria or not criteria[c.id].protected:
                    criteria[c.id] = c
        needs_positive = task.rubric.aggregation == "positive_sum"
        if not any(c.weight > 0 or not needs_positive for c in criteria.values()):
            raise InputError(
                f"the rubric of task {task.id!r} would be empty",
                field="multipliers",
                mend="keep at least one criterion",
            )
        return task.rubric.model_copy(update={"criteria": tuple(criteria.values())})

    def guidance_for(self, task: Task) -> GuidanceItem | None:
        """The last accepted hint that covers the task."""
        for item in reversed(self.guidance):
            if item.scope.covers(task.id, task.domain):
                return item
        return None

    def to_json(self) -> str:
        return json.dumps(
            {**self.model_dump(mode="json"), "digest": self.digest}, ensure_ascii=False, indent=1, sort_keys=True
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        data = json.loads(text)
        digest = data.pop("digest", None)
        state = cls.model_validate(data)
        if digest is not None and digest != state.digest:
            raise InputError(
                "the digest does not fit the content",
                where=f"state v{state.version}",
                mend="restore the file from the ledger or delete it",
            )
        return state


def candidate(state: HarnessState, edit: Edit) -> HarnessState:
    """``state`` with ``edit`` on top, under the same version number: for testing, not for training.

    Raises InputError when the edit does not fit the state (unknown or duplicate guidance id).
    """
    if isinstance(edit, SamplerEdit):
        floor = state.sampler.mix_floor if edit.mix_floor is None else edit.mix_floor
        sampler = SamplerState(rules=(*state.sampler.rules, *edit.rules), mix_floor=floor)
        return state.model_copy(update={"sampler": sampler})
    if isinstance(edit, GuidanceAdd):
        if any(i.id == edit.item.id for i in state.guidance):
            raise InputError(f"guidance id {edit.item.id!r} exists already", field="item.id", mend="choose a new id")
        return state.model_copy(update={"guidance": (*state.guidance, edit.item)})
    if isinstance(edit, (GuidanceDose, GuidanceRemove)):
        if not any(i.id == edit.item_id for i in state.guidance):
            raise InputError(
                f"no guidance with id {edit.item_id!r}",
                field="item_id",
                mend="name one of: " + (", ".join(i.id for i in state.guidance) or "(none active)"),
            )
        if isinstance(edit, GuidanceRemove):
            kept = tuple(i for i in state.guidance if i.id != edit.item_id)
        else:
            kept = tuple(
                i.model_copy(update={"dose": edit.dose}) if i.id == edit.item_id else i for i in state.guidance
            )
        return state.model_copy(update={"guidance": kept})
    return state.model_copy(update={"rubric": (*state.rubric, as_composite(edit))})


def apply(state: HarnessState, edits: Iterable[Edit], *, version: int, step: int) -> HarnessState:
    """The next numbered state. Same state, edits and numbers give the same digest."""
    new = state
    for edit in edits:
        new = candidate(new, edit)
    return new.model_copy(update={"version": version, "parent": state.version, "effective_from_step": step})
