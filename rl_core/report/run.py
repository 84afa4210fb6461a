"""Reading a run folder: metrics.jsonl, ledger.jsonl, summary.json, and the same under baseline/."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rl_core.errors import InputError
from rl_core.ledger import Ledger, LedgerEntry
from rl_core.report.figures import clean
from rl_core.run_folder import RunFolder, read_jsonl

STATUS_NAMES = {
    "accepted": "accepted",
    "rejected": "rejected",
    "inconclusive": "inconclusive",
    "vetoed": "vetoed",
    "rolled_back": "rolled back",
}


def _finite(x: object) -> object:
    return None if isinstance(x, float) and not math.isfinite(x) else x


Number = Annotated[float | None, BeforeValidator(_finite)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Groups(_Line):
    """Shares of groups in [0, 1]; a share that was not logged is None."""

    reward: Number = None
    live: Number = None
    dead_low: Number = None
    dead_high: Number = None
    dead_flat: Number = None


class Step(_Line):
    step: int
    reward: Number = None
    live_share: Number = None
    rollouts: Number = None
    labels: Number = None
    domains: dict[str, Groups] = Field(default_factory=dict)


class Eval(_Line):
    step: int
    gold: Number = None
    gold_by_domain: dict[str, Number] = Field(default_factory=dict)
    rollouts: Number = None


class Update(_Line):
    step: int
    update: int | None = None
    healthy: bool | None = None
    probe_rollouts: Number = None
    labels: Number = None
    seconds: Number = None
    decisions: int | None = None
    accepted: int | None = None
    state_version: int | None = None
    error: str | None = None


class Summary(_Line):
    command: str | None = None
    seed: int | None = None
    steps: int | None = None
    rollouts: Number = None
    probe_rollouts: Number = None
    labels: Number = None
    label_share: Number = None
    probe_share: Number = None
    gold_first: Number = None
    gold_last: Number = None
    gold_by_domain: dict[str, Number] | None = None
    baseline: Summary | None = None
    gain: Number = None
    seconds: Number = None
    notes: list[str] = Field(default_factory=list)
    versions: dict[str, Any] = Field(default_factory=dict)
    failures: list[str] = Field(default_factory=list)
    changes: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """One run as logged. ``finished``: summary.json is there. ``gaps``: what could not be read, in plain words."""

    name: str
    steps: list[Step]
    evals: list[Eval]
    updates: list[Update]
    decisions: list[LedgerEntry]
    summary: Summary
    finished: bool
    baseline: Run | None = None
    gaps: list[str] = field(default_factory=list)


L = TypeVar("L", bound=_Line)


def _check(model: type[L], data: object, where: str) -> L:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = clean(".".join(str(p) for p in first["loc"]), 80) or None
        raise InputError(clean(first["msg"]), where=where, field=name, mend="restore or remove the line") from None


S = TypeVar("S", Step, Eval, Update)


def _push(lines: list[S], line: S) -> None:
    """Append; a resumed run may log steps again, and the later line stands."""
    while lines and lines[-1].step >= line.step:
        lines.pop()
    lines.append(line)


def load_run(folder: Path, *, with_baseline: bool = True) -> Run:
    """Read a run folder, finished or not; a torn last line is left out and named in ``gaps``.

    Raises InputError (one line) when the folder holds no run or a line is not what it should be.
    """
    place = RunFolder(folder)
    if not place.is_run:
        problem = "holds no run" if place.path.is_dir() else "no such folder"
        raise InputError(problem, where=str(folder), mend="name the folder of a run")
    steps: list[Step] = []
    evals: list[Eval] = []
    updates: list[Update] = []
    try:
        for n, data in enumerate(read_jsonl(place.metrics), start=1):
            where = f"{place.metrics}, row {n}"
            kind = data.get("kind")
            if kind == "step":
                _push(steps, _check(Step, data, where))
            elif kind == "eval":
                _push(evals, _check(Eval, data, where))
            elif kind == "update":
                _push(updates, _check(Update, data, where))
        decisions = Ledger(place.ledger).read()
        gaps = [
            f"The last line of {p.name} is incomplete (the run was writing it) and was left out."
            for p in (place.metrics, place.ledger)
            if _is_torn(p)
        ]
    except (OSError, RecursionError) as error:
        raise InputError(
            f"cannot be read ({type(error).__name__})", where=str(folder), mend="restore its files"
        ) from None
    summary, finished = _summary(place.summary)
    baseline = None
    if with_baseline and RunFolder(place.path / "baseline").is_run:
        baseline = load_run(place.path / "baseline", with_baseline=False)
        gaps += [f"Baseline: {g}" for g in baseline.gaps]
    return Run(place.path.resolve().name, steps, evals, updates, decisions, summary, finished, baseline, gaps)


def _is_torn(path: Path) -> bool:
    return path.is_file() and not (b"\n" + path.read_bytes()).endswith(b"\n")


def _summary(path: Path) -> tuple[Summary, bool]:
    if not path.is_file():
        return Summary(), False
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise InputError(
            "not JSON", where=str(path), mend="restore it, or remove it to report an unfinished run"
        ) from None
    return _check(Summary, data, str(path)), True
