"""The eight fixed packages, each at real work in one short real run of the demo's path (nothing is replaced)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("langgraph", "langchain-core", "litellm", "chromadb", "torch", "transformers", "trl", "tenacity")
STEPS, GROUPS, SIZE = 9, 16, 8
FIRST, EVERY = 4, 4
WARM_UP = 200


class Calls:
    """Wraps functions so that their calls are counted and made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.counts: Counter[str] = Counter()

    def count(self, package: str, owner: Any, name: str, when: Callable[..., bool] = lambda *a, **k: True) -> None:
        honest = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            result = honest(*args, **kwargs)
            if when(*args, **kwargs):
                self.counts[package] += 1
            return result

        self._monkeypatch.setattr(owner, name, counted)


def short_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_core.microworld.policy as policy

    whole = policy.warm_up

    def short(world: Any) -> Iterator[dict[str, Any]]:
        return whole(world, steps=WARM_UP)

    monkeypatch.setattr(policy, "warm_up", short)


def test_each_of_the_eight_packages_works_in_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import chromadb
    import tenacity
    import torch
    import transformers
    import trl
    from langchain_core.language_models import BaseChatModel
    from langgraph.pregel import Pregel

    from harness_agents.demo import _served_reference, demo_config
    from harness_agents.models import LiteLLMChatModel, load_litellm
    from harness_agents.train import run_training
    from rl_core.microworld.server import ReferenceServer
    from rl_core.microworld.world import World

    short_warm_up(monkeypatch)
    calls = Calls(monkeypatch)
    calls.count("langgraph", Pregel, "invoke")
    calls.count("langchain-core", BaseChatModel, "invoke", lambda self, *a, **k: isinstance(self, LiteLLMChatModel))
    calls.count("litellm", load_litellm(), "completion")
    calls.count("chromadb upsert", chromadb.Collection, "upsert")
    calls.count("chromadb query", chromadb.Collection, "query")
    calls.count("transformers", transformers.GenerationMixin, "generate")
    calls.count("trl", trl.GRPOTrainer, "_generate_and_score_completions")
    calls.count("tenacity", tenacity.Retrying, "__call__")
    calls.count("torch", torch.Tensor, "backward")

    config = demo_config(0, STEPS)
    config = config.model_copy(
        update={
            "train": config.train.model_copy(update={"groups_per_step": GROUPS, "group_size": SIZE, "eval_every": 99}),
            "updates": config.updates.model_copy(update={"first_step": FIRST, "every": EVERY}),
            "reference": config.reference.model_copy(update={"first_groups": 60, "label_budget": 1.0}),
            "gate": config.gate.model_copy(update={"max_rollouts_per_update": 200}),
        }
    )
    with ReferenceServer(World(0)) as server:
        summary = run_training(config, out=tmp_path, reference=_served_reference(server.api_base))
        requests = server.requests

    seen = calls.counts
    updates = len(range(FIRST, STEPS + 1, EVERY))
    assert summary["updates"] == updates == 2
    # langgraph: the state machine ran once an update
    assert seen["langgraph"] == updates
    # langchain-core, tenacity and litellm carried every request to the reference that the run counted
    assert summary["reference_calls"] >= 60
    assert seen["langchain-core"] == seen["tenacity"] == seen["litellm"] == requests >= summary["reference_calls"]
    assert summary["labels"] >= 60 * SIZE
    # chromadb: failures were written and, from the second update on, recalled
    assert seen["chromadb upsert"] >= 1
    assert seen["chromadb query"] >= 1
    # transformers generated the rollouts of each step, the probes and both evaluations
    assert seen["transformers"] >= STEPS + 2
    # trl scored one batch a step, and torch learned from it after the warm-up
    assert seen["trl"] == STEPS
    assert seen["torch"] == WARM_UP + STEPS
    assert summary["rollouts"] - summary["probe_rollouts"] == STEPS * GROUPS * SIZE

    # what the eight left behind
    ledger = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text(encoding="utf-8").splitlines()]
    assert ledger
    assert all(row["status"] in ("accepted", "rejected", "inconclusive", "vetoed") for row in ledger)
    assert not [row for row in metrics(tmp_path, "update") if row["error"]]
    assert (tmp_path / "memory" / "chroma.sqlite3").exists() or list((tmp_path / "memory").rglob("chroma.sqlite3"))
    assert set(PACKAGES) <= set(summary["versions"])
    assert (tmp_path / "report.html").stat().st_size > 10_000


def metrics(folder: Path, kind: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["kind"] == kind]
