"""kill -9 anywhere, then resume: the same ledger, states and memory as a run that was never cut; no edit twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rl_core.errors import InputError
from rl_core.run_folder import read_jsonl

STEPS = 14
# one edit an update, and no catalogue: what the first update leaves dead is still there at the second
SETTINGS: dict[str, Any] = {"updates": {"max_edits": 1}, "catalogue": ()}
KILLS = ("probe during 2", "critique after 2", "apply after 1", "apply after 2", "before save 2")


def run(toy: Any, folder: Path, kill: str = "") -> Any:
    """A loop that saves after every update and goes on from its last save; ``kill``: where to end itself."""
    policy = _policy(toy, kill)
    with toy.harness(folder / "run", nodes=_deadly(toy, kill), resume=True, **SETTINGS) as harness:
        saved = folder / "loop.json"
        start = 0
        if saved.exists():
            data = json.loads(saved.read_text())
            start = data["step"]
            harness.load_state_dict(data["harness"])
        calls = []
        for step in range(start, STEPS):
            toy.step(harness, policy, step)
            if harness.due(step + 1):
                before = policy.calls
                policy.deadly = kill == f"probe during {step // 6 + 1}"
                outcome = harness.checkpoint(step + 1, policy)
                assert outcome.error is None
                calls.append((outcome.update, outcome.replayed, policy.calls - before))
                if kill == f"before save {outcome.update}":
                    os.kill(os.getpid(), signal.SIGKILL)
                saved.write_text(json.dumps({"step": step + 1, "harness": harness.state_dict()}))
        harness.flush()
        return calls, harness.counts()


def _policy(toy: Any, kill: str) -> Any:
    """The policy; told to, it ends the process at its second probe."""

    class Policy(toy.Policy):  # type: ignore[misc]  # the class comes from a fixture
        deadly = False
        probes = 0

        def generate(self, *args: Any, **more: Any) -> Any:
            if self.deadly:
                self.probes += 1
                if self.probes == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().generate(*args, **more)

    return Policy()


def _deadly(toy: Any, kill: str) -> dict[str, Any]:
    """The default nodes, but one of them ends the process the moment it has (or before it has) done its work."""
    if not kill or kill.startswith(("before save", "probe")):
        return {}
    name, when, update = kill.split()
    from harness_agents.nodes import UpdateNodes

    visits = {"n": 0}
    table: dict[str, Any] = {}

    def node(state: dict[str, Any]) -> dict[str, Any]:
        nodes = UpdateNodes(table["services"])
        visits["n"] += state["update"] == int(update)
        deadly = state["update"] == int(update) and visits["n"] == 1
        if deadly and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        out: dict[str, Any] = getattr(nodes, name)(state)
        if deadly and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return out

    import harness_agents.harness as module

    original = module.build_graph

    def building(services: Any, *, nodes: Any = None) -> Any:
        table["services"] = services
        return original(services, nodes=nodes)

    module.build_graph = building  # only ever in a process that is about to end itself
    return {name: node}


def facts(folder: Path) -> dict[str, Any]:
    run = folder / "run"
    updates = [
        {k: v for k, v in r.items() if k != "seconds"}
        for r in read_jsonl(run / "metrics.jsonl")
        if r["kind"] == "update"
    ]
    steps = [r for r in read_jsonl(run / "metrics.jsonl") if r["kind"] == "step"]
    memory = {
        json.loads(line)["id"]: json.loads(line)["text"]
        for line in (run / "memory" / "records.jsonl").read_text().splitlines()
    }
    return {
        "ledger": (run / "ledger.jsonl").read_text(),
        "states": {p.name: p.read_text() for p in sorted((run / "states").iterdir())},
        "bank": sorted((run / "bank.jsonl").read_text().splitlines()),
        "updates": updates,
        "steps": steps,
        "rollouts": sorted(p.name for p in (run / "rollouts").iterdir()),
        "memory": list(memory.values()),
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that nobody cut, and for each place one that was killed there and then resumed.

    They run in forks of one fresh process: real processes to kill, imports paid for once, and no
    Chroma client of the test process is ever forked.
    """
    folder = tmp_path_factory.mktemp("runs")
    root = str(Path(__file__).parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, __file__, str(folder)], capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def whole(runs: Path) -> dict[str, Any]:
    return facts(runs / "whole")


def test_the_uncut_run_has_something_to_lose(whole: dict[str, Any]) -> None:
    rows = [json.loads(line) for line in whole["ledger"].splitlines()]
    assert [r["update"] for r in rows if r["status"] == "accepted"] == [1, 2]
    assert len(whole["states"]) == 3
    assert len(whole["steps"]) == STEPS


@pytest.mark.parametrize("kill", KILLS)
def test_killed_and_resumed(kill: str, runs: Path, whole: dict[str, Any]) -> None:
    folder = runs / kill.replace(" ", "-")
    result = json.loads((folder / "result.json").read_text())
    assert result["killed"] == -signal.SIGKILL
    if kill in ("apply after 2", "before save 2"):
        assert [calls for update, _, calls in result["calls"] if update == 2] == [0]  # nothing is probed again
    if kill == "before save 2":
        assert [replayed for update, replayed, _ in result["calls"] if update == 2] == [True]
    assert result["counts"] == json.loads((runs / "whole" / "result.json").read_text())["counts"]
    assert facts(folder) == whole


def test_looking_at_a_run_changes_nothing(toy: Any, tmp_path: Path) -> None:
    run(toy, tmp_path)
    before = facts(tmp_path)
    with toy.harness(tmp_path / "run", **SETTINGS) as harness:
        assert harness.counts()["updates"] == 0
    assert facts(tmp_path) == before


def test_state_dict_is_json_and_a_foreign_one_is_refused(toy: Any) -> None:
    with toy.harness(**SETTINGS) as harness:
        toy.train(harness, 7)
        data = json.loads(json.dumps(harness.state_dict()))
        counts = harness.counts()
        harness.load_state_dict(data)
        assert harness.counts() == counts
        for bad in ({}, {**data, "format": 99}, {**data, "state": {"version": "x"}}):
            with pytest.raises(InputError, match="harness state"):
                harness.load_state_dict(bad)


def forked(toy: Any, folder: Path, kill: str) -> int:
    """Exit code of a run in a process of its own (minus the signal that ended it)."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            calls, counts = run(toy, folder, kill)
            (folder / "calls.json").write_text(json.dumps({"calls": calls, "counts": counts}))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(base: Path) -> None:
    import importlib
    import importlib.util

    # imported, never used, in the parent: a fork of an open Chroma client hangs
    for name in ("chromadb", "pandas", "pyarrow.parquet", "langgraph.graph", "langgraph.checkpoint.sqlite"):
        importlib.import_module(name)

    spec = importlib.util.spec_from_file_location("toy_world", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    world = importlib.util.module_from_spec(spec)
    sys.modules["toy_world"] = world
    spec.loader.exec_module(world)
    for kill in ("", *KILLS):
        folder = base / (kill.replace(" ", "-") or "whole")
        folder.mkdir()
        killed = forked(world.Toy(), folder, kill) if kill else 0
        code = forked(world.Toy(), folder, "")
        if code:
            sys.exit(f"the run after {kill!r} ended with {code}")
        result = json.loads((folder / "calls.json").read_text())
        (folder / "result.json").write_text(json.dumps({"killed": killed, **result}))


def test_a_folder_is_gone_on_with_only_when_asked(toy: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with toy.harness(folder) as harness:
        toy.train(harness, 2)
    with toy.harness(folder) as harness:
        with pytest.raises(InputError, match="resume=True"):
            toy.step(harness, toy.Policy(), 0)
        assert "resume=True" in harness.checkpoint(6, toy.Policy()).error
    with pytest.raises(InputError, match="belongs to another run"):
        toy.harness(folder, updates={"max_edits": 1})
    with toy.harness(folder, resume=True, train={"steps": 200}) as harness:
        toy.step(harness, toy.Policy(), 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
