"""The language model that a config names, ready to train, and how its runs use the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness_agents.config import HarnessConfig
from rl_core.errors import InputError
from rl_core.microworld.world import World


@dataclass
class LoadedPolicy:
    model: Any
    tokenizer: Any


def load_policy(config: HarnessConfig, world: World | None, *, warm: Path | None, say: Any = print) -> LoadedPolicy:
    """Model and tokenizer of ``policy.model``.

    ``warm``: folder of the warmed-up microworld policy; made there when it is missing. Raises InputError.
    """
    import torch

    name = config.policy.model
    if name == "microworld":
        if world is None:
            raise InputError(
                "the microworld policy reads only microworld tasks",
                field="policy.model",
                mend="use smollm or a transformers model folder",
            )
        torch.set_num_threads(1)  # the model is so small that threads only get in each other's way
        loaded = _microworld(world, warm, say)
    elif name == "smollm":
        from rl_core.adapters.smollm import load_smollm

        loaded = LoadedPolicy(*load_smollm(dtype=config.policy.dtype))
    else:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)
            model = AutoModelForCausalLM.from_pretrained(name, local_files_only=True, dtype=config.policy.dtype)
        except (OSError, ValueError) as e:
            raise InputError(
                f"no usable model ({str(e).splitlines()[0][:120]})",
                where=name,
                field="policy.model",
                mend="name a folder written by save_pretrained",
            ) from None
        loaded = LoadedPolicy(model, tokenizer)
    if config.policy.train_layers is not None:
        _freeze_all_but_last(loaded.model, config.policy.train_layers)
    return loaded


def _microworld(world: World, warm: Path | None, say: Any) -> LoadedPolicy:
    from safetensors.torch import load_file, save_file

    from rl_core.microworld.policy import build_model, build_tokenizer, warm_up

    tokenizer = build_tokenizer()
    weights = None if warm is None else warm / "warm.safetensors"
    if weights is not None and weights.exists() and not _readable(weights):
        say(f"{weights} cannot be read: warming up anew")
        weights.unlink()
    if weights is None or not weights.exists():
        last: dict[str, Any] = {}
        for last in warm_up(world):
            say(f"warming the policy up: step {last['step']} of {last['steps']}, loss {last['loss']:.2f}")
        if weights is None:
            return LoadedPolicy(last["model"], tokenizer)
        weights.parent.mkdir(parents=True, exist_ok=True)
        temporary = weights.with_suffix(".tmp")
        state = {k: v.contiguous().clone() for k, v in last["model"].state_dict().items() if k != "lm_head.weight"}
        save_file(state, str(temporary))
        os.replace(temporary, weights)
    model = build_model(tokenizer, seed=world.seed)
    model.load_state_dict(load_file(str(weights)), strict=False)
    model.tie_weights()
    return LoadedPolicy(model, tokenizer)


def _readable(weights: Path) -> bool:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        load_file(str(weights))
    except (OSError, SafetensorError):
        return False
    return True


def _freeze_all_but_last(model: Any, layers: int) -> None:
    """Train only the last ``layers`` transformer layers and the final norm."""
    blocks = model.model.layers
    for p in model.parameters():
        p.requires_grad_(False)
    for block in blocks[max(len(blocks) - layers, 0) :]:
        for p in block.parameters():
            p.requires_grad_(True)
    for p in model.model.norm.parameters():
        p.requires_grad_(True)
