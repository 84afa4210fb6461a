"""RewardReport: what the diagnosis found, as plain data with a JSON round trip."""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from rl_core.edits import Scope
from rl_core.intervals import Estimate

AlarmKind = Literal["dead_low", "dead_high", "dead_flat", "blind", "spurious", "inverted", "noisy"]
DeadKind = Literal["dead_low", "dead_high", "dead_flat"]
DEAD_KINDS: tuple[DeadKind, ...] = ("dead_low", "dead_high", "dead_flat")

#: An alarm names at most this many rollouts.
MAX_EVIDENCE = 12


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GroupStats(_Data):
    """Counts and shares of groups. Shares are over scored groups (at least 2 rewards).

    ``unscored``: groups with fewer than 2 rewards. ``wasted``: share of rollouts that paid for
    no gradient (in a dead or unscored group, or without a reward).
    """

    groups: int
    unscored: int
    live: Estimate
    dead_low: Estimate
    dead_high: Estimate
    dead_flat: Estimate
    wasted: Estimate
    mean_reward: Estimate
    mean_spread: Estimate = Field(description="mean within-group standard deviation of the reward")

    def share(self, kind: DeadKind) -> Estimate:
        return {"dead_low": self.dead_low, "dead_high": self.dead_high, "dead_flat": self.dead_flat}[kind]


class TaskStats(_Data):
    """One task. ``run``: how many of its last scored groups in a row had the kind ``last``."""

    domain: str
    groups: int
    live: int
    dead_low: int
    dead_high: int
    dead_flat: int
    unscored: int
    wasted: float
    mean_reward: float | None
    last: Literal["live", "dead_low", "dead_high", "dead_flat", "none"]
    run: int


class CriterionStats(_Data):
    """One criterion family in one scope. ``sign``: of its weight, 0 where tasks differ.

    ``pass_rate`` is the raw share met. ``discrimination``, ``item_total`` and ``reference`` are
    oriented by the sign of the weight: positive means that the criterion pulls the right way.
    """

    tasks: int
    rollouts: int
    sign: int
    weight_share: float = Field(description="mean share of the criterion's |weight| in its rubric")
    pass_rate: Estimate
    no_verdict: Estimate
    discrimination: Estimate = Field(
        description="D index, upper minus lower 27 % in live groups, by the other criteria"
    )
    item_total: Estimate = Field(description="corrected point-biserial, centred within live groups")
    flip_rate: Estimate = Field(description="from identical completions of one task; n: repeated verdicts")
    reference: Estimate = Field(description="within-group correlation with the reference")
    redundancy: dict[str, Estimate] = Field(
        default_factory=dict, description="strongest within-group phi with other families, at most 3, |phi| >= 0.5"
    )


class Validity(_Data):
    """Reward against reference, within groups. Pairs: those the reference separates.

    ``blind`` = 1 − (share ordered alike − share ordered against): the share that the reward
    ties or orders at random (1 also where it orders against).
    """

    labels: int
    correlation: Estimate = Field(description="within live groups")
    pairs: int
    tied: Estimate
    inverted: Estimate
    blind: Estimate


class FeatureStats(_Data):
    """Correlation within groups of a feature of the text with reward and with reference.

    ``excess``: reward minus reference on the labelled rollouts (range ±2).
    """

    reward: Estimate
    reference: Estimate
    excess: Estimate


class Section(_Data):
    """Everything known about one scope: all tasks, or one domain."""

    groups: GroupStats
    criteria: dict[str, CriterionStats]
    features: dict[str, FeatureStats]
    validity: Validity | None = None


class Alarm(_Data):
    """A finding. ``family``: the criterion family, ``feature``: the text feature (spurious), where it is
    about one; a list of dead tasks has them in ``where.tasks``. ``p`` is Holm-adjusted within the report;
    ``severity`` in [0, 1] is the effect times the share of rollouts it touches; ``evidence`` holds ids
    of rollouts that show it.
    """

    kind: AlarmKind
    where: Scope
    family: str | None
    feature: str | None = None
    statistic: float
    interval: tuple[float, float]
    support: int
    p: float
    severity: float
    evidence: tuple[str, ...] = Field(default=(), max_length=MAX_EVIDENCE)
    text: str


class RewardReport(_Data):
    """Diagnosis of one window of rollouts under one HarnessState."""

    rollouts: int
    first_step: int
    last_step: int
    state_version: int
    labels: int
    overall: Section
    domains: dict[str, Section]
    tasks: dict[str, TaskStats]
    alarms: tuple[Alarm, ...]
    tests: int = Field(description="number of tests the Holm correction counted")
    trend: dict[str, float] = Field(
        default_factory=dict, description="overall figures minus those of the report before"
    )

    @property
    def healthy(self) -> bool:
        return not self.alarms

    @property
    def has_reference(self) -> bool:
        return self.labels > 0

    def of(self, kind: AlarmKind) -> tuple[Alarm, ...]:
        """Alarms of one kind, worst first."""
        return tuple(a for a in self.alarms if a.kind == kind)

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls.model_validate(data)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls.model_validate_json(text)

    def summary_lines(self) -> list[str]:
        """Plain text, the most important first."""
        g = self.overall.groups
        lines = [
            f"{self.rollouts} rollouts in {g.groups} groups, steps {self.first_step} to {self.last_step}, "
            f"state v{self.state_version}",
            f"{_pct(g.wasted.value)} of rollouts paid for no gradient: groups are {_pct(g.live.value)} live, "
            f"{_pct(g.dead_low.value)} all low, {_pct(g.dead_high.value)} all high, {_pct(g.dead_flat.value)} flat",
        ]
        for name, section in self.domains.items():
            s = section.groups
            lines.append(
                f"  {name}: live {_pct(s.live.value)}, low {_pct(s.dead_low.value)}, high {_pct(s.dead_high.value)}, "
                f"flat {_pct(s.dead_flat.value)}, reward {_num(s.mean_reward.value)}"
            )
        v = self.overall.validity
        if v is None:
            lines.append("no reference values: the figures speak of signal, not of validity")
        else:
            lines.append(
                f"reward against reference: correlation {v.correlation}; of {v.pairs} pairs the reward ties "
                f"{_pct(v.tied.value)} and inverts {_pct(v.inverted.value)}"
            )
        if self.healthy:
            lines.append("no alarms")
        lines += [f"ALARM {a.text}" for a in self.alarms]
        return lines


def _pct(x: float | None) -> str:
    return "?" if x is None else f"{100 * x:.0f} %"


def _num(x: float | None) -> str:
    return "?" if x is None else f"{x:.2f}"
