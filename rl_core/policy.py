"""FrozenPolicy: the one thing the critic may ask of the policy, and what a loop can do (Capabilities)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from rl_core.task import Message

Prompt = str | tuple[Message, ...]


class Completion(NamedTuple):
    """``logprob``: mean log-prob per completion token (nats) under the prompt it was drawn with."""

    text: str
    tokens: int
    truncated: bool = False
    logprob: float | None = None


@runtime_checkable
class FrozenPolicy(Protocol):
    """The policy at one checkpoint; generating must leave it and the global RNG untouched."""

    version: int

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        n: int,
        seed: int,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> list[list[Completion]]:
        """``n`` completions for each prompt. None: the loop's own training setting."""
        ...

    def logprobs(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> list[float | None]:
        """Mean log-prob per token (nats) of each completion under its prompt; None where unknown."""
        ...


@dataclass(frozen=True)
class Capabilities:
    """What a loop can do; edits that need more are not proposed."""

    late_binding: bool = True
    per_rollout_prompts: bool = True
    plain_prompt_loss: bool = True
    logprobs: bool = True
    probe: bool = True

    @property
    def guidance(self) -> bool:
        return self.per_rollout_prompts and self.plain_prompt_loss and self.logprobs and self.probe


class CallablePolicy:
    """Any function ``(prompts, n, seed) -> texts`` as a frozen policy; no log-probs."""

    def __init__(self, fn: Callable[[Sequence[Prompt], int, int], Sequence[Sequence[str]]], version: int = 0) -> None:
        self._fn, self.version = fn, version

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        n: int,
        seed: int,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> list[list[Completion]]:
        return [[Completion(t, len(t.split())) for t in row] for row in self._fn(prompts, n, seed)]

    def logprobs(self, prompts: Sequence[Prompt], completions: Sequence[str]) -> list[float | None]:
        return [None] * len(completions)
