"""Harness: what a training loop holds. Draw, guide, score, observe; checkpoint when due; resume anywhere."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from harness_agents.assembly import (
    build_agents,
    build_reference,
    build_scorer,
    config_of,
    default_world,
    open_memory,
)
from harness_agents.doses import DoseBook
from harness_agents.graph import build_graph, recursion_limit
from harness_agents.masking import mask_secrets
from harness_agents.metrics import append_once, forget_later, step_row
from harness_agents.outcome import Outcome, UpdateRecords
from harness_agents.services import Services, UpdateRun
from harness_agents.templates import Templates, hint_renderer
from memory import FailureEpisode, FailureMemory
from rl_core.bank import ReferenceBank
from rl_core.errors import InputError
from rl_core.guidance import GuidedPrompt, Renderer, guide
from rl_core.judge.checks import Judge, Scorer
from rl_core.ledger import Ledger
from rl_core.policy import Capabilities, FrozenPolicy
from rl_core.reference import Reference
from rl_core.rollout import Rollout
from rl_core.rollout_log import RolloutLog
from rl_core.rubric import Criterion, group_rewards
from rl_core.run_folder import RunFolder, append_line, read_jsonl, write_atomic
from rl_core.sampler import draw
from rl_core.state import HarnessState
from rl_core.task import Task, TaskSet
from rl_core.verdict import Verdict

if TYPE_CHECKING:
    from harness_agents.config import HarnessConfig

_LOG = logging.getLogger(__name__)

FORMAT = 1


class Scored(NamedTuple):
    """Reward of one rollout (None: withheld, see ``group_rewards``) and the verdicts behind it."""

    reward: float | None
    verdicts: dict[str, Verdict]


class Harness:
    """The three interfaces at work in a loop, and the slow path that improves them.

    Build it with :meth:`from_config`. ``draw``, ``guide`` and ``score`` are pure functions of
    (seed, step, state) and need no network but that of the judge. ``checkpoint`` never raises.
    """

    def __init__(self, services: Services, *, persistent: bool, nodes: Mapping[str, Callable[..., Any]] | None) -> None:
        self._services, self._persistent = services, persistent
        self._folder, self._config = services.folder, services.config
        self._log = RolloutLog(self._folder.rollouts)
        self._records = UpdateRecords(self._folder.checkpoints / "updates")
        self._domains = {t.id: t.domain for t in services.tasks}
        self._states: dict[int, HarnessState] = {}
        self._state = HarnessState()
        self._next_version = 1
        self._adopt(self._state)
        self._update = 0
        self._last_update_step = -1
        self._counts = {"train_rollouts": 0, "probe_rollouts": 0, "labels": 0, "reference_calls": 0}
        self._doses = DoseBook(services.tasks, self._config.guidance.drop_at)
        self._carried: dict[str, dict[str, Any]] = {}
        self._window: list[Rollout] = []
        self._window_from = 0
        self._last_rollout_step = -1
        self._open_step: list[Rollout] = []
        self._pending: Outcome | None = None
        self._begun = False
        self._may_replay = False
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._connection: Any = None
        self._graph = self._compile(nodes)

    @classmethod
    def from_config(
        cls,
        path_or_config: str | Path | HarnessConfig | Mapping[str, Any],
        *,
        tasks: TaskSet | None = None,
        judge: Judge | Scorer | None = None,
        reference: Reference | None = None,
        run_dir: Path | str | None = None,
        capabilities: Capabilities = Capabilities(),  # noqa: B008  frozen, no state is shared
        catalogue: Sequence[Criterion] = (),
        evolver: Any = None,
        proposer: Any = None,
        critic: Any = None,
        render: Renderer | None = None,
        nodes: Mapping[str, Callable[..., Any]] | None = None,
        planned_rollouts: int = 0,
        resume: bool | None = None,
    ) -> Self:
        """A harness from a YAML file, a config, or plain data.

        ``tasks``: None takes them from ``tasks.source``. ``judge``: reads judge-routed criteria; a
        whole Scorer is taken as it is. ``reference``: None follows ``reference.model``.
        ``run_dir``: None leaves nothing behind. ``evolver``, ``proposer``, ``critic``: an agent or any
        LangChain chat model; None follows the config. ``nodes``: replacements in the graph.
        ``planned_rollouts``: rollouts to come, from which the label budget may borrow (see :meth:`plan`).
        ``resume``: True starts a folder that holds logged steps over from its first step, replaying its
        recorded updates; without it such a folder needs ``load_state_dict`` before the first rollouts.
        Raises InputError on anything a user can mend.
        """
        config = config_of(path_or_config)
        if tasks is None:
            world = default_world(config)
            tasks = world.tasks
            judge, reference = judge or world.judge, reference or world.reference
            catalogue, render = catalogue or world.catalogue, render or world.render
        templates = Templates(config.prompts)
        scorer = build_scorer(judge, tasks)
        reference = build_reference(config.reference, templates, given=reference)
        agents = build_agents(config, templates, evolver=evolver, proposer=proposer, critic=critic)
        temporary = None
        if run_dir is None:
            temporary = tempfile.TemporaryDirectory(prefix="harness-run-")
            folder = RunFolder.create(temporary.name)
        else:
            folder = _open_folder(Path(run_dir), config)
        run_name = _run_name(folder, config, tasks)
        memory = open_memory(config.memory, folder, run_name, persistent=run_dir is not None)
        try:
            services = Services(
                config=config,
                tasks=tasks,
                scorer=scorer,
                bank=ReferenceBank(folder.bank, tasks=tasks, max_age_steps=config.gate.max_age_steps),
                ledger=Ledger(folder.ledger),
                folder=folder,
                evolver=agents[0],
                proposer=agents[1],
                critic=agents[2],
                render=render or hint_renderer(templates, config.guidance.template),
                capabilities=capabilities,
                reference=reference,
                memory=memory,
                run_name=run_name,
                catalogue=tuple(catalogue),
                planned_rollouts=planned_rollouts,
            )
            harness = cls(services, persistent=run_dir is not None, nodes=nodes)
        except BaseException:
            memory.close()
            raise
        harness._temporary, harness._may_replay = temporary, bool(resume)
        return harness

    # ---- what a loop reads

    @property
    def state(self) -> HarnessState:
        """The state in force, immutable."""
        return self._state

    @property
    def config(self) -> HarnessConfig:
        return self._config

    @property
    def tasks(self) -> TaskSet:
        return self._services.tasks

    @property
    def run_dir(self) -> Path:
        """The run folder; a temporary one when none was asked for."""
        return self._folder.path

    @property
    def memory(self) -> FailureMemory | None:
        return self._services.memory

    def counts(self) -> dict[str, int]:
        """Rollouts, labels and calls so far, number of updates, version of the state in force."""
        return {**self._counts, "updates": self._update, "state_version": self._state.version}

    def plan(self, rollouts: int) -> None:
        """How many training rollouts the whole run will have: the label budget may borrow from them."""
        self._services.planned_rollouts = rollouts

    # ---- fast path

    def draw(self, n: int, step: int) -> list[Task]:
        """``n`` tasks for the generation batch of ``step``, by the sampler's weights."""
        return draw(self._state, self.tasks, n, seed=self._config.seed, counter=step)

    def guide(self, tasks: Sequence[Task], group_size: int, step: int) -> list[list[GuidedPrompt]]:
        """Prompts ``[task][rollout]``: what to generate with, what to train on, and the hint's id."""
        doses = self._doses.doses(self._state)
        return guide(self._state, tasks, group_size, doses=doses, render=self._services.render)

    def score(
        self, tasks: Sequence[Task], completions: Sequence[Sequence[str]], version: int | None = None
    ) -> list[list[Scored]]:
        """Reward and verdicts ``[task][rollout]`` under a state version (None: the one in force).

        Each row of completions is one group: gaps are handled group by group. Raises InputError
        for a version that this run does not have, and for text in place of a list of completions.
        """
        if isinstance(completions, str) or any(isinstance(row, str) for row in completions):
            raise InputError(
                "text where a list of completions is expected",
                where="Harness.score",
                field="completions",
                mend="pass one list of texts for each task",
            )
        state = self._state if version is None else self._state_of(version)
        out: list[list[Scored]] = []
        for task, texts in zip(tasks, completions, strict=True):
            rubric = state.rubric_for(task)
            verdicts = self._services.scorer.verdicts(task, texts, rubric)
            rewards = group_rewards(rubric, verdicts)
            out.append([Scored(r, v) for r, v in zip(rewards, verdicts, strict=True)])
        return out

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        """Append to the rollout log, the window of the next update, and the doses; evaluation is only logged.

        Raises InputError, before anything is written, in a folder with logged steps that nobody said to go on with.
        """
        if not rollouts:
            return
        self._begin()
        self._log.append(rollouts, self._domains)
        train = [r for r in rollouts if r.phase in ("train", "control")]
        if not train:
            return
        if self._open_step and train[0].step != self._open_step[0].step:
            self._close_step()
        self._open_step += train
        self._window += train
        self._last_rollout_step = max(self._last_rollout_step, max(r.step for r in train))
        self._counts["train_rollouts"] += len(train)
        self._doses.observe(train, self._state)

    def due(self, step: int) -> bool:
        """Whether a harness update belongs at the end of ``step`` and has not been made."""
        u = self._config.updates
        on_schedule = step >= u.first_step and (step - u.first_step) % u.every == 0
        return u.enabled and on_schedule and step > self._last_update_step

    def flush(self) -> None:
        """Everything observed so far onto disk."""
        self._close_step()
        self._log.flush()

    # ---- slow path

    def checkpoint(self, step: int, policy: FrozenPolicy) -> Outcome:
        """One harness update on the frozen policy. Never raises: a failure leaves the state as it was.

        After a resume a completed update is taken from its record, and one that was cut short goes
        on where it stopped.
        """
        started = time.monotonic()
        outcome = Outcome(self._update + 1, step, self._state.version, self._state.version)
        try:
            self._refuse_unasked()
        except InputError as e:  # nothing may be written into that folder, not even the failure
            outcome.error = f"{type(e).__name__}: {e}"[:300]
            return outcome
        try:
            if self._pending is not None:
                silence = {"approved": False, "by": "harness", "reason": "no answer before the next update"}
                self._decide(silence, started)
            self._begin()
            self.flush()
            number = self._update + 1
            replayed = self._records.replay(number, step=step, base_version=self._state.version)
            if replayed is not None:
                outcome = replayed
                append_once(self._folder.metrics, outcome.metrics_row(), key=("kind", "update"))
            else:
                self._services.run = self._new_run(number, step, policy)
                outcome = self._invoke(number, step, started)
        except Exception as e:
            _LOG.exception("harness update %d at step %d failed", self._update + 1, step)
            outcome = self._failed(e, self._update + 1, step, started)
        finally:
            self._services.run = None
        try:
            self._finish(outcome)
        except Exception as e:  # not even a broken record may stop training
            _LOG.exception("harness update %d: its outcome could not be taken over", outcome.update)
            outcome.error = outcome.error or f"{type(e).__name__}: {e}"[:300]
            outcome.state_version = self._state.version
            self._update, self._last_update_step = outcome.update, step
        _LOG.info("%s", outcome.summary())
        return outcome

    def resume_approval(self, answer: bool | Mapping[str, Any]) -> Outcome:
        """Answer the update that waits for a human; accepted edits are in force when this returns.

        Raises InputError when nothing waits or the answer is none.
        """
        if self._pending is None:
            raise InputError("no update waits for approval", field="answer", mend="call it after a pending outcome")
        from harness_agents.approval import read_answer

        return self._decide(read_answer(answer), time.monotonic())

    def rollback(self, version: int, *, step: int, reason: str) -> HarnessState:
        """Put an earlier state back in force, as a new version; the undone edits go into ledger and memory.

        Raises InputError for a version that this run does not have. What the policy learned meanwhile stays learned.
        """
        old = self._state_of(version)
        undone: list[Any] = []
        at: HarnessState | None = self._state
        lineage: set[int] = set()
        while at is not None and at.version != version:
            lineage.add(at.version)
            at = self._state_of(at.parent) if at.parent is not None else None
        for e in self._services.ledger.entries:
            if e.status == "accepted" and e.state_version in lineage:
                undone.append(e)
        new = old.model_copy(
            update={
                "version": self._next_version,
                "parent": self._state.version,
                "effective_from_step": step,
            }
        )
        write_atomic(self._folder.state_file(new.version), new.to_json())
        for e in undone:
            self._services.ledger.append(
                {
                    "update": self._update,
                    "step": step,
                    "interface": e.interface,
                    "edit": e.edit,
                    "reason": reason,
                    "status": "rolled_back",
                    "state_version": new.version,
                    "description": e.description,
                    "failure": e.failure,
                    "prediction": e.prediction,
                }
            )
        self._remember_rollback(undone, step, reason)
        self._adopt(new)
        self._doses.keep_only(new)
        return new

    # ---- state that travels in the loop's checkpoint

    def state_dict(self) -> dict[str, Any]:
        """JSON-shaped. Everything observed is on disk when this returns."""
        self.flush()
        return {
            "format": FORMAT,
            "update": self._update,
            "last_update_step": self._last_update_step,
            "last_rollout_step": self._last_rollout_step,
            "window_from": self._window_from,
            "state": self._state.model_dump(mode="json"),
            "next_version": self._next_version,
            "counts": dict(self._counts),
            "doses": self._doses.state_dict(),
            "carried": self._carried,
            "pending": None if self._pending is None else {"update": self._pending.update, "step": self._pending.step},
        }

    def load_state_dict(self, d: Mapping[str, Any]) -> None:
        """Go back to where ``state_dict`` was taken. Later updates stay recorded and are replayed when reached.

        Raises InputError when the data is not such a dict.
        """
        try:
            if d["format"] != FORMAT:
                raise InputError(
                    f"format {d['format']!r}, not {FORMAT}",
                    where="harness state",
                    field="format",
                    mend="resume with the version that wrote it",
                )
            state = HarnessState.model_validate(d["state"])
            counts = {k: int(d["counts"][k]) for k in self._counts}
            numbers = {
                k: int(d[k]) for k in ("update", "last_update_step", "last_rollout_step", "window_from", "next_version")
            }
        except (KeyError, TypeError, ValueError) as e:
            if isinstance(e, InputError):
                raise
            raise InputError(
                f"not a harness state ({type(e).__name__}: {e})"[:200],
                where="harness state",
                mend="resume from another checkpoint",
            ) from None
        self._counts = counts
        self._update, self._last_update_step = numbers["update"], numbers["last_update_step"]
        self._last_rollout_step, self._window_from = numbers["last_rollout_step"], numbers["window_from"]
        self._adopt(state)
        self._next_version = numbers["next_version"]
        self._doses.load_state_dict(d.get("doses", {}))
        self._carried = {k: dict(v) for k, v in d.get("carried", {}).items()}
        self._begun, self._may_replay = False, True
        self._open_step = []
        self._window = self._log.read(
            min_step=self._window_from, max_step=self._last_rollout_step, phases=("train", "control")
        )
        pending = d.get("pending")
        self._pending = Outcome(pending["update"], pending["step"], state.version, state.version) if pending else None

    def close(self) -> None:
        """Write what is buffered and release the memory's lock and the checkpoint database; safe to call twice."""
        with contextlib.suppress(InputError):
            self.flush()
        if self._services.memory is not None:
            self._services.memory.close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside: one update

    def _compile(self, nodes: Mapping[str, Callable[..., Any]] | None) -> Any:
        graph = build_graph(self._services, nodes=nodes)
        if not self._persistent:
            from langgraph.checkpoint.memory import InMemorySaver

            return graph.compile(checkpointer=InMemorySaver())
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        path = self._folder.checkpoints / "graph.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True)
        # nodes may run in the graph's own threads; the saver holds a lock around each use
        self._connection = sqlite3.connect(str(path), check_same_thread=False)
        return graph.compile(checkpointer=SqliteSaver(self._connection))

    def _thread(self, update: int) -> dict[str, Any]:
        return {"configurable": {"thread_id": f"update-{update}"}, "recursion_limit": recursion_limit(self._services)}

    def _new_run(self, update: int, step: int, policy: FrozenPolicy | None) -> UpdateRun:
        return UpdateRun(
            update=update,
            step=step,
            state=self._state,
            policy=policy,
            rollouts=self._window,
            doses=self._doses.doses(self._state),
            idle_hints=self._doses.idle(self._state, self._config.train.group_size),
            next_version=self._next_version,
            previous=self._records.read(update - 1),
            carried=self._carried,
            train_rollouts=self._counts["train_rollouts"],
            probe_rollouts=self._counts["probe_rollouts"],
            labels=self._counts["labels"],
        )

    def _invoke(self, update: int, step: int, started: float) -> Outcome:
        """Run the graph; a thread that was cut short goes on, one that finished is only read."""
        config = self._thread(update)
        found = self._graph.get_state(config)
        same = (found.values.get("update"), found.values.get("step"), found.values.get("base_version")) == (
            update,
            step,
            self._state.version,
        )
        if found.values and not same and found.values.get("base_version") is not None:
            self._graph.checkpointer.delete_thread(f"update-{update}")  # another history had this number
            found = self._graph.get_state(config)
        if found.values and not found.next:
            result: dict[str, Any] = found.values
        else:
            start = None if found.values or found.next else {"update": update, "step": step}
            result = self._graph.invoke(start, config, durability="sync")
        return self._outcome(result, update, step, started)

    def _outcome(self, result: Mapping[str, Any], update: int, step: int, started: float) -> Outcome:
        values = {**self._graph.get_state(self._thread(update)).values, **result}
        new = values.get("new_state")
        cost = values.get("cost") or {}
        waiting = values.get("__interrupt__") or ()
        return Outcome(
            update=update,
            step=step,
            base_version=self._state.version,
            state_version=new["version"] if new else self._state.version,
            healthy=bool(values.get("healthy")),
            decisions=[{k: v for k, v in d.items() if k != "why"} for d in values.get("decisions") or ()],
            probe_rollouts=int(cost.get("rollouts", 0)),
            labels=int(cost.get("labels", 0)),
            reference_calls=int(cost.get("reference_calls", 0)),
            seconds=time.monotonic() - started,
            pending=dict(waiting[0].value) if waiting else None,
            agents=dict(values.get("agents") or {}),
            notes=list(values.get("notes") or ()),
            report=values.get("report"),
            carried=dict(values.get("carried") or {}),
        )

    def _failed(self, error: Exception, update: int, step: int, started: float) -> Outcome:
        """What was spent before the failure still counts."""
        cost: dict[str, int] = {}
        with contextlib.suppress(Exception):
            cost = dict(self._graph.get_state(self._thread(update)).values.get("cost") or {})
        live = self._services.run.live if self._services.run is not None else None
        outcome = Outcome(
            update,
            step,
            self._state.version,
            self._state.version,
            error=" ".join(mask_secrets(f"{type(error).__name__}: {error}").split())[:300],
            seconds=time.monotonic() - started,
            probe_rollouts=int(cost.get("rollouts", 0)) + (live.rollouts if live else 0),
            labels=int(cost.get("labels", 0)) + (live.labels if live else 0),
            reference_calls=int(cost.get("reference_calls", 0)) + (live.reference_calls if live else 0),
            carried=self._carried,
        )
        if self._services.memory is not None:
            with contextlib.suppress(Exception):
                self._services.memory.remember(
                    [
                        FailureEpisode(
                            run=self._services.run_name,
                            step=step,
                            update=update,
                            outcome="update-failed",
                            key="update",
                            text=f"The harness update itself failed: {outcome.error}",
                        )
                    ]
                )
        return outcome

    def _finish(self, outcome: Outcome) -> None:
        """Record first, then take over: a kill in between replays the record."""
        if not outcome.replayed and outcome.pending is None:
            append_once(self._folder.metrics, outcome.metrics_row(), key=("kind", "update"))
            self._records.write(outcome)
        self._take_counts(outcome)
        self._update, self._last_update_step = outcome.update, outcome.step
        self._carried = outcome.carried
        self._window, self._window_from = [], self._last_rollout_step + 1
        if outcome.pending is not None:
            self._pending = outcome
        elif outcome.state_version != self._state.version:
            self._adopt(self._state_of(outcome.state_version))
            self._doses.keep_only(self._state)

    def _take_counts(self, outcome: Outcome) -> None:
        self._counts["probe_rollouts"] += outcome.probe_rollouts
        self._counts["labels"] += outcome.labels
        self._counts["reference_calls"] += outcome.reference_calls

    def _decide(self, answer: dict[str, Any], started: float) -> Outcome:
        """Let the waiting update go on with an answer; its costs were counted when it stopped."""
        from langgraph.types import Command

        waiting = self._pending
        assert waiting is not None
        self._services.run = self._new_run(waiting.update, waiting.step, None)
        self._services.run.previous = self._records.read(waiting.update - 1)
        try:
            result = self._graph.invoke(Command(resume=answer), self._thread(waiting.update), durability="sync")
            outcome = self._outcome(result, waiting.update, waiting.step, started)
        finally:
            self._services.run = None
        append_once(self._folder.metrics, outcome.metrics_row(), key=("kind", "update"))
        self._records.write(outcome)
        self._pending = None
        if outcome.state_version != self._state.version:
            self._adopt(self._state_of(outcome.state_version))
            self._doses.keep_only(self._state)
        return outcome

    # ---- inside: states, steps, memory

    def _adopt(self, state: HarnessState) -> None:
        path = self._folder.state_file(state.version)
        if not path.exists():
            write_atomic(path, state.to_json())
        self._states[state.version] = state
        self._next_version = max(self._next_version, state.version + 1)
        self._state = state

    def _state_of(self, version: int) -> HarnessState:
        if version not in self._states:
            path = self._folder.state_file(version)
            if not path.exists():
                raise InputError(
                    f"no state version {version}",
                    where=str(self._folder.states),
                    field="version",
                    mend="name a version of this run",
                )
            self._states[version] = HarnessState.from_json(path.read_text(encoding="utf-8"))
        return self._states[version]

    def _begin(self) -> None:
        """Before the first change: drop rollouts and metrics that lie after the point we go on from.

        Not when a run is opened, so that looking at one changes nothing.
        """
        self._refuse_unasked()
        if not self._begun:
            self._begun = True
            self._log.truncate(self._last_rollout_step)
            forget_later(self._folder.metrics, rollout_step=self._last_rollout_step, update=self._update)

    def _refuse_unasked(self) -> None:
        """A folder with logged steps is gone on with only when somebody said so: the rest of it would be dropped."""
        if self._begun or self._may_replay:
            return
        if any(row.get("kind") == "step" for row in read_jsonl(self._folder.metrics)):
            raise InputError(
                "the folder holds the steps of an earlier run",
                where=str(self._folder.path),
                field="run_dir",
                mend="pass resume=True, call load_state_dict first, or name another run_dir",
            )

    def _close_step(self) -> None:
        """The metrics row of a step once all its rollouts are in."""
        rollouts, self._open_step = self._open_step, []
        if rollouts:
            state = self._states.get(rollouts[0].harness_version, self._state)
            append_line(self._folder.metrics, step_row(rollouts, self.tasks, state, self._counts))

    def _remember_rollback(self, undone: Sequence[Any], step: int, reason: str) -> None:
        from memory import EditOutcome

        memory = self._services.memory
        if memory is None or not undone:
            return
        with contextlib.suppress(Exception):
            memory.remember(
                [
                    EditOutcome(
                        run=self._services.run_name,
                        step=step,
                        update=self._update,
                        interface=e.interface,
                        outcome="rolled_back",
                        key=e.edit.key,
                        text=f"{e.description}. Rolled back: {reason}",
                        data={"reason_class": "rolled_back"},
                    )
                    for e in undone
                ]
            )


def _open_folder(path: Path, config: HarnessConfig) -> RunFolder:
    if RunFolder(path).is_run:
        return RunFolder.open(path)
    from harness_agents.config_template import config_yaml

    return RunFolder.create(path, config_text=config_yaml(config))


def _run_name(folder: RunFolder, config: HarnessConfig, tasks: TaskSet) -> str:
    """A name for memory that stays when the folder moves, and differs between runs that share a memory.

    Raises InputError when the folder was begun with another config or other tasks.
    """
    file = folder.checkpoints / "run.json"
    fingerprint = _fingerprint(config, tasks)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        name = str(found["name"])
    except (OSError, ValueError, KeyError, TypeError):
        digest = hashlib.sha256(str(folder.path.absolute()).encode()).hexdigest()[:6]
        name = f"{folder.path.name or 'run'}-{config.seed}-{digest}"
        write_atomic(file, json.dumps({"name": name, "fingerprint": fingerprint}))
        return name
    if found.get("fingerprint", fingerprint) != fingerprint:  # runs of earlier versions have none
        raise InputError(
            "belongs to another run: its config or its tasks differ",
            where=str(folder.path),
            field="run_dir",
            mend="name another run_dir, or pass the same config and tasks",
        )
    return name


def _fingerprint(config: HarnessConfig, tasks: TaskSet) -> str:
    """What must be the same for a run to go on; it may only become longer or shorter."""
    settings = config.model_dump(mode="json")
    settings["train"].pop("steps", None)
    rubrics = sorted((t.id, t.rubric.model_dump(mode="json")) for t in tasks)
    return hashlib.sha256(json.dumps([settings, rubrics], sort_keys=True).encode()).hexdigest()
