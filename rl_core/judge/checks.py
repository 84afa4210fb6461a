"""Registry of deterministic checks, and the scorer that sends each criterion down its route."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from rl_core.errors import InputError
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.task import Task
from rl_core.verdict import Verdict

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
    """Verdicts of a group under a rubric: checks here, the rest by the judge (none: ``no_verdict``)."""

    def __init__(self, judge: Judge | None = None) -> None:
        self._judge = judge

    @property
    def has_judge(self) -> bool:
        """Whether judge-routed criteria can get a verdict."""
        return self._judge is not None

    def verdicts(self, task: Task, completions: Sequence[str], rubric: Rubric) -> list[dict[str, Verdict]]:
        out: list[dict[str, Verdict]] = [{} for _ in completions]
        judged: list[Criterion] = []
        for c in rubric.criteria:
            if isinstance(c.route, CheckRoute):
                for row, text in zip(out, completions, strict=True):
                    row[c.id] = run_check(c, text, task)
            else:
                judged.append(c)
        if judged:
            if self._judge is None:
                rows = [{c.id: Verdict.missing("error") for c in judged} for _ in completions]
            else:
                rows = self._judge.verdicts(task, completions, judged)
            for row, more in zip(out, rows, strict=True):
                row.update(more)
        return out
