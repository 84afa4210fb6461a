"""Reading a run folder: metrics.jsonl, ledger.jsonl, summary.json, and the same under baseline/."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rl_core.errors import InputError

Status = Literal["accepted", "rejected", "inconclusive", "vetoed", "rolled_back"]


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


class Figures(_Line):
    pairs: int | None = None
    mean_d: Number = None
    sd_d: Number = None
    lift_current: Number = None
    lift_candidate: Number = None
    e_value: float | None = None
    threshold: Number = None
    rollouts: int | None = None
    labels: int | None = None
    interval: list[Number] | None = None
    e_path: list[float | None] = Field(default_factory=list)


class Failure(_Line):
    kind: str = ""
    statistic: Number = None
    where: str = ""
    reason: str = ""


class Decision(_Line):
    update: int | None = None
    step: int
    interface: str
    edit: dict[str, Any] = Field(default_factory=dict)
    status: Status
    state_version: int | None = None
    figures: Figures = Figures()
    reason: str = ""
    description: str = ""
    failure: Failure | None = None
    prediction: Number = None


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
    decisions: list[Decision]
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
        name = ".".join(str(p) for p in first["loc"]) or None
        raise InputError(first["msg"].lower(), where=where, field=name, mend="restore or remove the line") from None


def _lines(path: Path, gaps: list[str]) -> list[tuple[int, dict[str, Any]]]:
    """Objects of a JSONL file with their line numbers. A torn last line (no line end) is skipped and named in gaps."""
    try:
        text = path.read_text(encoding="utf-8", errors="strict")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read ({type(error).__name__})", where=path.name, mend="restore the file") from None
    out: list[tuple[int, dict[str, Any]]] = []
    rows = text.split("\n")
    for n, row in enumerate(rows, start=1):
        if not row.strip():
            continue
        try:
            data = json.loads(row)
        except (ValueError, RecursionError):
            if n == len(rows):
                gaps.append(f"The last line of {path.name} is incomplete (the run was writing it) and was left out.")
                break
            raise InputError("not JSON", where=f"{path.name} line {n}", mend="restore or remove the line") from None
        if not isinstance(data, dict):
            raise InputError("not an object", where=f"{path.name} line {n}", mend="restore or remove the line")
        out.append((n, data))
    return out


S = TypeVar("S", Step, Eval, Update)


def _push(lines: list[S], line: S) -> None:
    """Append; a resumed run logs steps again, and the later line stands."""
    while lines and lines[-1].step >= line.step:
        lines.pop()
    lines.append(line)


def load_run(folder: Path, *, with_baseline: bool = True) -> Run:
    """Read a run folder, finished or not.

    Raises InputError (one line) when the folder or its metrics.jsonl is missing, or a line is not what it should be.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError("no such run folder", where=str(folder), mend="give the folder that a run wrote")
    metrics = folder / "metrics.jsonl"
    if not metrics.is_file():
        raise InputError("no metrics.jsonl in it", where=str(folder), mend="give the folder that a run wrote")
    gaps: list[str] = []
    steps: list[Step] = []
    evals: list[Eval] = []
    updates: list[Update] = []
    for n, data in _lines(metrics, gaps):
        where = f"metrics.jsonl line {n}"
        kind = data.get("kind")
        if kind == "step":
            _push(steps, _check(Step, data, where))
        elif kind == "eval":
            _push(evals, _check(Eval, data, where))
        elif kind == "update":
            _push(updates, _check(Update, data, where))
    ledger = folder / "ledger.jsonl"
    rows = _lines(ledger, gaps) if ledger.is_file() else []
    decisions = [_check(Decision, data, f"ledger.jsonl line {n}") for n, data in rows]
    summary, finished = _summary(folder / "summary.json")
    baseline = None
    if with_baseline and (folder / "baseline").is_dir():
        if (folder / "baseline" / "metrics.jsonl").is_file():
            try:
                baseline = load_run(folder / "baseline", with_baseline=False)
            except InputError as error:
                raise InputError(error.problem, where=f"baseline/{error.where}", field=error.field,
                                 mend=error.mend) from None
            gaps += [f"Baseline: {g}" for g in baseline.gaps]
        else:
            gaps.append("The folder baseline holds no metrics.jsonl yet, so there is nothing to compare with.")
    return Run(folder.resolve().name, steps, evals, updates, decisions, summary, finished, baseline, gaps)


def _summary(path: Path) -> tuple[Summary, bool]:
    if not path.is_file():
        return Summary(), False
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError("not JSON", where="summary.json", mend="restore it, or remove it to report an unfinished run"
                         ) from None
    return _check(Summary, data, "summary.json"), True
