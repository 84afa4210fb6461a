"""HarnessCallback: harness updates at the end of a step, and the harness file in every checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from rl_core.adapters.isolation import eval_mode, preserved_rng
from rl_core.adapters.loop import LoopHarness, OutcomeLike
from rl_core.errors import InputError

HARNESS_FILE = "harness.json"


class HarnessUpdateError(RuntimeError):
    """A harness update failed and the run is strict."""


class HarnessCallback(TrainerCallback):
    """Runs ``harness.checkpoint`` when due; probes leave model and random state as they were."""

    def __init__(self, trainer: Any, harness: LoopHarness, *, strict: bool, save: bool) -> None:
        self._trainer, self._harness, self._strict, self._save = trainer, harness, strict, save
        self.last: OutcomeLike | None = None
        self.error: str | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.error = None

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        step = int(state.global_step)
        if not self._harness.due(step):
            return control
        with preserved_rng(), eval_mode(self._trainer.model):
            self.last = self._harness.checkpoint(step, self._trainer.frozen_policy())
        if self.last.error is not None and self._strict:
            self.error = f"harness update at step {step} failed: {self.last.error}"
            control.should_training_stop = True
        elif self._save:
            control.should_save = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_harness_file(folder, self._harness.state_dict())

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.error is not None:
            raise HarnessUpdateError(self.error)


def write_harness_file(folder: Path, data: dict[str, Any]) -> None:
    """Atomic: a kill leaves the old file or the new one."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / (HARNESS_FILE + ".tmp")
    with temporary.open("w", encoding="utf-8") as f:
        json.dump(data, f, ensure_ascii=False)
        f.flush()
        os.fsync(f.fileno())
    temporary.replace(folder / HARNESS_FILE)


def read_harness_file(folder: Path) -> dict[str, Any]:
    """The saved ``state_dict``. Raises InputError when the file is missing or unreadable."""
    path = folder / HARNESS_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            "no such file", where=str(path), mend="resume from a checkpoint that was written with the harness attached"
        ) from None
    except (OSError, ValueError) as e:
        raise InputError(
            f"cannot be read ({type(e).__name__})", where=str(path), mend="resume from another checkpoint"
        ) from None
    if not isinstance(data, dict):
        raise InputError("not a JSON object", where=str(path), mend="resume from another checkpoint")
    return data
