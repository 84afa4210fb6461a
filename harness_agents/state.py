"""The graph's state: JSON-shaped on purpose, so that no class path is ever in a checkpoint.

Input and output are narrow and no key has a reducer, so the compiled graph can be a node of
another graph without doubling anything.
"""

from __future__ import annotations

from typing import Any, TypedDict


class UpdateInput(TypedDict):
    """One harness update: its number and the training step at which it happens."""

    update: int
    step: int


class UpdateOutput(TypedDict, total=False):
    """``decisions`` in ledger form; ``new_state`` a HarnessState dump or None; ``cost`` rollouts and labels."""

    update: int
    step: int
    healthy: bool
    decisions: list[dict[str, Any]]
    new_state: dict[str, Any] | None
    cost: dict[str, int]
    carried: dict[str, dict[str, Any]]
    report: dict[str, Any] | None
    agents: dict[str, dict[str, Any]]
    notes: list[str]


class UpdateState(TypedDict, total=False):
    """Everything that one update knows. Rollouts stay in the run folder; only plain data is kept here."""

    update: int
    step: int
    base_version: int
    cost: dict[str, int]
    report: dict[str, Any] | None
    healthy: bool
    recall: list[str]
    attributions: list[dict[str, Any]]
    queue: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    round: int
    asked_again: bool
    used_pairs: dict[str, list[str]]
    carried: dict[str, dict[str, Any]]
    approval: dict[str, Any]
    new_state: dict[str, Any] | None
    agents: dict[str, dict[str, Any]]
    notes: list[str]
