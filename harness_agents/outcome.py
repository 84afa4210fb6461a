"""What one harness update came to, and its record on disk that makes a replay exact."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rl_core.run_folder import write_atomic


@dataclass
class Outcome:
    """Result of ``Harness.checkpoint``.

    ``decisions`` are ledger rows without update and step. ``error`` is set when the update failed
    (the state is then as it was), ``pending`` when it waits for a human. ``replayed``: taken from
    the record of an earlier process, nothing was probed. ``seconds`` is wall time.
    """

    update: int
    step: int
    base_version: int
    state_version: int
    healthy: bool = False
    decisions: list[dict[str, Any]] = field(default_factory=list)
    probe_rollouts: int = 0
    labels: int = 0
    reference_calls: int = 0
    seconds: float = 0.0
    error: str | None = None
    pending: dict[str, Any] | None = None
    replayed: bool = False
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    report: dict[str, Any] | None = None
    carried: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def accepted(self) -> list[dict[str, Any]]:
        return [d for d in self.decisions if d["status"] == "accepted"]

    def metrics_row(self) -> dict[str, Any]:
        return {
            "kind": "update",
            "step": self.step,
            "update": self.update,
            "healthy": self.healthy,
            "probe_rollouts": self.probe_rollouts,
            "labels": self.labels,
            "seconds": round(self.seconds, 3),
            "decisions": len(self.decisions),
            "accepted": len(self.accepted),
            "state_version": self.state_version,
            "error": self.error,
        }

    def summary(self) -> str:
        """One line for a log."""
        head = f"update {self.update} at step {self.step}"
        if self.error:
            return f"{head} failed, nothing changed: {self.error}"
        if self.pending is not None:
            return f"{head} waits for approval of {len(self.pending['edits'])} edit(s)"
        if self.healthy:
            return f"{head}: nothing fails"
        kept = "; ".join(d["description"] for d in self.accepted) or "nothing accepted"
        tested = sum(d["status"] != "vetoed" for d in self.decisions)
        return f"{head}: {kept} ({tested} tested, state v{self.state_version})"


class UpdateRecords:
    """One file an update (``updates/0003.json``), written last: when it is there, the update is complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, update: int) -> Path:
        return self._folder / f"{update:04d}.json"

    def read(self, update: int) -> dict[str, Any] | None:
        """The record, or None when the update never completed (or its file was damaged)."""
        try:
            data = json.loads(self.path(update).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("update") == update else None

    def write(self, outcome: Outcome) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        body = {**asdict(outcome), "replayed": False}
        write_atomic(self.path(outcome.update), json.dumps(body, ensure_ascii=False))

    def replay(self, update: int, *, step: int, base_version: int) -> Outcome | None:
        """The outcome as recorded, if it was for the same step and base state."""
        data: Mapping[str, Any] | None = self.read(update)
        if data is None or data.get("step") != step or data.get("base_version") != base_version:
            return None
        return Outcome(**{**data, "replayed": True})
