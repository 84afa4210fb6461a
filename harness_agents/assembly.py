"""From a config to the parts of a harness: tasks, scorer, reference, agents, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness_agents.agents.protocols import CriticReader, Evolver, Proposer
from harness_agents.agents.rules import RulesCritic, RulesEvolver, RulesProposer
from harness_agents.config import (
    AgentConfig,
    HarnessConfig,
    MemoryConfig,
    ReferenceConfig,
    load_config,
    parse_config,
)
from harness_agents.templates import Templates, hint_renderer
from memory import FailureMemory, StoreError
from rl_core.errors import InputError
from rl_core.guidance import Renderer
from rl_core.judge.checks import Judge, Scorer
from rl_core.reference import Reference
from rl_core.rubric import Criterion, JudgeRoute
from rl_core.run_folder import RunFolder
from rl_core.task import TaskSet


@dataclass
class DefaultWorld:
    """What a config's ``tasks.source`` brings along."""

    tasks: TaskSet
    judge: Judge | Scorer | None = None
    reference: Reference | None = None
    catalogue: Sequence[Criterion] = ()
    render: Renderer | None = None


def config_of(given: str | Path | HarnessConfig | Mapping[str, Any]) -> HarnessConfig:
    """A checked config from a file, a config or plain data. Raises InputError."""
    if isinstance(given, HarnessConfig):
        return given
    return parse_config(dict(given)) if isinstance(given, Mapping) else load_config(given)


def default_world(config: HarnessConfig) -> DefaultWorld:
    """Tasks of ``tasks.source``; the microworld brings its judge, catalogue and hints, and 'world' its reference."""
    t = config.tasks
    if t.source != "microworld":
        from rl_core.datasets import load_tasks

        return DefaultWorld(load_tasks(t.source, max_answer_words=t.max_answer_words, limit=t.limit))
    from rl_core.microworld.catalogue import CATALOGUE
    from rl_core.microworld.judge import MicroworldReference, MicroworldScorer
    from rl_core.microworld.world import World

    world = World(config.seed if t.world_seed is None else t.world_seed)
    tasks = world.tasks if t.limit is None else TaskSet(list(world.tasks)[: t.limit], source="microworld")
    return DefaultWorld(
        tasks,
        MicroworldScorer(world),
        MicroworldReference(world) if config.reference.model == "world" else None,
        CATALOGUE,
        hint_renderer(Templates(config.prompts), "hints/microworld.j2"),
    )


def build_scorer(judge: Judge | Scorer | None, tasks: TaskSet) -> Scorer:
    """Scorer around a judge. Raises InputError when a rubric needs a judge and there is none,
    or when the judge has no ``verdicts``.
    """
    if isinstance(judge, Scorer):
        return judge
    if judge is not None and not callable(getattr(judge, "verdicts", None)):
        raise InputError(
            f"{type(judge).__name__} has no method 'verdicts'",
            field="judge",
            mend="pass a Scorer, or an object with verdicts(task, completions, criteria)",
        )
    if judge is None:
        for task in tasks:
            for c in task.rubric.criteria:
                if isinstance(c.route, JudgeRoute):
                    raise InputError(
                        "this criterion needs a judge",
                        where=f"task {task.id!r}",
                        field=c.id,
                        mend="pass judge=..., or give the criterion a check",
                    )
    return Scorer(judge)


def build_reference(
    config: ReferenceConfig, templates: Templates, *, given: Reference | None = None
) -> Reference | None:
    """The reference given, else the one that the config names; 'world' comes with the microworld's tasks.

    Raises InputError, also for a given one without ``values``.
    """
    if given is not None:
        if not callable(getattr(given, "values", None)):
            raise InputError(
                f"{type(given).__name__} has no method 'values'",
                field="reference",
                mend="pass an object with values(task, completions)",
            )
        return given
    if config.model == "none":
        return None
    if config.model == "world":
        raise InputError(
            "'world' is the microworld's reference",
            field="reference.model",
            mend="use tasks.source: microworld, pass reference=..., or name a chat model",
        )
    from harness_agents.models import build_chat_model, chat_callable
    from rl_core.judge.llm import LLMReference

    model = build_chat_model(config)
    assert model is not None
    return LLMReference(chat_callable(model), templates.bound("reference.j2"), name=config.model)


def build_agents(
    config: HarnessConfig, templates: Templates, *, evolver: Any, proposer: Any, critic: Any
) -> tuple[Evolver, Proposer, CriticReader]:
    """The three agents: as given, around a given chat model, or as the config says."""
    parts: list[Any] = []
    for given, section, method, twin, name in (
        (evolver, config.evolver, "attribute", RulesEvolver, "evolver"),
        (proposer, config.proposer, "propose", RulesProposer, "proposer"),
        (critic, config.critic, "read", RulesCritic, "critic"),
    ):
        parts.append(_agent(given, section, method, twin(), name, templates))
    return parts[0], parts[1], parts[2]


def _agent(given: Any, section: AgentConfig, method: str, twin: Any, name: str, templates: Templates) -> Any:
    if given is not None and hasattr(given, method):
        return given
    model = given
    if model is None and section.model == "rules":
        return twin
    from langchain_core.language_models import BaseChatModel

    from harness_agents.agents.llm import LLMCritic, LLMEvolver, LLMProposer
    from harness_agents.models import build_chat_model

    if model is None:
        model = build_chat_model(section)
    if not isinstance(model, BaseChatModel):
        raise InputError(
            f"neither an agent (method {method!r}) nor a LangChain chat model",
            field=name,
            mend="pass one of the two, or None",
        )
    made: dict[str, Any] = {"evolver": LLMEvolver, "proposer": LLMProposer, "critic": LLMCritic}
    return made[name](model, templates, twin)


def open_memory(config: MemoryConfig, folder: RunFolder, run: str, *, persistent: bool) -> FailureMemory:
    """The failure memory of a run (in memory when the run leaves nothing). Raises InputError."""
    where: str | Path = config.path or (folder.memory if persistent else ":memory:")
    journal = folder.memory / "records.jsonl" if str(where).startswith(("http://", "https://")) else None
    try:
        return FailureMemory.open(where, embedder=config.embedding, run=run, journal=journal)
    except StoreError as e:
        raise InputError(e.problem, where=e.where, field="memory", mend=e.mend) from None
