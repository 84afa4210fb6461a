"""What the three agents are asked and what they answer. Rules and language models stand behind the same protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rl_core.bank import Entry
from rl_core.edits import Edit, Interface, Scope, parse_edit
from rl_core.judge.checks import Scorer
from rl_core.ledger import LedgerEntry
from rl_core.policy import Capabilities
from rl_core.reward_report import RewardReport
from rl_core.rubric import Criterion
from rl_core.state import HarnessState
from rl_core.task import TaskSet

#: The alarms of a report, and what the harness itself can see: a hint no longer needed, a dead or doubled criterion.
FailureKind = Literal[
    "dead_low",
    "dead_high",
    "dead_flat",
    "blind",
    "spurious",
    "inverted",
    "noisy",
    "hint_unneeded",
    "criterion_dead",
    "criterion_double",
]


class Attribution(BaseModel):
    """A failure, the interface that should answer it, and why.

    ``statistic`` and ``interval`` are the figure that triggered it; ``evidence`` holds ids of
    rollouts in the report; ``worth`` orders attributions (severity: effect times share of rollouts).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: FailureKind
    interface: Interface
    scope: Scope = Scope()
    where: str = Field("", max_length=300)
    reason: str = Field(min_length=1, max_length=1000)
    evidence: tuple[str, ...] = Field(default=(), max_length=24)
    statistic: float | None = None
    interval: tuple[float, float] | None = None
    worth: float = Field(0.0, ge=0.0)
    families: tuple[str, ...] = Field(default=(), max_length=16)


class Proposal(BaseModel):
    """An edit with its reason and the lift it is expected to add (None: no forecast)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    edit: Annotated[Edit, BeforeValidator(lambda v: v if isinstance(v, BaseModel) else parse_edit(v))]
    attribution: Attribution
    reason: str = Field("", max_length=1000)
    prediction: float | None = None


class Reading(BaseModel):
    """What the critic's reading half says: a veto with its reason, or notes. It can never accept."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    veto: str | None = None
    notes: str = Field("", max_length=1000)


@dataclass(frozen=True)
class Refusal:
    """An edit that came back: its reason class only, never a figure of the gate's test half."""

    edit: Edit
    status: Literal["rejected", "inconclusive", "vetoed"]
    why: str


@dataclass(frozen=True)
class Situation:
    """Everything an agent may look at in one update. Test-half labels are not in it.

    ``entries``: the bank's evidence half. ``test_groups``: number of banked test groups by domain
    (a count, no content). ``history``: decisions of this run. ``recall``: lines from memory.
    ``idle_hints``: ids of hints that no rollout receives any more, because their doses decayed to 0.
    """

    update: int
    step: int
    state: HarnessState
    tasks: TaskSet
    report: RewardReport
    scorer: Scorer
    capabilities: Capabilities
    has_reference: bool
    group_size: int
    entries: Sequence[Entry] = ()
    test_groups: Mapping[str, int] = field(default_factory=dict)
    history: Sequence[LedgerEntry] = ()
    recall: Sequence[str] = ()
    catalogue: Sequence[Criterion] = ()
    idle_hints: Sequence[str] = ()
    min_domain_groups: int = 24
    may_write_criteria: bool = True


@runtime_checkable
class Evolver(Protocol):
    """Attributes the failures of a report to interfaces, most worthwhile first."""

    def attribute(self, situation: Situation) -> list[Attribution]: ...


@runtime_checkable
class Proposer(Protocol):
    """Turns attributions into edits, in the order in which they should be tested."""

    def propose(
        self, situation: Situation, attributions: Sequence[Attribution], *, refused: Sequence[Refusal], limit: int
    ) -> list[Proposal]:
        """``refused``: edits of this update that came back, with the reason class; ``limit``: at most this many."""
        ...


class PastEdits(Protocol):
    """What memory knows about an edit: the reason why it must not be tested again, or None."""

    def __call__(self, edit: Edit, statistic: float | None) -> str | None: ...


@runtime_checkable
class CriticReader(Protocol):
    """Reads a proposal before anything is measured. It may veto; only the gate accepts."""

    def read(self, situation: Situation, proposal: Proposal, past: PastEdits) -> Reading: ...


def agent_notes(agent: object) -> dict[str, Any]:
    """How an agent came to its last answer (path taken, re-asks, template hash, usage); empty for rules."""
    notes = getattr(agent, "notes", None)
    return dict(notes) if isinstance(notes, Mapping) else {}
