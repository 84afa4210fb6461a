"""kill -9 a real training run, between two updates and inside one, and go on: same states, ledger and memory."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

CONFIG = """
seed: 3
train: {steps: 24, groups_per_step: 12, group_size: 8, learning_rate: 0.0005, eval_every: 8}
updates: {first_step: 6, every: 6}
reference: {model: world, first_groups: 40, trickle_groups: 6, label_budget: 0.9}
gate: {min_pairs: 12, max_pairs: 20}
memory: {embedding: hashing}
"""
SLEEPY_PROBE = """
import os, sys, time
import rl_core.gate as gate
import harness_agents.measure as measure
marker = sys.argv.pop(1)
plain = measure.decide
def slow(pairs, rule, **kw):
    if not os.path.exists(marker):
        open(marker, "w").close()
        time.sleep(60)
    return plain(pairs, rule, **kw)
if marker != "-":
    measure.decide = slow
from harness_agents.cli import main
sys.exit(main(sys.argv[1:]))
"""


def command(config: Path, out: Path, *more: str, marker: str = "-") -> list[str]:
    return [sys.executable, "-c", SLEEPY_PROBE, marker, "train", str(config), "--out", str(out), *more]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def run(config: Path, out: Path, *more: str) -> None:
    done = subprocess.run(command(config, out, *more), env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]


def run_and_kill(config: Path, out: Path, when, *more: str, marker: str = "-") -> None:
    with open(out.parent / "killed.log", "wb") as log:
        start = command(config, out, *more, marker=marker)
        process = subprocess.Popen(start, env=environment(), stdout=log, stderr=log)
        until = time.monotonic() + 240
        while not when():
            assert process.poll() is None, (out.parent / "killed.log").read_text()[-1500:]
            assert time.monotonic() < until, "the moment to kill never came"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()


def with_warm_policy(whole: Path, out: Path) -> Path:
    """A new run folder that need not warm the same policy up again."""
    (out / "checkpoints").mkdir(parents=True)
    shutil.copy(whole / "checkpoints" / "warm.safetensors", out / "checkpoints")
    return out


def last_step(out: Path) -> int:
    from harness_agents.train import last_row

    return int(last_row(out / "metrics.jsonl", "step").get("step", -1))


def ledger(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]


def states(out: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in sorted((out / "states").iterdir())}


def memory(out: Path) -> list[dict]:
    records = [json.loads(line) for line in (out / "memory" / "records.jsonl").read_text().splitlines()]
    for r in records:
        for name in ("at", "time", "written", "run"):
            r.pop(name, None)
    return records


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    config = folder / "run.yaml"
    config.write_text(CONFIG)
    run(config, folder / "whole")
    return config, folder / "whole"


def same(a: Path, b: Path) -> None:
    assert ledger(a) == ledger(b)
    assert states(a) == states(b)
    assert len({(d["update"], json.dumps(d["edit"], sort_keys=True)) for d in ledger(a)}) == len(ledger(a))
    assert len(memory(a)) == len(memory(b))
    ends = [json.loads((x / "summary.json").read_text()) for x in (a, b)]
    for name in ("state_version", "rollouts", "labels", "gold_last", "updates"):
        assert ends[0][name] == ends[1][name], name


def test_same_seed_same_edits_and_state(whole, tmp_path):
    config, first = whole
    again = with_warm_policy(first, tmp_path / "again")
    run(config, again)
    assert any(d["status"] == "accepted" for d in ledger(first)), "nothing was accepted: this run shows nothing"
    same(first, again)


def test_killed_between_two_updates(whole, tmp_path):
    config, first = whole
    out = with_warm_policy(first, tmp_path / "cut")
    run_and_kill(config, out, lambda: last_step(out) >= 8)
    run(config, out, "--resume")
    same(first, out)


def test_killed_inside_an_update(whole, tmp_path):
    config, first = whole
    out, marker = with_warm_policy(first, tmp_path / "cut"), tmp_path / "in-the-gate"
    run_and_kill(config, out, marker.exists, marker=str(marker))
    run(config, out, "--resume")
    same(first, out)
