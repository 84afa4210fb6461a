"""``harness-agents demo``: the same run on the microworld with and without the harness, side by side."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness_agents.config import GuidanceConfig, HarnessConfig, ReferenceConfig, TrainConfig, UpdateConfig
from harness_agents.progress import Progress
from harness_agents.train import last_row, run_training
from rl_core.reference import Reference
from rl_core.run_folder import RunFolder, write_atomic

STEPS = 280
GROUPS = 24
LEARNING_RATE = 5e-4
#: In answers of four words a few rare ones decide the importance ratio; lower floors learn the same, later.
RATIO_FLOOR = 0.6


def demo_config(seed: int, steps: int | None = None, *, harness: bool = True) -> HarnessConfig:
    """What the demo runs: nothing in it knows the world's failures."""
    from rl_core.microworld.server import ReferenceServer

    return HarnessConfig(
        seed=seed,
        train=TrainConfig(steps=steps or STEPS, groups_per_step=GROUPS, learning_rate=LEARNING_RATE, eval_every=20),
        updates=UpdateConfig(enabled=harness),
        guidance=GuidanceConfig(ratio_floor=RATIO_FLOOR),
        reference=ReferenceConfig(
            model=ReferenceServer.MODEL if harness else "none", first_groups=96, trickle_groups=4
        ),
    )


def run_demo(out: Path, seed: int, steps: int | None = None) -> dict[str, Any]:
    """Run both arms at equal rollouts (probes counted), write OUT/report.html, and print what came of it.

    The arm without the harness runs in a second process into OUT/baseline.
    """
    from harness_agents.config_template import config_yaml
    from rl_core.report import summary_text, write_report

    started = time.monotonic()
    config = demo_config(seed, steps)
    total = config.train.steps
    folder = RunFolder.create(out, config_text=config_yaml(config))
    warm = folder.checkpoints
    match = out / "baseline" / "match.json"
    with (
        _Baseline(out / "baseline", seed, steps, warm, match) as baseline,
        Progress({"with harness": total, "without": total}) as progress,
    ):

        def watch(step: int, rollouts: int) -> bool:
            _show_other(progress, out / "baseline")
            baseline.check()
            return False

        summary = run_harness_arm(out, seed, steps, stop=watch, progress=progress, name="with harness")
        write_atomic(match, json.dumps({"rollouts": summary["rollouts"]}))
        while baseline.running():
            _show_other(progress, out / "baseline")
            time.sleep(0.2)
        baseline.check()
    other = json.loads(RunFolder(out / "baseline").summary.read_text(encoding="utf-8"))
    summary |= {
        "baseline": other,
        "gain": summary["gold_last"] - other["gold_last"],
        "seconds": round(time.monotonic() - started, 1),
    }
    write_atomic(folder.summary, json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    write_report(out)
    print()
    print(summary_text(out))
    print(f"\nreport: {folder.report}")
    return summary


def run_harness_arm(out: Path, seed: int, steps: int | None = None, **options: Any) -> dict[str, Any]:
    """The arm with the harness alone; ``options`` go to ``run_training``. Returns its summary."""
    from rl_core.microworld.server import ReferenceServer
    from rl_core.microworld.world import World

    with ReferenceServer(World(seed)) as server:
        reference = _served_reference(server.api_base)
        return run_training(demo_config(seed, steps), out=out, reference=reference, report=False, **options)


def _show_other(progress: Progress, folder: Path) -> None:
    row = last_row(folder / "metrics.jsonl", "step")
    if row:
        progress.update("without", int(row["step"]) + 1, row)


def _served_reference(api_base: str) -> Reference:
    """The reference judge as a user would have it: a chat model over HTTP behind the prompt template."""
    from pydantic import SecretStr

    from harness_agents.models import LiteLLMChatModel, chat_callable
    from harness_agents.templates import Templates
    from rl_core.judge.llm import LLMReference
    from rl_core.microworld.server import ReferenceServer

    model = LiteLLMChatModel(
        model=ReferenceServer.MODEL, api_base=api_base, api_key=SecretStr("none"), temperature=0.0, timeout=30.0
    )
    return LLMReference(chat_callable(model), Templates(None).bound("reference.j2"), name=ReferenceServer.MODEL)


class _Baseline:
    """The run without the harness, in a process of its own."""

    def __init__(self, out: Path, seed: int, steps: int | None, warm: Path, match: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._log = out / "output.txt"
        self._command = [
            sys.executable,
            "-m",
            "harness_agents.demo",
            "--out",
            str(out),
            "--seed",
            str(seed),
            "--warm",
            str(warm),
            "--match",
            str(match),
            "--parent",
            str(os.getpid()),
            *(["--steps", str(steps)] if steps else []),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Baseline:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raises RuntimeError with the end of its output when the process has failed."""
        code = None if self._process is None else self._process.poll()
        if code:
            tail = self._log.read_text(encoding="utf-8", errors="replace")[-1500:]
            raise RuntimeError(f"the run without the harness failed (exit code {code}):\n{tail}")


def _baseline(out: Path, seed: int, steps: int | None, warm: Path, match: Path, parent: int) -> None:
    """Train without the harness until the rollouts of the other arm are matched."""
    wait_for(warm / "warm.safetensors", parent)
    config = demo_config(seed, steps, harness=False)
    planned = config.train.steps
    config = config.model_copy(update={"train": config.train.model_copy(update={"steps": 2 * planned})})

    def stop(step: int, rollouts: int) -> bool:
        if step < planned:
            end_with(parent)
            return False
        wait_for(match, parent)
        return rollouts >= int(json.loads(match.read_text(encoding="utf-8"))["rollouts"])

    run_training(config, out=out, warm=warm, stop=stop, name="without", report=False)


def wait_for(path: Path, parent: int) -> None:
    """Until the other process has written the file; ends with the other process."""
    while not path.exists():
        end_with(parent)
        time.sleep(0.2)


def end_with(parent: int) -> None:
    """A baseline whose demo was killed has nobody to report to."""
    if os.getppid() != parent:
        raise SystemExit("the run with the harness is gone")


def _main() -> None:
    parser = argparse.ArgumentParser(description="the demo's run without the harness")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--warm", type=Path, required=True)
    parser.add_argument("--match", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    a = parser.parse_args()
    _baseline(a.out, a.seed, a.steps, a.warm, a.match, a.parent)


if __name__ == "__main__":
    _main()
