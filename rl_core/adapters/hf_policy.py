"""TransformersPolicy: a transformers causal LM as a FrozenPolicy, in the same process."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rl_core.adapters.isolation import eval_mode, preserved_rng
from rl_core.errors import InputError
from rl_core.policy import Completion, Prompt

#: Logits held at once by ``logprobs`` (elements); keeps a large vocabulary from filling the memory.
MAX_LOGITS = 2**26
#: Remembered (text -> token ids) pairs of own completions.
MAX_REMEMBERED = 20_000


class TransformersPolicy:
    """The model as it is now; generating leaves weights, modes, generation config and global RNG untouched.

    Args:
        model: a transformers causal LM (unwrapped).
        tokenizer: its tokenizer; chat prompts need a chat template.
        max_tokens: completion length of the training loop, in tokens (the EOS counts).
        temperature: training temperature; 0 means greedy in ``generate``.
        version: policy version, usually the optimizer step.
        batch_size: rows of one forward pass.
        sampling: further generation settings of the loop (``top_p``, ``top_k``, ``min_p``, ``repetition_penalty``).
        eos_token_ids: ids that end a completion; default: those of the tokenizer and of the generation config.
        chat: further arguments of ``apply_chat_template``.

    Log-probs are means per completion token in nats, the EOS included when the completion ended with one, of
    the distribution at the training temperature before any top-p or top-k cut: the same quantity as in TRL's loss.
    Raises InputError for bad numbers or a missing pad and EOS token.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        max_tokens: int,
        temperature: float = 1.0,
        version: int = 0,
        batch_size: int = 256,
        sampling: Mapping[str, Any] | None = None,
        eos_token_ids: Sequence[int] | None = None,
        chat: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (("max_tokens", max_tokens), ("batch_size", batch_size)):
            if value < 1:
                raise InputError(
                    f"must be at least 1, got {value}",
                    where="TransformersPolicy",
                    field=name,
                    mend="pass a positive number",
                )
        if temperature < 0:
            raise InputError(
                f"must not be negative, got {temperature}",
                where="TransformersPolicy",
                field="temperature",
                mend="pass 0 (greedy) or more",
            )
        self.version = version
        self._model, self._tokenizer = model, tokenizer
        self._max_tokens, self._temperature, self._batch_size = max_tokens, temperature, batch_size
        self._sampling, self._chat = dict(sampling or {}), dict(chat or {})
        self._eos = _eos_ids(model, tokenizer) if eos_token_ids is None else list(eos_token_ids)
        pad = tokenizer.pad_token_id
        if pad is None and not self._eos:
            raise InputError(
                "neither a pad nor an EOS token",
                where="TransformersPolicy",
                field="tokenizer",
                mend="set tokenizer.pad_token",
            )
        self._pad: int = self._eos[0] if pad is None else pad
        accepted = inspect.signature(model.forward).parameters
        self._keeps_logits, self._takes_positions = "logits_to_keep" in accepted, "position_ids" in accepted
        self._remembered: dict[str, list[int]] = {}

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        n: int,
        seed: int,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> list[list[Completion]]:
        """``[len(prompts)][n]`` completions; equal arguments give equal completions.

        Raises InputError for ``n`` or ``max_tokens`` below 1.
        """
        limit = self._max_tokens if max_tokens is None else max_tokens
        if n < 1 or limit < 1:
            raise InputError(
                f"n = {n}, max_tokens = {limit}", where="TransformersPolicy.generate", mend="both must be at least 1"
            )
        temp = self._temperature if temperature is None else temperature
        rows = [ids for ids in self._tokenize(prompts) for _ in range(n)]
        done: list[list[int]] = []
        with preserved_rng(), eval_mode(self._model):
            _seed_all(seed)
            for chunk in _chunks(rows, self._batch_size):
                done.extend(self._sample(chunk, limit, temp))
            means = self._mean_logprobs(rows, done)
        texts = self._tokenizer.batch_decode(done, skip_special_tokens=True)
        ends = {*self._eos, self._pad}
        out = [
            Completion(text, len(ids), ids[-1] not in ends, mean)
            for text, ids, mean in zip(texts, done, means, strict=True)
        ]
        for text, ids in zip(texts, done, strict=True):
            self._remember(text, ids)
        return [out[i : i + n] for i in range(0, len(out), n)]

    def logprobs(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> list[float | None]:
        """Mean log-prob per token of each completion under its prompt.

        A completion of this policy is scored on the very tokens it was drawn with; other text is tokenised
        anew and gets an EOS when it is shorter than ``max_tokens``. Raises InputError when lengths differ.
        """
        if len(prompts) != len(completions):
            raise InputError(
                f"{len(prompts)} prompts for {len(completions)} completions",
                where="TransformersPolicy.logprobs",
                mend="pass one prompt for each completion",
            )
        rows = self._tokenize(prompts)
        answers = [self._answer_ids(text) for text in completions]
        with preserved_rng(), eval_mode(self._model):
            return self._mean_logprobs(rows, answers)

    def _tokenize(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """As TRL does: plain text as it is, chats through the template with a generation prompt."""
        out: list[list[int]] = []
        cache: dict[Prompt, list[int]] = {}
        for prompt in prompts:
            if prompt not in cache:
                if isinstance(prompt, str):
                    cache[prompt] = self._tokenizer(text=[prompt])["input_ids"][0]
                else:
                    chat = [m.model_dump() for m in prompt]
                    cache[prompt] = self._tokenizer.apply_chat_template(
                        conversation=[chat], add_generation_prompt=True, tokenize=True, return_dict=True, **self._chat
                    )["input_ids"][0]
            if not cache[prompt]:
                raise InputError(
                    "a prompt without tokens",
                    where="TransformersPolicy",
                    field="prompts",
                    mend="give every task a prompt",
                )
            out.append(cache[prompt])
        return out

    def _sample(self, rows: Sequence[list[int]], limit: int, temperature: float) -> list[list[int]]:
        import torch
        from transformers import GenerationConfig

        ids, mask = _left_pad(rows, self._pad, self._device())
        settings: dict[str, Any] = {
            "max_new_tokens": limit,
            "pad_token_id": self._pad,
            "eos_token_id": self._eos or None,
            "use_cache": True,
        }
        if temperature > 0:
            # top_k = 0: transformers' own default (50) would cut the distribution that TRL trains on
            settings |= {"do_sample": True, "temperature": temperature, "top_k": 0, **self._sampling}
        else:
            settings["do_sample"] = False
        config = GenerationConfig(**settings, disable_compile=True)
        kept = self._model.generation_config
        try:
            # generate() fills unset fields from the model's own config, so that one steps aside for the call
            self._model.generation_config = config
            with torch.no_grad():
                full = self._model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
        finally:
            self._model.generation_config = kept
        return [_until(row, self._eos) for row in full[:, ids.size(1) :].tolist()]

    def _mean_logprobs(self, prompts: Sequence[list[int]], answers: Sequence[list[int]]) -> list[float | None]:
        import torch

        vocab = int(self._model.config.get_text_config().vocab_size)
        longest = max((len(a) for a in answers), default=1)
        size = max(1, min(self._batch_size, MAX_LOGITS // max(1, vocab * (longest + 1))))
        out: list[float | None] = []
        with torch.no_grad():
            for pairs in _chunks(list(zip(prompts, answers, strict=True)), size):
                out.extend(self._chunk_logprobs(pairs))
        return out

    def _chunk_logprobs(self, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float | None]:
        import torch

        device = self._device()
        prompt, prompt_mask = _left_pad([p for p, _ in pairs], self._pad, device)
        answer, mask = _right_pad([a for _, a in pairs], self._pad, device)
        inputs: dict[str, Any] = {
            "input_ids": torch.cat([prompt, answer], 1),
            "attention_mask": torch.cat([prompt_mask, mask], 1),
        }
        width = answer.size(1)
        if self._takes_positions:  # as generate() counts them: padding has no position
            inputs["position_ids"] = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
        if self._keeps_logits:
            inputs["logits_to_keep"] = width + 1
        logits = self._model(**inputs, use_cache=False).logits[:, -(width + 1) : -1].float()
        logits = logits / (self._temperature or 1.0)
        token = logits.gather(-1, answer.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
        means = (token * mask).sum(1) / mask.sum(1).clamp(min=1)
        return [m if ids and m == m else None for m, (_, ids) in zip(means.tolist(), pairs, strict=True)]

    def _answer_ids(self, text: str) -> list[int]:
        known = self._remembered.get(text)
        if known is not None:
            return known
        ids: list[int] = list(self._tokenizer(text=[text], add_special_tokens=False)["input_ids"][0])
        return [*ids, self._eos[0]] if self._eos and len(ids) < self._max_tokens else ids

    def _remember(self, text: str, ids: list[int]) -> None:
        if text not in self._remembered and len(self._remembered) >= MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered.setdefault(text, ids)

    def _device(self) -> Any:
        return next(self._model.parameters()).device


def _eos_ids(model: Any, tokenizer: Any) -> list[int]:
    """EOS ids of tokenizer and generation config together, in a fixed order."""
    configured = getattr(model.generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return [i for i in dict.fromkeys([tokenizer.eos_token_id, *listed]) if i is not None]


def _seed_all(seed: int) -> None:
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _chunks(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _left_pad(rows: Sequence[list[int]], pad: int, device: Any) -> tuple[Any, Any]:
    """Token ids and mask, both ``[len(rows), longest]``."""
    import torch

    width = max(len(r) for r in rows)
    ids = [[pad] * (width - len(r)) + list(r) for r in rows]
    mask = [[0] * (width - len(r)) + [1] * len(r) for r in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _right_pad(rows: Sequence[list[int]], pad: int, device: Any) -> tuple[Any, Any]:
    import torch

    width = max(max(len(r) for r in rows), 1)
    ids = [list(r) + [pad] * (width - len(r)) for r in rows]
    mask = [[1] * len(r) + [0] * (width - len(r)) for r in rows]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _until(ids: list[int], ends: Sequence[int]) -> list[int]:
    """The ids up to and with the first end token."""
    for k, token in enumerate(ids):
        if token in ends:
            return ids[: k + 1]
    return ids
