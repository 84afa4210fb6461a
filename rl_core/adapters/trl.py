"""TRL's GRPOTrainer under a harness, in one process: late binding, guided generation, unguided loss.

    reward  = RubricReward(harness)
    trainer = GRPOTrainer(model=..., args=..., reward_funcs=reward, train_dataset=harness_dataset(harness))
    attach(trainer, harness)
    trainer.train()

Tasks are drawn when a batch is generated, not by the data loader, so an accepted edit acts on the very next
batch. The data set only gives the batch its shape. Written against trl 1.16; the private methods it leans on are
pinned by contract tests.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rl_core.adapters.guided_loss import GuidedLoss, loss_of, neutralise_vllm_correction, ratio, separate_advantages
from rl_core.adapters.loop import LoopHarness
from rl_core.adapters.reward import BoundBatch, RubricReward
from rl_core.errors import InputError
from rl_core.policy import Prompt
from rl_core.rollout import Rollout
from rl_core.task import Task, TaskSet

__all__ = [
    "AttachOptions",
    "GuidedLoss",
    "HarnessGRPOTrainer",
    "RubricReward",
    "attach",
    "harness_dataset",
    "load_harness",
]

#: TRL warns about every experimental import; none of ours is the user's choice.
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


@dataclass(frozen=True)
class AttachOptions:
    """strict: stop training when a harness update fails. save_at_updates: write a checkpoint after each update."""

    strict: bool = False
    save_at_updates: bool = False


def options_of(harness: LoopHarness) -> AttachOptions:
    """``strict`` from the harness's own config, when it has one."""
    return AttachOptions(strict=bool(getattr(getattr(harness, "config", None), "strict", False)))


def harness_dataset(source: LoopHarness | TaskSet | Iterable[Task], *, min_rows: int = 1024) -> Any:
    """A ``datasets.Dataset`` with columns ``prompt`` and ``task_id`` over the tasks of ``source``.

    For training the rows only give TRL its batch shape, and TRL drops a batch that it cannot fill: small task
    sets are repeated up to ``min_rows`` rows, so count training by ``max_steps``, not by epochs. Pass
    ``min_rows=0`` for evaluation. Raises InputError when chats and plain prompts are mixed.
    """
    from datasets import Dataset

    tasks = list(source.tasks if isinstance(source, LoopHarness) else source)
    if not tasks:
        raise InputError("no tasks", where="harness_dataset", mend="pass at least one task")
    if len({isinstance(t.prompt, str) for t in tasks}) > 1:
        raise InputError(
            "chat and plain prompts are mixed, which TRL cannot batch",
            where="harness_dataset",
            field="prompt",
            mend="use one form for all tasks",
        )
    rows = [{"prompt": trl_prompt(t.prompt), "task_id": t.id} for t in tasks]
    return Dataset.from_list(rows * max(1, -(-min_rows // len(rows))))


def trl_prompt(prompt: Prompt) -> str | list[dict[str, str]]:
    """Our prompt in TRL's form: text, or a list of role/content dicts."""
    return prompt if isinstance(prompt, str) else [{"role": m.role, "content": m.content} for m in prompt]


def load_harness(checkpoint: str | Path, harness: LoopHarness) -> None:
    """Put ``harness`` where it was when ``checkpoint`` was written.

    Raises InputError when the folder holds no readable ``harness.json``.
    """
    from rl_core.adapters.trl_callback import read_harness_file

    harness.load_state_dict(read_harness_file(Path(checkpoint)))


def attach(
    trainer: Any,
    harness: LoopHarness,
    *,
    loss: GuidedLoss | None = None,
    options: AttachOptions | None = None,
    rewards: Literal["replace", "add"] | None = None,
    eval_tasks: TaskSet | None = None,
    resume_from: str | Path | None = None,
) -> Any:
    """Put a stock ``GRPOTrainer`` (or a subclass instance) under ``harness``; returns the same trainer.

    When none of the trainer's reward functions is a RubricReward, ``rewards`` says what becomes of them:
    ``replace`` them by the rubric, or ``add`` the rubric beside them. ``resume_from`` loads the harness from a
    checkpoint folder; ``trainer.train(resume_from_checkpoint=...)`` does so by itself. Without ``loss`` and
    ``options`` the sections ``guidance`` and ``strict`` of the harness's config apply.

    Raises InputError for several processes, an unsupported trainer setting, a group size that differs from the
    harness's ``train.group_size``, or a trainer that has a harness.
    """
    from trl import GRPOTrainer

    if not isinstance(trainer, GRPOTrainer):
        raise InputError(
            f"not a GRPOTrainer but {type(trainer).__name__}",
            where="attach",
            field="trainer",
            mend="pass a trl.GRPOTrainer",
        )
    if isinstance(trainer, HarnessMixin):
        raise InputError(
            "the trainer has a harness already", where="attach", field="trainer", mend="attach once, to a fresh trainer"
        )
    loss = loss or loss_of(harness)
    _refuse_unsupported(trainer, loss)
    agree(trainer, harness)
    reward = _install_reward(trainer, harness, rewards, eval_tasks)
    cls = type(trainer)
    trainer.__class__ = type(f"Harness{cls.__name__}", (HarnessMixin, cls), {"__module__": cls.__module__})
    trainer._install_harness(harness, reward, loss, options or options_of(harness))
    if resume_from is not None:
        load_harness(resume_from, harness)
    return trainer


def _refuse_unsupported(trainer: Any, loss: GuidedLoss) -> None:
    processes = max(int(trainer.accelerator.num_processes), int(os.environ.get("WORLD_SIZE", "1") or 1))
    problems = {
        f"{processes} processes, but this adapter is for one": processes > 1,
        "the trainer has a rollout_func, which bypasses guided generation": getattr(trainer, "rollout_func", None),
        "the trainer uses tools or environments, whose later turns lose the hint": getattr(trainer, "tools", None)
        or getattr(trainer, "environment_factories", None),
        "separate baselines need multi_objective_aggregation='sum_then_normalize'": loss.baseline == "separate"
        and getattr(trainer, "multi_objective_aggregation", "sum_then_normalize") != "sum_then_normalize",
    }
    mends = (
        "start one process (no torchrun, WORLD_SIZE=1)",
        "leave rollout_func out",
        "train without them",
        "change it, or use baseline='shared'",
    )
    for (problem, present), mend in zip(problems.items(), mends, strict=True):
        if present:
            raise InputError(problem, where="GRPOTrainer", mend=mend)


def agree(trainer: Any, harness: LoopHarness) -> None:
    """Groups must have one size on both sides; then the harness learns how long the run will be, where it asks.

    Raises InputError when the group sizes differ.
    """
    size = getattr(getattr(getattr(harness, "config", None), "train", None), "group_size", None)
    if size is not None and int(size) != int(trainer.num_generations):
        raise InputError(
            f"the harness has train.group_size {size}, but the trainer has num_generations {trainer.num_generations}",
            where="attach",
            field="train.group_size",
            mend=f"set train.group_size to {trainer.num_generations} in the harness config",
        )
    plan = getattr(harness, "plan", None)
    if plan is not None and int(trainer.args.max_steps) > 0:
        plan(int(trainer.args.max_steps) * int(trainer.args.generation_batch_size))


def _install_reward(
    trainer: Any, harness: LoopHarness, rewards: Literal["replace", "add"] | None, eval_tasks: TaskSet | None
) -> RubricReward:
    """Find or add the facade; TRL keeps four lists that must stay aligned."""
    import torch

    ours: list[RubricReward] = [f for f in trainer.reward_funcs if isinstance(f, RubricReward)]
    if len(ours) > 1 or any(f.harness is not harness for f in ours):
        raise InputError(
            "the trainer's RubricReward belongs to another harness, or there are several",
            where="GRPOTrainer",
            field="reward_funcs",
            mend="pass one RubricReward of this harness",
        )
    if ours:
        return ours[0]
    if rewards not in ("replace", "add"):
        raise InputError(
            "no reward function of the trainer is a RubricReward",
            where="GRPOTrainer",
            field="reward_funcs",
            mend="pass reward_funcs=RubricReward(harness), or call attach(..., rewards='replace') or rewards='add'",
        )
    reward = RubricReward(harness, tasks=eval_tasks)
    keep = rewards == "add"
    old = list(trainer.reward_weights) if keep else []
    trainer.reward_funcs = [*(trainer.reward_funcs if keep else []), reward]
    trainer.reward_func_names = [*(trainer.reward_func_names if keep else []), reward.__name__]
    trainer.reward_processing_classes = [*(trainer.reward_processing_classes if keep else []), None]
    trainer.reward_weights = torch.tensor([*old, 1.0], dtype=torch.float32)
    return reward


def _one_per_row(cls: type, prompt_ids: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The further arguments of ``_generate_single_turn`` with ``num_generations`` set to 1.

    With more, vLLM's server mode samples a whole group from its first prompt and the hints of the others are lost.
    A subclass in between may hide the parameter behind ``*args``, so the signature is looked up along the bases.
    """
    for base in cls.__mro__:
        method = base.__dict__.get("_generate_single_turn")
        if method is not None and "num_generations" in inspect.signature(method).parameters:
            call = inspect.signature(method).bind(None, prompt_ids, *args, **kwargs)
            if "num_generations" in call.arguments:
                call.arguments["num_generations"] = 1
            return call.args[2:], call.kwargs
    return args, kwargs


class HarnessMixin:
    """Goes in front of ``GRPOTrainer`` in the class order; see ``attach`` and ``HarnessGRPOTrainer``."""

    _hv_harness: LoopHarness
    _hv_reward: RubricReward
    _hv_loss: GuidedLoss
    _hv_batch: BoundBatch | None
    _hv_reward_rows: Any
    _hv_drawn: tuple[int, list[Task], list[Any], Any]
    _hv_used: int
    _hv_index: dict[str, int] | None
    _hv_callback: Any

    def _install_harness(
        self, harness: LoopHarness, reward: RubricReward, loss: GuidedLoss, options: AttachOptions
    ) -> None:
        from rl_core.adapters.trl_callback import HarnessCallback

        self._hv_harness, self._hv_reward, self._hv_loss = harness, reward, loss
        self._hv_batch, self._hv_reward_rows, self._hv_index = None, None, None
        self._hv_drawn, self._hv_used = (-1, [], [], None), 0
        self._hv_callback = HarnessCallback(self, harness, strict=options.strict, save=options.save_at_updates)
        self.add_callback(self._hv_callback)  # type: ignore[attr-defined]  # from the trainer beside this mixin

    # -- resume ------------------------------------------------------------------------------------

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """As ``Trainer.train``; a resumed run takes its harness from the same checkpoint."""
        if resume_from_checkpoint:
            folder: Any = resume_from_checkpoint
            if folder is True:
                from transformers.trainer_utils import get_last_checkpoint

                folder = get_last_checkpoint(self._hv.args.output_dir)
            if folder is not None:
                load_harness(folder, self._hv_harness)
        self._hv_drawn, self._hv_used = (-1, [], [], None), 0
        return super().train(resume_from_checkpoint, *args, **kwargs)  # type: ignore[misc]

    @property
    def _hv(self) -> Any:
        """Self as the trainer it also is."""
        return self

    # -- late binding ------------------------------------------------------------------------------

    def _bind(self, rows: int) -> BoundBatch:
        """Draw the groups of one generation batch.

        A step may generate several times (gradient accumulation): its tasks are drawn in one call and dealt
        out, so that a draw depends on the step alone and no group id comes twice.
        """
        trainer, harness = self._hv, self._hv_harness
        size, step = int(trainer.num_generations), int(trainer.state.global_step)
        if rows % size:
            raise InputError(
                f"a batch of {rows} rows does not hold whole groups of {size}",
                where="GRPOConfig",
                field="per_device_train_batch_size",
                mend="make it a multiple of num_generations",
            )
        n = rows // size
        every = trainer.args.steps_per_generation * trainer.num_iterations
        at = self._hv_used
        if self._hv_drawn[0] != step or at + n > len(self._hv_drawn[1]):
            batches = max(1, -(-int(trainer.args.gradient_accumulation_steps) // every))
            state = harness.state
            tasks = harness.draw(n * batches, step)
            self._hv_drawn = (step, tasks, list(harness.guide(tasks, size, step)), state)
            at = 0
        _, tasks, prompts, state = self._hv_drawn
        self._hv_used = at + n
        part = prompts[at : at + n]
        if len(part) != n or any(len(group) != size for group in part):
            raise InputError(
                f"guide did not give {n} groups of {size}",
                where="harness.guide",
                mend="return one prompt for each rollout",
            )
        return BoundBatch(step, at, size, state, list(tasks[at : at + n]), [p for group in part for p in group])

    def _rows(self, batch: BoundBatch, inputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        # only reward functions beside the rubric can want further columns
        wanted = len(self._hv.reward_funcs) > 1 and set(inputs[0]) - {"prompt", "task_id"}
        rows = []
        for k, prompt in enumerate(batch.prompts):
            task = batch.tasks[k // batch.group_size]
            extra = self._columns_of(task.id) if wanted else {}
            rows.append(
                {**extra, "prompt": trl_prompt(prompt.train_on), "task_id": task.id, "guidance_id": prompt.guidance_id}
            )
        return rows

    def _columns_of(self, task_id: str) -> dict[str, Any]:
        """The user's own columns of a task, for reward functions that stand beside the rubric."""
        data = self._hv.train_dataset
        if self._hv_index is None:
            ids = data["task_id"] if "task_id" in (data.column_names or ()) and hasattr(data, "__len__") else []
            self._hv_index = {tid: k for k, tid in enumerate(ids)}
        if task_id not in self._hv_index:
            raise InputError(
                f"no row for task {task_id!r}, and a reward function beside the rubric may want its columns",
                where="data set",
                field="task_id",
                mend="give every task of the harness a row",
            )
        return dict(data[self._hv_index[task_id]])

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        trainer = self._hv
        if not trainer.model.training:
            return super()._generate_and_score_completions(inputs)  # type: ignore[misc, no-any-return]
        batch = self._bind(len(inputs))
        self._hv_batch = self._hv_reward.batch = batch
        try:
            output: dict[str, Any] = super()._generate_and_score_completions(  # type: ignore[misc]
                self._rows(batch, inputs)
            )
        finally:
            self._hv_batch = self._hv_reward.batch = None
        plain, guided = self._reweigh(batch, output)
        self._hv_harness.observe(self._rollouts(batch, plain, guided))
        return output

    # -- guided generation -------------------------------------------------------------------------

    def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
        generate = super()._generate_single_turn  # type: ignore[misc]
        batch = self._hv_batch
        if batch is None or batch.completion_ids is not None:
            return generate(prompt_ids, *args, **kwargs)
        rows = [k for k, on in enumerate(batch.guided) if on]
        if rows:
            prompts = [trl_prompt(batch.prompts[k].generate_with) for k in rows]
            batch.guided_ids = dict(zip(rows, self._hv._tokenize_prompts(prompts)[0], strict=True))
            prompt_ids = [batch.guided_ids.get(k, ids) for k, ids in enumerate(prompt_ids)]
            args, kwargs = _one_per_row(type(self), prompt_ids, args, kwargs)
        result = generate(prompt_ids, *args, **kwargs)
        batch.completion_ids = [list(ids) for ids in result[0]]
        return result

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        # [rows, functions]; separate baselines need the total, which TRL does not hand out
        self._hv_reward_rows = super()._calculate_rewards(*args, **kwargs)  # type: ignore[misc]
        return self._hv_reward_rows

    # -- unguided loss -----------------------------------------------------------------------------

    def _reweigh(self, batch: BoundBatch, output: dict[str, Any]) -> tuple[dict[int, float], dict[int, float]]:
        """Change the advantages of guided rows in ``output``; mean log-probs (plain, guided) by row."""
        import torch

        trainer, loss = self._hv, self._hv_loss
        metrics = trainer._metrics["train"]
        rows = list(batch.guided_ids)
        metrics["harness/guided_share"].append(len(rows) / len(batch.prompts))
        if not rows:
            return {}, {}
        advantages = output["advantages"]
        if loss.baseline == "separate":
            values = separate_advantages(
                self._total_rewards(), batch.guided, batch.group_size, scale=trainer.scale_rewards
            )
            advantages = torch.tensor(values, dtype=advantages.dtype, device=advantages.device)
        assert batch.completion_ids is not None
        answers = [batch.completion_ids[k] for k in rows]
        mask = output["prompt_mask"].bool()
        unguided = [output["prompt_ids"][k][mask[k]].tolist() for k in rows]
        plain = self._mean_logprobs(unguided, answers)
        guided = self._mean_logprobs([batch.guided_ids[k] for k in rows], answers)
        c = [ratio(p, g, loss) for p, g in zip(plain, guided, strict=True)]
        index = torch.tensor(rows, device=advantages.device)
        advantages = advantages.clone()
        advantages[index] *= torch.tensor(c, dtype=advantages.dtype, device=advantages.device)
        output["advantages"] = advantages
        neutralise_vllm_correction(output, index)
        metrics["harness/ratio_mean"].append(sum(c) / len(c))
        metrics["harness/ratio_at_cap"].append(sum(x >= loss.ratio_cap for x in c) / len(c))
        return dict(zip(rows, plain, strict=True)), dict(zip(rows, guided, strict=True))

    def _total_rewards(self) -> list[float | None]:
        """Weighted sum over the reward functions, None where none of them gave a value (as TRL does)."""
        per_function = self._hv_reward_rows
        weighted = per_function * self._hv.reward_weights.to(per_function.device)
        unknown = weighted.isnan().all(1).tolist()
        return [None if u else v for u, v in zip(unknown, weighted.nansum(1).tolist(), strict=True)]

    def _mean_logprobs(self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> list[float]:
        """Mean log-prob per completion token (EOS counted, padding not), as the loss computes it."""
        import torch
        from trl.trainer.utils import pad

        from rl_core.adapters.isolation import eval_mode

        trainer = self._hv
        filler = trainer._tokenizer.pad_token_id

        def stack(rows: Sequence[Sequence[int]], side: str) -> tuple[Any, Any]:
            ids = [torch.tensor(list(r), dtype=torch.long) for r in rows]
            ones = [torch.ones_like(t) for t in ids]
            device = trainer.accelerator.device
            return (
                pad(ids, padding_value=filler, padding_side=side).to(device),
                pad(ones, padding_value=0, padding_side=side).to(device),
            )

        left, left_mask = stack(prompts, "left")
        right, mask = stack(answers, "right")
        with torch.no_grad(), eval_mode(trainer.model):
            logps = trainer._get_per_token_logps_and_entropies(
                trainer.model,
                torch.cat([left, right], 1),
                torch.cat([left_mask, mask], 1),
                right.size(1),
                batch_size=trainer.args.per_device_train_batch_size,
            )[0]
        means: list[float] = ((logps * mask).sum(1) / mask.sum(1).clamp(min=1)).tolist()
        return means

    def _rollouts(self, batch: BoundBatch, plain: Mapping[int, float], guided: Mapping[int, float]) -> list[Rollout]:
        trainer = self._hv
        ends = {*trainer.eos_token_ids, trainer._tokenizer.pad_token_id}
        assert batch.completion_ids is not None
        out = []
        for k, (text, ids, scored) in enumerate(zip(batch.texts, batch.completion_ids, batch.scored, strict=True)):
            i, j = divmod(k, batch.group_size)
            group = f"{batch.step}-{batch.first_group + i}"
            out.append(
                Rollout(
                    id=f"{group}-{j}",
                    task_id=batch.tasks[i].id,
                    group_id=group,
                    step=batch.step,
                    completion=text,
                    policy_version=batch.step,
                    harness_version=batch.state.version,
                    phase="train",
                    guidance_id=batch.prompts[k].guidance_id,
                    verdicts=scored.verdicts,
                    reward=scored.reward,
                    tokens=len(ids),
                    truncated=not ids or ids[-1] not in ends,
                    logprob=guided.get(k),
                    logprob_plain=plain.get(k),
                )
            )
        return out

    # -- probes ------------------------------------------------------------------------------------

    def frozen_policy(self) -> Any:
        """The policy as it is now, drawing with the loop's own settings."""
        from rl_core.adapters.hf_policy import TransformersPolicy

        trainer = self._hv
        chat = dict(getattr(trainer, "chat_template_kwargs", None) or {})
        if getattr(trainer, "chat_template", None) is not None:
            chat["chat_template"] = trainer.chat_template
        sampling = {
            name: value
            for name in ("top_p", "top_k", "min_p", "repetition_penalty")
            if (value := getattr(trainer, name, None)) is not None
        }
        return TransformersPolicy(
            trainer.accelerator.unwrap_model(trainer.model),
            trainer._tokenizer,
            max_tokens=trainer.max_completion_length,
            temperature=trainer.temperature,
            version=int(trainer.state.global_step),
            batch_size=max(128, trainer.args.per_device_train_batch_size),
            sampling=sampling,
            eos_token_ids=trainer.eos_token_ids,
            chat=chat,
        )


if TYPE_CHECKING:
    HarnessGRPOTrainer: Any
else:

    def __getattr__(name: str) -> Any:
        """``HarnessGRPOTrainer`` is made on first use: its base class needs trl."""
        if name != "HarnessGRPOTrainer":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from rl_core.adapters.trl_trainer import HarnessGRPOTrainer

        globals()[name] = HarnessGRPOTrainer
        return HarnessGRPOTrainer
