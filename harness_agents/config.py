"""HarnessConfig: one YAML file, every key documented; a wrong key or type is one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from rl_core.errors import InputError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_bool_as_number(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("true or false is not a value of this key")
        return value


class TasksConfig(_Section):
    """Where the training tasks come from."""

    source: str = Field("microworld", description="microworld | ifeval:PATH | jsonl:PATH (our Task rows)")
    limit: int | None = Field(None, ge=1, description="use at most this many tasks")
    held_out: float = Field(0.0, ge=0.0, lt=1.0, description="share of tasks kept for evaluation only")
    max_answer_words: int | None = Field(None, ge=1, description="ifeval: only rows whose answer fits this length")
    world_seed: int | None = Field(None, description="microworld: seed of the world; default: seed of the run")


class PolicyConfig(_Section):
    """The language model that is trained."""

    model: str = Field("microworld", description="microworld | smollm | a transformers model folder")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="precision of the weights in training")
    train_layers: int | None = Field(None, ge=1, description="train only the last N layers (null: all)")


class TrainConfig(_Section):
    """GRPO through TRL."""

    steps: int = Field(200, ge=1, description="optimiser steps")
    groups_per_step: int = Field(16, ge=1, description="tasks drawn for each step")
    group_size: int = Field(8, ge=2, description="rollouts of each task: the G of GRPO")
    max_tokens: int = Field(14, ge=1, description="longest completion, in tokens")
    temperature: float = Field(1.0, gt=0, description="sampling temperature of the rollouts")
    learning_rate: float = Field(1e-3, gt=0, description="learning rate of AdamW")
    beta: float = Field(0.0, ge=0, description="KL weight")
    eval_every: int = Field(20, ge=1, description="steps between evaluations (never guided)")
    rows_per_pass: int | None = Field(
        None, ge=1, description="rollouts in one forward pass of the loss, less memory; default: all of a step's"
    )

    @model_validator(mode="after")
    def _whole_passes(self) -> TrainConfig:
        rows = self.groups_per_step * self.group_size
        if self.rows_per_pass is not None and rows % self.rows_per_pass:
            raise ValueError(f"rows_per_pass ({self.rows_per_pass}) does not divide the {rows} rollouts of a step")
        return self


class AgentConfig(_Section):
    """One agent: the rule-based twin, or a chat model."""

    model: str = Field("rules", description="rules | a litellm model id such as openai/gpt-4o-mini")
    temperature: float = Field(0.2, ge=0, description="sampling temperature of the chat model")
    max_tokens: int = Field(2000, ge=16, description="longest answer of one call, in tokens")
    timeout: float = Field(60.0, gt=0, description="seconds per call")
    api_base: str | None = Field(None, description="address of your own OpenAI-compatible server")


class ReferenceConfig(_Section):
    """Trusted values; model 'none' switches to no-reference mode."""

    model: str = Field("none", description="none | world (microworld) | a litellm model id")
    api_base: str | None = Field(None, description="address of your own OpenAI-compatible server")
    timeout: float = Field(60.0, gt=0, description="seconds per call")
    label_budget: float = Field(0.05, ge=0, le=1, description="labels at most this share of all rollouts")
    first_groups: int = Field(64, ge=0, description="groups labelled at the first update")
    trickle_groups: int = Field(6, ge=0, description="groups labelled at each later update")


class GateConfig(_Section):
    """When an edit is accepted (rl_core.gate)."""

    mode: Literal["per_edit", "run_wise"] = Field(
        "per_edit", description="run_wise bounds the wrong acceptances of the whole run (e-LOND)"
    )
    form: Literal["self_normalised", "betting"] = Field(
        "self_normalised", description="betting is valid for every bounded null and needs about three times the pairs"
    )
    alpha: float = Field(0.05, gt=0, lt=1, description="per edit (per_edit) or for the whole run (run_wise)")
    planned_tests: int = Field(16, ge=1, description="run_wise: tests planned for the run (T)")
    margin: float = Field(0.0, ge=0, description="delta0: smallest lift worth having")
    min_pairs: int = Field(24, ge=1, description="self_normalised: no edit is accepted on fewer pairs")
    max_pairs: int = Field(60, ge=1, description="pairs that one test may use in one update")
    max_rollouts_per_update: int = Field(1500, ge=0, description="probes of one update, all edits together")
    max_age_steps: int = Field(120, ge=1, description="reference groups older than this many steps retire")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_pairs > self.max_pairs:
            raise ValueError(f"min_pairs ({self.min_pairs}) is above max_pairs ({self.max_pairs})")
        return self


class UpdateConfig(_Section):
    """When harness updates happen and how many edits they may make."""

    enabled: bool = Field(True, description="false: plain GRPO, the harness only measures")
    first_step: int = Field(10, ge=1, description="step of the first update")
    every: int = Field(25, ge=1, description="steps between updates after the first")
    max_edits: int = Field(3, ge=1, description="edits accepted in one update, at most")
    max_tests: int = Field(5, ge=1, description="edits tested in one update, at most")


class GuidanceConfig(_Section):
    """How hints are given and how the loss treats them."""

    template: str = Field("hints/plain.j2", description="prompt template that places a hint")
    ratio_cap: float = Field(1.0, gt=0, description="cap of the length-normalised importance ratio")
    ratio_floor: float = Field(0.0, ge=0, description="floor of that ratio")
    importance: Literal["truncated", "none"] = Field("truncated", description="'none' keeps RuscaRL's bias")
    baseline: Literal["shared", "separate"] = Field(
        "shared", description="do guided and plain rollouts of a group share the mean that is subtracted?"
    )
    drop_at: float = Field(0.6, gt=0, le=1, description="dose reaches 0 at this unguided reward")
    min_logprob: float = Field(-4.0, description="guard: mean unguided log-prob of hinted successes, nats per token")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.ratio_floor > self.ratio_cap:
            raise ValueError(f"ratio_floor ({self.ratio_floor:g}) is above ratio_cap ({self.ratio_cap:g})")
        return self


class MemoryConfig(_Section):
    """What the agents remember: failures, edits, and what came of them (Chroma)."""

    path: str | None = Field(None, description="folder of the store; default RUN/memory")
    embedding: Literal["auto", "minilm", "hashing"] = Field("auto", description="auto: minilm if installed")
    recall_recent: int = Field(3, ge=0, description="newest records handed to the agents")
    recall_near: int = Field(3, ge=0, description="records nearest in meaning handed to the agents")


class HarnessConfig(_Section):
    """The whole file."""

    seed: int = Field(0, ge=0, lt=2**32, description="same seed, same edits and same final state on one machine")
    tasks: TasksConfig = TasksConfig()
    policy: PolicyConfig = PolicyConfig()
    train: TrainConfig = TrainConfig()
    updates: UpdateConfig = UpdateConfig()
    evolver: AgentConfig = Field(
        AgentConfig(), description="reads the report and says which interface each failure calls for"
    )
    proposer: AgentConfig = Field(AgentConfig(), description="writes the edits")
    critic: AgentConfig = Field(
        AgentConfig(), description="reads an edit before it is tested and may veto it; what is accepted is measured"
    )
    reference: ReferenceConfig = ReferenceConfig()
    gate: GateConfig = GateConfig()
    guidance: GuidanceConfig = GuidanceConfig()
    memory: MemoryConfig = MemoryConfig()
    approval: Literal["auto", "human"] = Field(
        "auto", description="human: every accepted edit waits for a yes (LangGraph interrupt)"
    )
    strict: bool = Field(False, description="stop training when a harness update fails")
    prompts: str | None = Field(None, description="folder of your own templates, searched first")


class _NoDuplicates(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; a section written twice would be half lost."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be a word", problem_mark=key.start_mark)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"duplicate key {name!r}", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def load_config(path: str | Path) -> HarnessConfig:
    """Read and check a YAML file. Raises InputError naming file, key and mend."""
    p = Path(path)
    try:
        data = yaml.load(p.read_text(encoding="utf-8"), Loader=_NoDuplicates)
    except FileNotFoundError:
        raise InputError("no such file", where=str(p), mend="'harness-agents init' writes one") from None
    except (OSError, UnicodeDecodeError) as e:
        raise InputError(f"cannot be read ({e.__class__.__name__})", where=str(p), mend="check the path") from None
    except yaml.YAMLError as e:
        mark, problem = getattr(e, "problem_mark", None), getattr(e, "problem", None)
        line = f", line {mark.line + 1}" if mark else ""
        detail = f" ({problem})" if problem else ""
        raise InputError(f"not valid YAML{detail}", where=f"{p}{line}", mend="mend that line") from None
    return parse_config(data, where=str(p))


def parse_config(data: Any, *, where: str = "config") -> HarnessConfig:
    """Check plain data. Raises InputError naming the first wrong key."""
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise InputError("must be a mapping of sections", where=where, mend="see 'harness-agents init'")
    try:
        return HarnessConfig.model_validate(data)
    except ValidationError as e:
        err = e.errors(include_url=False)[0]
        field = ".".join(str(x) for x in err["loc"])
        if err["type"] == "extra_forbidden":
            raise InputError("unknown key", where=where, field=field, mend=_closest(err["loc"])) from None
        problem = err["msg"].removeprefix("Value error, ")
        if not isinstance(err["input"], dict):
            # Plain data only: a long or many-line value must not break the one line.
            problem += f" (got {str(err['input'])[:60]!r})"
        raise InputError(problem, where=where, field=field or None, mend="correct the value") from None


def _closest(loc: tuple[int | str, ...]) -> str:
    import difflib

    model: type[BaseModel] = HarnessConfig
    for part in loc[:-1]:
        annotation = model.model_fields[str(part)].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            model = annotation
    names = list(model.model_fields)
    near = difflib.get_close_matches(str(loc[-1]), names, n=1)
    return f"did you mean {near[0]!r}?" if near else "known keys: " + ", ".join(names)
