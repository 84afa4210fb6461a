"""Inconclusive edits: which of them are tested on at the next update, with the evidence they have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness_agents.agents.protocols import Attribution, Proposal
from harness_agents.agents.rules.reading import SAME_CLUSTER
from rl_core.edits import Edit, GuidanceAdd, SamplerEdit
from rl_core.state import HarnessState


def base_of(state: HarnessState, edit: Edit) -> str:
    """What the evidence was measured on top of: for a rubric edit the rubric alone, else the whole state."""
    if edit.interface != "rubric":
        return state.digest
    body = json.dumps([e.model_dump(mode="json") for e in state.rubric], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


def evidence_for(carried: Mapping[str, Mapping[str, Any]], edit: Edit, state: HarnessState) -> Mapping[str, Any] | None:
    """The evidence of this very edit, if it was gathered on the same base."""
    found = carried.get(edit.key)
    return found if found is not None and found.get("base") == base_of(state, edit) else None


def revived(
    carried: Mapping[str, Mapping[str, Any]], attributions: Sequence[Attribution], fresh: Sequence[Proposal],
    state: HarnessState,
) -> list[Proposal]:
    """``fresh`` with hints and sampler edits replaced by undecided ones for (mostly) the same tasks.

    A rubric edit is refitted instead: a new fit is tested on all banked groups at no new label.
    """
    out = list(fresh)
    wanted = [(a, set(a.scope.tasks)) for a in attributions]
    for row in carried.values():
        if "proposal" not in row:
            continue
        old = Proposal.model_validate(row["proposal"])
        tasks = _tasks(old.edit)
        if not tasks or evidence_for(carried, old.edit, state) is None:
            continue
        match = next((a for a, ids in wanted if a.interface == old.edit.interface and _same(tasks, ids)), None)
        if match is None:
            continue
        place = next(
            (i for i, p in enumerate(out) if p.edit.interface == old.edit.interface and _same(tasks, _tasks(p.edit))),
            len(out),
        )
        out[place : place + 1] = [old.model_copy(update={"attribution": match})]
    return out


def _tasks(edit: Edit) -> set[str]:
    if isinstance(edit, GuidanceAdd):
        return set(edit.item.scope.tasks)
    if isinstance(edit, SamplerEdit):
        return {t for scope, factor in edit.rules if factor < 1 for t in scope.tasks}
    return set()


def _same(a: set[str], b: set[str]) -> bool:
    return bool(a and b) and len(a & b) >= SAME_CLUSTER * max(len(a), len(b))
