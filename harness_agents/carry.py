"""Inconclusive edits: which of them are tested on at the next update, with the evidence they have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness_agents.agents.protocols import Attribution, Proposal
from harness_agents.agents.rules.reading import SAME_CLUSTER
from rl_core.edits import Edit, GuidanceAdd, SamplerEdit, Scope
from rl_core.state import HarnessState
from rl_core.task import TaskSet


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
    carried: Mapping[str, Mapping[str, Any]],
    attributions: Sequence[Attribution],
    fresh: Sequence[Proposal],
    state: HarnessState,
    tasks: TaskSet,
) -> list[Proposal]:
    """``fresh`` with hints and sampler edits replaced by undecided ones for (mostly) the same tasks.

    A rubric edit is refitted instead: a new fit is tested on all banked groups at no new label.
    """
    out = list(fresh)
    wanted = [(a, _covered(a.scope, tasks)) for a in attributions]
    for row in carried.values():
        if "proposal" not in row:
            continue
        old = Proposal.model_validate(row["proposal"])
        mine = _tasks(old.edit, tasks)
        if not mine or evidence_for(carried, old.edit, state) is None:
            continue
        match = next((a for a, ids in wanted if a.interface == old.edit.interface and _same(mine, ids)), None)
        if match is None:
            continue
        alike = [p.edit.interface == old.edit.interface and _same(mine, _tasks(p.edit, tasks)) for p in out]
        place = alike.index(True) if True in alike else len(out)
        out[place : place + 1] = [old.model_copy(update={"attribution": match})]
    return out


def _tasks(edit: Edit, tasks: TaskSet) -> set[str]:
    """Tasks that a hint or a sampler edit is about; empty for other edits."""
    if isinstance(edit, GuidanceAdd):
        scopes = [edit.item.scope]
    elif isinstance(edit, SamplerEdit):
        scopes = [scope for scope, factor in edit.rules if factor < 1]
    else:
        return set()
    return {i for s in scopes for i in _covered(s, tasks)}


def _covered(scope: Scope, tasks: TaskSet) -> set[str]:
    return {t.id for t in tasks if scope.covers(t.id, t.domain)}


def _same(a: set[str], b: set[str]) -> bool:
    return bool(a and b) and len(a & b) >= SAME_CLUSTER * max(len(a), len(b))
