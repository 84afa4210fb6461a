"""GRPO through TRL with a harness attached: the one place that knows a good GRPOConfig for our loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_core.adapters.guided_loss import GuidedLoss
from rl_core.adapters.loop import LoopHarness


@dataclass(frozen=True)
class GRPOSettings:
    """Shape of a run: ``groups_per_step`` groups of ``group_size`` rollouts a step, one optimizer step each."""

    steps: int
    groups_per_step: int
    group_size: int
    max_tokens: int
    learning_rate: float
    temperature: float = 1.0
    beta: float = 0.0
    seed: int = 0
    rows_per_pass: int | None = None


def build_trainer(
    model: Any,
    tokenizer: Any,
    harness: LoopHarness,
    settings: GRPOSettings,
    *,
    out: Path,
    loss: GuidedLoss | None = None,
    strict: bool = False,
    after: Sequence[Any] = (),
) -> Any:
    """A ``GRPOTrainer`` under ``harness``; checkpoints go to ``out`` after every harness update.

    ``rows_per_pass``: rollouts in one forward pass (None: all of a step's). Callbacks in ``after`` run behind
    the harness at the end of a step.
    """
    from trl import GRPOConfig, GRPOTrainer

    from rl_core.adapters.trl import AttachOptions, RubricReward, attach, harness_dataset

    rows = settings.groups_per_step * settings.group_size
    per_pass = settings.rows_per_pass or rows
    args = GRPOConfig(
        output_dir=str(out),
        per_device_train_batch_size=per_pass,
        gradient_accumulation_steps=rows // per_pass,
        num_generations=settings.group_size,
        generation_batch_size=rows,
        max_steps=settings.steps,
        max_completion_length=settings.max_tokens,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        beta=settings.beta,
        temperature=settings.temperature,
        top_k=0,
        max_grad_norm=1.0,
        use_cpu=not _has_accelerator(),
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        save_strategy="no",
        save_total_limit=2,
        logging_steps=10,
        log_completions=False,
        disable_tqdm=True,
        seed=settings.seed,
        data_seed=settings.seed,
    )
    trainer = GRPOTrainer(
        model=model,
        args=args,
        reward_funcs=RubricReward(harness),
        train_dataset=harness_dataset(harness),
        processing_class=tokenizer,
    )
    _silence_printing(trainer)
    attach(trainer, harness, loss=loss, options=AttachOptions(strict=strict, save_at_updates=True))
    for callback in after:
        trainer.add_callback(callback)
    return trainer


def step_callback(fn: Callable[[int, Any], None]) -> Any:
    """A trainer callback that calls ``fn(step, control)`` at the end of every step."""
    from transformers import TrainerCallback

    class AtStepEnd(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            fn(int(state.global_step), control)
            return control

    return AtStepEnd()


def _silence_printing(trainer: Any) -> None:
    """The run has its own progress display; transformers would print every log line."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)


def _has_accelerator() -> bool:
    import torch

    return bool(torch.cuda.is_available())
