"""What the graph's nodes work with. Bound when the graph is built, so the graph runs inside any other graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness_agents.agents.protocols import CriticReader, Evolver, Proposer
from harness_agents.config import HarnessConfig
from memory import FailureMemory
from rl_core.bank import ReferenceBank
from rl_core.edits import Edit, GuidanceAdd, GuidanceRemove
from rl_core.guidance import Renderer, guided_count
from rl_core.judge.checks import Scorer
from rl_core.ledger import Figures, Ledger, LedgerEntry
from rl_core.policy import Capabilities, FrozenPolicy
from rl_core.probe import Cost
from rl_core.reference import Reference
from rl_core.rollout import Rollout
from rl_core.rubric import Criterion
from rl_core.run_folder import RunFolder
from rl_core.state import HarnessState
from rl_core.task import TaskSet


@dataclass
class UpdateRun:
    """The facts of the update that is running. The harness sets them before the graph starts.

    ``rollouts``: the window since the last update. ``previous``: record of the update before
    (its report and what it accepted). ``carried``: evidence of inconclusive edits by edit key.
    ``train_rollouts``, ``probe_rollouts``, ``labels``: counters at the start.
    """

    update: int
    step: int
    state: HarnessState
    policy: FrozenPolicy | None
    rollouts: Sequence[Rollout] = ()
    doses: Mapping[str, float] = field(default_factory=dict)
    idle_hints: Sequence[str] = ()
    next_version: int = 1
    previous: Mapping[str, Any] | None = None
    carried: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    train_rollouts: int = 0
    probe_rollouts: int = 0
    labels: int = 0
    live: Cost = field(default_factory=Cost)


@dataclass
class Services:
    """``run`` is None between updates."""

    config: HarnessConfig
    tasks: TaskSet
    scorer: Scorer
    bank: ReferenceBank
    ledger: Ledger
    folder: RunFolder
    evolver: Evolver
    proposer: Proposer
    critic: CriticReader
    render: Renderer
    capabilities: Capabilities = field(default_factory=Capabilities)
    reference: Reference | None = None
    memory: FailureMemory | None = None
    run_name: str = "run"
    catalogue: Sequence[Criterion] = ()
    planned_rollouts: int = 0
    run: UpdateRun | None = None

    @property
    def now(self) -> UpdateRun:
        """The running update. Raises RuntimeError between updates."""
        if self.run is None:
            raise RuntimeError("no harness update is running: set services.run before the graph is invoked")
        return self.run

    def history(self) -> list[LedgerEntry]:
        """Decisions of earlier updates of this run, without what the gate measured on its test half."""
        hidden = {"figures": Figures(), "reason": ""}
        return [e.model_copy(update=hidden) for e in self.ledger.entries if e.update < self.now.update]

    def label_room(self, cost: Mapping[str, int]) -> int:
        """Labels that may still be bought now.

        The budget is a share of all rollouts, probes counted; it may borrow from the rollouts
        that the run is planned to have, since the first labels decide most.
        """
        run = self.now
        share = self.config.reference.label_budget
        so_far = run.train_rollouts + run.probe_rollouts + cost.get("rollouts", 0)
        allowed = int(share * max(so_far, self.planned_rollouts))
        return max(allowed - run.labels - cost.get("labels", 0), 0)

    def labels_short(self, edit: Edit, cost: Mapping[str, int]) -> str | None:
        """Why the labels left cannot carry a test of this edit to its earliest acceptance; None when they can.

        A test that must end without a decision would only spend rollouts.
        """
        if self.reference is None or edit.interface == "rubric":
            return None
        if isinstance(edit, GuidanceRemove) and edit.item_id in self.now.idle_hints:
            return None  # decided without a probe
        size = self.config.train.group_size
        per_pair = size + (guided_count(edit.item.dose, size) if isinstance(edit, GuidanceAdd) else size // 2)
        need, room = self.config.gate.min_pairs * per_pair, self.label_room(cost)
        return f"{room} labels left and about {need} needed" if room < need else None
