"""Approval by a human through LangGraph's interrupt: what is asked, and what counts as an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness_agents.state import UpdateState
from rl_core.errors import InputError


def question(state: UpdateState) -> dict[str, Any]:
    """What the human sees: every accepted edit with its reason and figures."""
    return {
        "update": state["update"],
        "step": state["step"],
        "edits": [
            {k: d[k] for k in ("description", "interface", "edit", "reason", "figures", "failure", "prediction")}
            for d in state["decisions"]
            if d["status"] == "accepted"
        ],
        "answer": {"approved": "true or false", "by": "your name", "reason": "optional"},
    }


def read_answer(answer: object) -> dict[str, Any]:
    """``True``/``False`` or ``{"approved": bool, "by": str, "reason": str}``. Raises InputError on anything else."""
    if isinstance(answer, bool):
        answer = {"approved": answer}
    if not isinstance(answer, Mapping) or not isinstance(answer.get("approved"), bool):
        raise InputError("not an answer", field="approved", mend="answer true, false or {'approved': true, 'by': ...}")
    return {
        "approved": answer["approved"],
        "by": str(answer.get("by", "human"))[:100],
        "reason": str(answer.get("reason", ""))[:300],
    }
