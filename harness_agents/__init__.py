"""harness-agents: co-evolve sampler, guidance and rubrics of an RL run with the policy.

Importing the package loads nothing heavy; each name below is fetched on first use.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness_agents.config import HarnessConfig, load_config
    from harness_agents.harness import Harness
    from rl_core.adapters.trl import attach
    from rl_core.errors import InputError
    from rl_core.policy import CallablePolicy, Capabilities, FrozenPolicy
    from rl_core.reference import Reference
    from rl_core.rollout import Rollout
    from rl_core.rubric import Criterion, Rubric
    from rl_core.state import HarnessState
    from rl_core.task import Task, TaskSet

_WHERE = {
    "CallablePolicy": "rl_core.policy",
    "Capabilities": "rl_core.policy",
    "Criterion": "rl_core.rubric",
    "FrozenPolicy": "rl_core.policy",
    "Harness": "harness_agents.harness",
    "HarnessConfig": "harness_agents.config",
    "HarnessState": "rl_core.state",
    "InputError": "rl_core.errors",
    "Reference": "rl_core.reference",
    "Rollout": "rl_core.rollout",
    "Rubric": "rl_core.rubric",
    "Task": "rl_core.task",
    "TaskSet": "rl_core.task",
    "attach": "rl_core.adapters.trl",
    "load_config": "harness_agents.config",
}

__all__ = [
    "CallablePolicy",
    "Capabilities",
    "Criterion",
    "FrozenPolicy",
    "Harness",
    "HarnessConfig",
    "HarnessState",
    "InputError",
    "Reference",
    "Rollout",
    "Rubric",
    "Task",
    "TaskSet",
    "attach",
    "load_config",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _refuse_shadowed_memory() -> None:
    """``memory`` is a common name: say which file is in the way instead of failing somewhere later."""
    ours = Path(__file__).resolve().parent.parent / "memory" / "__init__.py"
    try:
        spec = importlib.util.find_spec("memory")
    except ValueError:
        spec = None
    found = spec.origin if spec and spec.origin else None
    if ours.is_file() and (found is None or Path(found).resolve() != ours):
        raise ImportError(
            f"another module named 'memory' ({found or 'a folder without __init__.py'}) hides that of harness-agents; "
            "rename it, or start Python with -P so that the current folder is not searched"
        )


_refuse_shadowed_memory()
