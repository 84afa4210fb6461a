"""``harness-agents train``: GRPO through TRL as a config says, with harness updates, a run folder and a report."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness_agents.config import HarnessConfig
from harness_agents.progress import Progress
from rl_core.judge.checks import Judge, Scorer
from rl_core.microworld.world import World
from rl_core.reference import Reference
from rl_core.run_folder import RunFolder, write_atomic
from rl_core.task import Task, TaskSet

#: ``stop(step, rollouts) -> True`` ends training early.
Stop = Callable[[int, int], bool]


def run_training(
    config: HarnessConfig,
    *,
    out: Path,
    resume: bool = False,
    reference: Reference | None = None,
    judge: Judge | Scorer | None = None,
    warm: Path | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
    name: str = "training",
    report: bool = True,
) -> dict[str, Any]:
    """Train, write the run folder, and return what stands in its summary.json.

    ``judge``: reads judge-routed criteria; a whole Scorer is taken as it is (None: that of the tasks).
    ``warm``: where the warmed-up microworld policy is kept (default: the run's checkpoints).
    Raises InputError on anything a user can mend.
    """
    started = time.monotonic()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if progress is None:
        with Progress({name: config.train.steps}) as bars:
            return run_training(
                config,
                out=out,
                resume=resume,
                reference=reference,
                judge=judge,
                warm=warm,
                stop=stop,
                progress=bars,
                name=name,
                report=report,
            )

    from harness_agents.harness import Harness
    from harness_agents.policies import load_policy

    _quiet()

    seed = config.seed if config.tasks.world_seed is None else config.tasks.world_seed
    world = World(seed) if config.tasks.source == "microworld" else None
    tasks, held_out = _split(config, world)
    shape = config.train
    harness = Harness.from_config(
        config,
        tasks=tasks,
        judge=judge,
        reference=reference,
        run_dir=out,
        planned_rollouts=shape.steps * shape.groups_per_step * shape.group_size,
        resume=resume,
    )
    try:
        folder = RunFolder(out)
        policy = load_policy(
            config, world, warm=warm or folder.checkpoints, say=lambda t: progress.update(name, 0, note=t)
        )
        trainer = _trainer(config, policy, harness, folder, world, held_out, progress, name, stop)
        checkpoint = _last_checkpoint(folder) if resume else None
        if resume:
            progress.say(f"resuming from {checkpoint.name}" if checkpoint else "no checkpoint yet: starting anew")
        evaluate = trainer.harness_evaluate
        if checkpoint is None:
            evaluate(0)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        step = int(trainer.state.global_step)
        evaluate(step)
        harness.flush()
        trainer.accelerator.end_training()
        summary = _summary(config, harness, folder, step, time.monotonic() - started)
        write_atomic(folder.summary, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    finally:
        harness.close()
    if report:
        from rl_core.report import summary_text, write_report

        write_report(out)
        progress.say(summary_text(out))
        progress.say(f"report: {RunFolder(out).report}")
    return summary


def _quiet() -> None:
    """The run has its own display; the libraries' bars and notices about their own future would tear it."""
    import warnings

    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"transformers\b.*")


def _split(config: HarnessConfig, world: World | None) -> tuple[TaskSet | None, list[Task]]:
    """Training tasks (None: the harness takes the microworld's) and held-out tasks."""
    if world is not None:
        return None, list(world.held_out)
    from rl_core.datasets import load_tasks
    from rl_core.sampler import stream

    t = config.tasks
    tasks = list(load_tasks(t.source, max_answer_words=t.max_answer_words, limit=t.limit))
    n = int(len(tasks) * t.held_out)
    if not n:
        return TaskSet(tasks, source=t.source), []
    order = stream(config.seed, "held-out").permutation(len(tasks))
    held = set(order[:n].tolist())
    return (
        TaskSet([x for i, x in enumerate(tasks) if i not in held], source=t.source),
        [x for i, x in enumerate(tasks) if i in held],
    )


def _trainer(
    config: HarnessConfig,
    policy: Any,
    harness: Any,
    folder: RunFolder,
    world: World | None,
    held_out: list[Task],
    progress: Progress,
    name: str,
    stop: Stop | None,
) -> Any:
    from harness_agents.metrics import append_once
    from rl_core.adapters.guided_loss import GuidedLoss
    from rl_core.trainer import GRPOSettings, build_trainer, step_callback

    t, g = config.train, config.guidance
    settings = GRPOSettings(
        steps=t.steps,
        groups_per_step=t.groups_per_step,
        group_size=t.group_size,
        max_tokens=t.max_tokens,
        learning_rate=t.learning_rate,
        temperature=t.temperature,
        beta=t.beta,
        seed=config.seed,
        rows_per_pass=t.rows_per_pass,
    )
    loss = GuidedLoss(importance=g.importance, ratio_cap=g.ratio_cap, ratio_floor=g.ratio_floor, baseline=g.baseline)
    told = {"updates": 0}

    def evaluate(step: int) -> None:
        row = _evaluate(trainer, harness, world, held_out, step)
        if row is not None:
            append_once(folder.metrics, row, key=("kind", "step"))

    def after_step(step: int, control: Any) -> None:
        counts = harness.counts()
        if step % t.eval_every == 0 and step != t.steps:
            evaluate(step)
        if counts["updates"] > told["updates"]:
            told["updates"] = counts["updates"]
            for line in _last_update_lines(folder, counts["updates"]):
                progress.say(line)
        progress.update(name, step, last_row(folder.metrics, "step"))
        if stop is not None and stop(step, counts["train_rollouts"] + counts["probe_rollouts"]):
            control.should_training_stop = True

    trainer = build_trainer(
        policy.model,
        policy.tokenizer,
        harness,
        settings,
        out=folder.checkpoints,
        loss=loss,
        strict=config.strict,
        after=[step_callback(after_step)],
    )
    trainer.harness_evaluate = evaluate
    return trainer


def _evaluate(
    trainer: Any, harness: Any, world: World | None, held_out: list[Task], step: int
) -> dict[str, Any] | None:
    """Unguided answers to the held-out tasks: gold where the world knows it, reward under the first rubric."""
    if not held_out:
        return None
    from rl_core.adapters.isolation import eval_mode, preserved_rng

    n = 2
    with preserved_rng(), eval_mode(trainer.model):
        drawn = trainer.frozen_policy().generate([t.prompt for t in held_out], n=n, seed=step)
    gold: dict[str, list[float]] = {}
    rewards: list[float] = []
    for task, row in zip(held_out, drawn, strict=True):
        texts = [c.text for c in row]
        rewards += [s.reward for s in harness.score([task], [texts], version=0)[0] if s.reward is not None]
        if world is not None:
            gold.setdefault(task.domain, []).extend(world.gold(task.id, x) for x in texts)
    by_domain = {d: sum(v) / len(v) for d, v in gold.items()}
    counts = harness.counts()
    return {
        "kind": "eval",
        "step": step,
        "gold": sum(by_domain.values()) / len(by_domain) if by_domain else None,
        "gold_by_domain": by_domain,
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "rollouts": counts["train_rollouts"] + counts["probe_rollouts"],
    }


def _rows(folder: RunFolder, kind: str) -> list[dict[str, Any]]:
    from rl_core.run_folder import read_jsonl

    return [r for r in read_jsonl(folder.metrics) if r.get("kind") == kind]


def last_row(path: Path, kind: str) -> dict[str, Any]:
    """The last whole row of a kind near the end of a metrics file that another process may be writing."""
    try:
        with path.open("rb") as f:
            f.seek(max(path.stat().st_size - 8192, 0))
            lines = f.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.get("kind") == kind:
            return row
    return {}


def _last_update_lines(folder: RunFolder, update: int) -> list[str]:
    from rl_core.ledger import Ledger

    failed = next((r["error"] for r in _rows(folder, "update") if r["update"] == update and r.get("error")), None)
    if failed:
        return [f"update {update} failed, nothing changed: {_short(failed)}"]
    entries = [e for e in Ledger(folder.ledger).entries if e.update == update]
    if not entries:
        return [f"update {update}: nothing to change"]
    return [f"update {update}: {e.status:<12} {_short(e.description)}" for e in entries]


def _short(text: str, limit: int = 110) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _last_checkpoint(folder: RunFolder) -> Path | None:
    """The newest checkpoint that holds trainer and harness state (a kill can leave half a one)."""
    from rl_core.adapters.trl_callback import HARNESS_FILE

    found = [
        p
        for p in folder.checkpoints.glob("checkpoint-*")
        if p.name.rpartition("-")[2].isdigit()
        and all(_is_json(p / name) for name in ("trainer_state.json", HARNESS_FILE))
    ]
    return max(found, key=lambda p: int(p.name.rpartition("-")[2]), default=None)


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _summary(config: HarnessConfig, harness: Any, folder: RunFolder, step: int, seconds: float) -> dict[str, Any]:
    counts = harness.counts()
    total = counts["train_rollouts"] + counts["probe_rollouts"]
    evals = _rows(folder, "eval")
    first, last = (evals[0], evals[-1]) if evals else ({}, {})
    notes = []
    if config.updates.enabled and config.reference.model == "none":
        notes.append(
            "No reference: every accepted edit shows signal, not validity; criteria are not added or rewritten."
        )
    return {
        "command": " ".join(["harness-agents", *sys.argv[1:]]),
        "seed": config.seed,
        "steps": step,
        "rollouts": total,
        "probe_rollouts": counts["probe_rollouts"],
        "labels": counts["labels"],
        "reference_calls": counts["reference_calls"],
        "label_share": counts["labels"] / total if total else 0.0,
        "probe_share": counts["probe_rollouts"] / total if total else 0.0,
        "gold_first": first.get("gold"),
        "gold_last": last.get("gold"),
        "gold_by_domain": last.get("gold_by_domain") or {},
        "reward_first": first.get("reward"),
        "reward_last": last.get("reward"),
        "state_version": counts["state_version"],
        "updates": counts["updates"],
        "seconds": round(seconds, 1),
        "notes": notes,
        "versions": _versions(),
        "config": config.model_dump(mode="json"),
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    out = {"python": sys.version.split()[0]}
    for name in (
        "harness-agents",
        "torch",
        "transformers",
        "trl",
        "langgraph",
        "langchain-core",
        "litellm",
        "chromadb",
        "tenacity",
    ):
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out
