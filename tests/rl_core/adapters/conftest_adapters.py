"""Tiny models, in-memory tokenizers and a fake harness for the adapter tests."""

from __future__ import annotations

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rl_core.guidance import GuidedPrompt
from rl_core.judge.checks import Scorer
from rl_core.policy import FrozenPolicy
from rl_core.rollout import Rollout
from rl_core.rubric import CheckRoute, Criterion, Rubric, group_rewards
from rl_core.sampler import stream
from rl_core.state import HarnessState
from rl_core.task import Message, Task, TaskSet
from rl_core.verdict import Verdict

WORDS = [f"w{i}" for i in range(40)] + ["hint", "say", "task"]
CHAT = (
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant {% endif %}"
)


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<eos>", "<unk>", "system", "user", "assistant", *WORDS]
    tok = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tok,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
        chat_template=CHAT,
    )


def make_model(tokenizer: Any, *, seed: int = 0, dropout: float = 0.0) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=64,
            attention_dropout=dropout,
            initializer_range=0.3,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            tie_word_embeddings=True,
        )
    )
    return model


class Scored(NamedTuple):
    reward: float | None
    verdicts: dict[str, Verdict]


class Outcome(NamedTuple):
    error: str | None = None


class FakeHarness:
    """A harness with no agents: uniform draws over ``self.allowed``, hints on the first half when ``self.hint``."""

    def __init__(
        self,
        tasks: TaskSet,
        *,
        hint: str | None = None,
        updates: Sequence[int] = (),
        update: Callable[[FakeHarness, int, FrozenPolicy], None] | None = None,
        error: str | None = None,
        withheld: Callable[[str], bool] = lambda text: False,
    ) -> None:
        self._tasks, self._state = tasks, HarnessState()
        self.hint, self._updates, self._update, self._error, self._withheld = hint, updates, update, error, withheld
        self.allowed = tasks.ids
        self.rollouts: list[Rollout] = []
        self.draws: list[tuple[int, list[str]]] = []
        self.score_calls: list[tuple[list[str], list[int], int | None]] = []
        self.policies: list[FrozenPolicy] = []

    @property
    def state(self) -> HarnessState:
        return self._state

    @property
    def tasks(self) -> TaskSet:
        return self._tasks

    def advance(self) -> None:
        self._state = self._state.model_copy(update={"version": self._state.version + 1})

    def draw(self, n: int, step: int) -> list[Task]:
        ids = [str(x) for x in stream(7, "draw", step).choice(self.allowed, size=n, replace=n > len(self.allowed))]
        self.draws.append((step, ids))
        return [self._tasks[i] for i in ids]

    def guide(self, tasks: Sequence[Task], group_size: int, step: int) -> list[list[GuidedPrompt]]:
        out = []
        for t in tasks:
            row = [GuidedPrompt(t.id, t.prompt, t.prompt)] * group_size
            if self.hint is not None:
                with_hint: Any = (
                    f"{self.hint} {t.prompt}"
                    if isinstance(t.prompt, str)
                    else (Message(role="system", content=self.hint), *t.prompt)
                )
                k = group_size // 2
                row = [GuidedPrompt(t.id, with_hint, t.prompt, "g1")] * k + row[k:]
            out.append(row)
        return out

    def score(
        self, tasks: Sequence[Task], completions: Sequence[Sequence[str]], version: int | None = None
    ) -> list[list[Scored]]:
        self.score_calls.append(([t.id for t in tasks], [len(c) for c in completions], version))
        out = []
        for task, texts in zip(tasks, completions, strict=True):
            rubric = self._state.rubric_for(task)
            verdicts = Scorer().verdicts(task, texts, rubric)
            rewards = group_rewards(rubric, verdicts)
            out.append(
                [Scored(None if self._withheld(x) else r, v) for x, r, v in zip(texts, rewards, verdicts, strict=True)]
            )
        return out

    def observe(self, rollouts: Sequence[Rollout]) -> None:
        self.rollouts.extend(rollouts)

    def due(self, step: int) -> bool:
        return step in self._updates

    def checkpoint(self, step: int, policy: FrozenPolicy) -> Outcome:
        self.policies.append(policy)
        if self._update is not None:
            self._update(self, step, policy)
        return Outcome(self._error)

    def state_dict(self) -> dict[str, Any]:
        return {"version": self._state.version, "allowed": self.allowed, "hint": self.hint}

    def load_state_dict(self, d: dict[str, Any]) -> None:
        self._state = self._state.model_copy(update={"version": d["version"]})
        self.allowed, self.hint = d["allowed"], d["hint"]

    def counts(self) -> dict[str, Any]:
        return {"train_rollouts": len(self.rollouts)}


def make_tasks(n: int = 12, *, chat: bool = False) -> TaskSet:
    """Criteria that a random policy meets now and then: many different words, few low ones."""
    from rl_core.judge import checks

    if "test_adapter_share" not in checks._REGISTRY:
        checks.register("test_adapter_share")(_share)
    out = []
    for i in range(n):
        text = f"task w{i} say w{i + 1}" + (" w3" if i % 3 == 0 else "")
        rubric = Rubric(
            criteria=(
                Criterion(
                    id=f"even-{i}",
                    text="even words",
                    category="even",
                    weight=2.0,
                    route=CheckRoute(name="test_adapter_share", params={"step": 2}),
                ),
                Criterion(
                    id=f"third-{i}",
                    text="every third word",
                    category="third",
                    route=CheckRoute(name="test_adapter_share", params={"step": 3}),
                ),
            )
        )
        out.append(Task(id=f"t{i}", prompt=(Message(role="user", content=text),) if chat else text, rubric=rubric))
    return TaskSet(out)


def _share(completion: str, task: Task, step: int) -> float:
    words = [w for w in completion.split() if w[1:].isdigit()]
    return sum(int(w[1:]) % step == 0 for w in words) / len(words) if words else 0.0
