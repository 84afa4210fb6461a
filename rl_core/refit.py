"""Composite refit: the whole re-weighting of a rubric that best follows the reference, as one edit.

The reference is regressed on within-group-centred verdicts of the current criterion families and of
the catalogue together (ridge, weight chosen by cross-validation over groups), on the evidence half
only. Small coefficients become 0: a family is retired, a catalogue check is not added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl_core.bank import Entry
from rl_core.edits import MAX_ADDED, MAX_MULTIPLIER, RubricComposite, Scope
from rl_core.errors import InputError
from rl_core.judge.checks import Scorer
from rl_core.probe import lift_under_both
from rl_core.rubric import Criterion
from rl_core.state import HarnessState, candidate
from rl_core.task import TaskSet

#: Fewer evidence groups than this cannot carry a fit.
MIN_GROUPS = 12
#: A coefficient times its feature's spread below this share of the largest one is dropped.
DROP_BELOW = 0.12
#: A catalogue check is added only when its coefficient is this many standard errors from 0: most of it is decoys.
ADD_ABOVE_T = 3.0
_RIDGE = np.geomspace(0.3, 300.0, 7)
_FOLDS = 5


@dataclass(frozen=True)
class Refit:
    """A composite edit and the mean d that cross-validation on the evidence half predicts for it.

    The prediction is optimistic: which features stay and the ridge weight were chosen on all the
    evidence groups, held-out folds included.
    """

    edit: RubricComposite
    predicted: float


def fit_composite(
    entries: Sequence[Entry],
    state: HarnessState,
    tasks: TaskSet,
    scorer: Scorer,
    catalogue: Sequence[Criterion],
    *,
    scope: Scope,
) -> Refit | None:
    """The best re-weighting within ``scope``, or None when the evidence does not ask for one.

    None with fewer than ``MIN_GROUPS`` groups, or when cross-validated lift does not rise.
    Protected criteria are left as they are.
    """
    entries = [e for e in entries if scope.covers(e.group.task_id, tasks[e.group.task_id].domain)]
    if len(entries) < MIN_GROUPS:
        return None
    design = _design(entries, state, tasks, scorer, catalogue)
    if design is None:
        return None
    x, y, groups, names, load = design
    folds = np.array([g % _FOLDS for g in groups])
    spread = x.std(0)
    live = spread > 1e-9
    if not live.any():
        return None
    errors = [sum(_fold_error(x[:, live], y, folds, f, r) for f in range(_FOLDS)) for r in _RIDGE]
    ridge = float(_RIDGE[int(np.argmin(errors))])
    keep = _select(x, y, live, spread, ridge, names)
    if not keep.any():
        return None
    edit = _as_edit(_solve(x[:, keep], y, ridge), keep, names, load, catalogue, scope, entries, state, tasks)
    if edit is None:
        return None
    gains = []
    for f in range(_FOLDS):
        train = folds != f
        fold_edit = _as_edit(
            _solve(x[train][:, keep], y[train], ridge), keep, names, load, catalogue, scope, entries, state, tasks
        )
        if fold_edit is not None:
            held = [e for i, e in enumerate(entries) if i % _FOLDS == f]
            after = candidate(state, fold_edit)
            lifts = [lift_under_both(e, state, after, tasks, scorer) for e in held]
            gains += [pair[1] - pair[0] for pair in lifts if pair is not None]
    predicted = float(np.mean(gains)) if gains else 0.0
    return Refit(edit, predicted) if predicted > 0 else None


def _design(
    entries: Sequence[Entry], state: HarnessState, tasks: TaskSet, scorer: Scorer, catalogue: Sequence[Criterion]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str], dict[str, float]] | None:
    """Centred features and reference, group number a row, feature names, mean |weight| a family carries."""
    rubrics = [state.rubric_for(tasks[e.group.task_id]) for e in entries]
    families = sorted({c.family for r in rubrics for c in r.criteria if not c.protected})
    present = {c.id for r in rubrics for c in r.criteria}
    extra = [c for c in catalogue if c.id not in present]
    names = [*families, *(f"+{c.id}" for c in extra)]
    weights: dict[str, list[float]] = {f: [] for f in families}
    rows, ys, gs = [], [], []
    for g, (e, rubric) in enumerate(zip(entries, rubrics, strict=True)):
        task = tasks[e.group.task_id]
        joint = rubric.model_copy(update={"criteria": (*rubric.criteria, *extra)})
        verdicts = scorer.verdicts(task, [r.completion for r in e.group.rollouts], joint)
        carried = {f: sum(abs(c.weight) for c in rubric.criteria if c.family == f) for f in families}
        for f, w in carried.items():
            if w:
                weights[f].append(w)
        block, ref = [], []
        for row, value in zip(verdicts, e.values, strict=True):
            if value is None:
                continue
            vec = []
            for f in families:
                known = [(c.weight, v) for c in rubric.criteria if c.family == f and (v := row[c.id].value) is not None]
                vec.append(sum(w * v for w, v in known) / carried[f] if carried[f] else 0.0)
            vec += [row[c.id].value if row[c.id].value is not None else np.nan for c in extra]  # type: ignore[misc]
            block.append(vec)
            ref.append(value)
        if len(block) < 2:
            continue
        b = np.asarray(block, float)
        b = np.where(np.isnan(b), np.nanmean(np.where(np.isnan(b).all(0), 0.0, b), 0), b)
        rows.append(b - b.mean(0))
        ys.append(np.asarray(ref) - np.mean(ref))
        gs.append(np.full(len(ref), g))
    if not rows:
        return None
    load = {f: float(np.mean(w)) if w else 0.0 for f, w in weights.items()}
    return np.concatenate(rows), np.concatenate(ys), np.concatenate(gs), names, load


def _solve(x: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    scale = np.maximum(x.std(0), 1e-9)
    z = x / scale
    beta: np.ndarray = np.linalg.solve(z.T @ z + ridge * np.eye(z.shape[1]), z.T @ y) / scale
    return beta


def _standard_errors(x: np.ndarray, y: np.ndarray, beta: np.ndarray, ridge: float) -> np.ndarray:
    """Of ridge coefficients, given the residual variance (the usual sandwich, bias ignored)."""
    scale = np.maximum(x.std(0), 1e-9)
    z = x / scale
    gram = z.T @ z
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
    residual = y - x @ beta
    variance = float(residual @ residual) / max(len(y) - len(beta), 1)
    se: np.ndarray = np.sqrt(np.maximum(np.diag(inverse @ gram @ inverse) * variance, 1e-18)) / scale
    return se


def _fold_error(x: np.ndarray, y: np.ndarray, folds: np.ndarray, fold: int, ridge: float) -> float:
    train, test = folds != fold, folds == fold
    if not test.any() or not train.any():
        return 0.0
    return float(((y[test] - x[test] @ _solve(x[train], y[train], ridge)) ** 2).sum())


def _select(
    x: np.ndarray, y: np.ndarray, live: np.ndarray, spread: np.ndarray, ridge: float, names: Sequence[str]
) -> np.ndarray:
    """Features worth keeping: current families with a positive coefficient, the strongest few of the catalogue."""
    beta, t = np.zeros(len(names)), np.zeros(len(names))
    beta[live] = _solve(x[:, live], y, ridge)
    t[live] = beta[live] / _standard_errors(x[:, live], y, beta[live], ridge)
    strength = np.abs(beta) * spread
    new = np.array([n.startswith("+") for n in names])
    strength[~new & (beta < 0)] = 0.0  # a family keeps its sign: one that hurts is retired, not turned round
    strength[new & (np.abs(t) < ADD_ABOVE_T)] = 0.0
    keep: np.ndarray = live & (strength > DROP_BELOW * max(float(strength.max()), 1e-12))
    ranked = [i for i in np.argsort(-strength) if keep[i] and new[i]]
    keep[ranked[MAX_ADDED:]] = False
    return keep


def _as_edit(
    beta: np.ndarray,
    keep: np.ndarray,
    names: Sequence[str],
    load: dict[str, float],
    catalogue: Sequence[Criterion],
    scope: Scope,
    entries: Sequence[Entry],
    state: HarnessState,
    tasks: TaskSet,
) -> RubricComposite | None:
    """Coefficients as multipliers and added criteria; the mean unprotected |weight| of the scope is kept."""
    coefficient = dict.fromkeys(names, 0.0)
    for i, b in zip(np.flatnonzero(keep), beta, strict=True):
        coefficient[names[int(i)]] = float(b)
    families = {n: max(b, 0.0) for n, b in coefficient.items() if not n.startswith("+")}
    added = {n[1:]: b for n, b in coefficient.items() if n.startswith("+") and b != 0}
    total = sum(abs(b) for b in (*families.values(), *added.values()))
    if total <= 0:
        return None
    rubrics = [state.rubric_for(tasks[e.group.task_id]) for e in entries]
    unprotected = [sum(abs(c.weight) for c in r.criteria if not c.protected) for r in rubrics]
    kappa = float(np.mean(unprotected)) / total
    multipliers = {
        f: round(min(kappa * b / load[f], MAX_MULTIPLIER), 3) for f, b in families.items() if load.get(f, 0) > 0
    }
    if not any(multipliers.values()):
        return None
    by_id = {c.id: c for c in catalogue}
    new = tuple(
        by_id[cid].model_copy(update={"weight": round(kappa * b, 3)}) for cid, b in added.items() if round(kappa * b, 3)
    )
    edit = RubricComposite(scope=scope, multipliers=multipliers, added=new)
    after = candidate(state, edit)
    try:
        for task in tasks:
            after.rubric_for(task)
    except InputError:  # some task would be left without a criterion
        return None
    return edit
