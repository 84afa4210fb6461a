"""Registry of deterministic checks, and the scorer that sends each criterion down its route."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rl_core.errors import InputError
from rl_core.judge.text import strip_think
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.task import Task
from rl_core.verdict import Verdict

_LOG = logging.getLogger(__name__)

#: A check reads one completion: ``check(completion, task, **params) -> bool | float in [0, 1] | None``.
Check = Callable[..., bool | float | None]

_REGISTRY: dict[str, Check] = {}


def register(name: str) -> Callable[[Check], Check]:
    """Decorator: make a function available to ``route: {kind: check, name: ...}``."""

    def add(fn: Check) -> Check:
        if name in _REGISTRY and _REGISTRY[name] is not fn:
            raise ValueError(f"check {name!r} is registered already")
        _REGISTRY[name] = fn
        return fn

    return add


def get_check(name: str) -> Check:
    try:
        return _REGISTRY[name]
    except KeyError:
        raise InputError(
            f"unknown check {name!r}",
            field="route.name",
            mend="register it with rl_core.judge.checks.register; known: " + (", ".join(sorted(_REGISTRY)) or "none"),
        ) from None


class Judge(Protocol):
    """Reads judge-routed criteria: one dict (criterion id -> Verdict) per completion of one task."""

    def verdicts(
        self, task: Task, completions: Sequence[str], criteria: Sequence[Criterion]
    ) -> list[dict[str, Verdict]]: ...


def run_check(criterion: Criterion, completion: str, task: Task) -> Verdict:
    """Verdict of a check-routed criterion; a check that fails gives no verdict, never 0."""
    route = criterion.route
    assert isinstance(route, CheckRoute)
    fn = get_check(route.name)
    params: Mapping[str, Any] = route.params
    try:
        value = fn(completion, task, **params)
    except Exception:  # a user's check may raise anything; the rollout is not lost for it
        return Verdict.missing("error")
    return Verdict.missing("not_applicable") if value is None else Verdict(min(max(float(value), 0.0), 1.0))


class Scorer:
    """Verdicts of a group under a rubric: checks here, the rest by the judge (none: ``no_verdict``).

    Checks and judge see the completions without their reasoning blocks. A judge that raises leaves
    its criteria of that group without a verdict.
    """

    def __init__(self, judge: Judge | None = None) -> None:
        self._judge = judge
        self._failed_before = False

    @property
    def has_judge(self) -> bool:
        """Whether judge-routed criteria can get a verdict."""
        return self._judge is not None

    def verdicts(self, task: Task, completions: Sequence[str], rubric: Rubric) -> list[dict[str, Verdict]]:
        """One dict per completion, every criterion present. Raises InputError for a judge that answers wrongly."""
        texts = [strip_think(t) if "think>" in t.lower() else t for t in completions]
        out: list[dict[str, Verdict]] = [{} for _ in texts]
        judged: list[Criterion] = []
        for c in rubric.criteria:
            if isinstance(c.route, CheckRoute):
                for row, text in zip(out, texts, strict=True):
                    row[c.id] = run_check(c, text, task)
            else:
                judged.append(c)
        if judged:
            for row, more in zip(out, self._judged(task, texts, judged), strict=True):
                row.update(more)
        return out

    def _judged(self, task: Task, texts: Sequence[str], criteria: Sequence[Criterion]) -> list[dict[str, Verdict]]:
        missing = [{c.id: Verdict.missing("error") for c in criteria} for _ in texts]
        if self._judge is None:
            return missing
        try:
            rows = self._judge.verdicts(task, texts, criteria)
        except Exception as e:  # a user's judge may raise anything; the group is not lost for it
            if not self._failed_before:
                self._failed_before = True
                _LOG.warning("judge %s: no verdicts, further failures are not logged: %s", _name(self._judge), e)
            return missing
        problem = _misshapen(rows, len(texts))
        if problem:
            raise InputError(
                problem,
                where=f"judge {_name(self._judge)}, task {task.id!r}",
                field="verdicts",
                mend="return one dict (criterion id -> Verdict) for each completion",
            )
        return [{**none, **row} for none, row in zip(missing, rows, strict=True)]


def _name(judge: Judge) -> str:
    return type(judge).__name__


def _misshapen(rows: Any, n: int) -> str | None:
    """What is wrong with a judge's answer for ``n`` completions."""
    if not isinstance(rows, (list, tuple)):
        return f"{type(rows).__name__} is no list"
    if len(rows) != n:
        return f"{len(rows)} rows for {n} completions"
    for row in rows:
        if not isinstance(row, dict):
            return f"a row is {type(row).__name__}, no dict"
        for cid, v in row.items():
            if not isinstance(v, Verdict):
                return f"criterion {str(cid)[:80]!r} has {type(v).__name__}, no Verdict"
    return None
