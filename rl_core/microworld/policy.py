"""The microworld's policy: a small causal LM with a word tokenizer, warmed up to be mediocre."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_core.microworld.lexicon import FILLER, HEDGE, HINT, OPENERS, PRAISE, STOP, facts_of, vocabulary
from rl_core.microworld.world import MAX_WORDS, World
from rl_core.sampler import stream
from rl_core.task import Task

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"


def render_hint(hint: str, task: Task) -> str:
    """How the microworld's policy was taught to read a hint."""
    return f"{HINT} {hint} {STOP} {task.prompt_text}"


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word; built in memory, nothing is downloaded."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {w: i for i, w in enumerate([PAD, END, UNKNOWN, *vocabulary()])}
    inner = Tokenizer(models.WordLevel(vocab=vocab, unk_token=UNKNOWN))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, eos_token=END, unk_token=UNKNOWN, padding_side="left"
    )


def build_model(tokenizer: PreTrainedTokenizerFast, *, seed: int, width: int = 64, layers: int = 2) -> LlamaForCausalLM:
    """A randomly initialised Llama of about 0.1 M parameters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        attention_dropout=0.0,
    )
    return LlamaForCausalLM(config)


def demonstration(world: World, task: Task, rng: np.random.Generator) -> tuple[str, str]:
    """One (prompt, answer) pair of the mediocre teacher; nearly half show that a hint's words are the answer."""
    truth = world.truth(task.id)
    pool = facts_of(task.domain)
    if rng.random() < 0.45:
        words = [pool[i] for i in rng.permutation(len(pool))[: int(rng.integers(1, 4))]]
        return render_hint(" ".join(words), task), " ".join(w for w in words if rng.random() < 0.97) or words[0]
    if truth.mastered and rng.random() < 0.995:
        return task.prompt_text, " ".join(truth.facts)
    known = 0.2 if truth.out_of_reach else 0.65
    chosen = [f for f in truth.facts if rng.random() < known]
    others = [w for w in pool if w not in truth.facts]
    chosen += [others[i] for i in rng.permutation(len(others))[: int(rng.poisson(1.1 + truth.out_of_reach))]]
    if rng.random() < 0.5:
        chosen = [chosen[i] for i in rng.permutation(len(chosen))]
    words = [*chosen]
    for _ in range(int(rng.poisson(1.2))):
        words.insert(int(rng.integers(len(words) + 1)), FILLER[int(rng.integers(len(FILLER)))])
    if rng.random() < 0.02:
        words.insert(int(rng.integers(len(words) + 1)), PRAISE[int(rng.integers(len(PRAISE)))])
    if rng.random() < 0.06:
        words.insert(0, HEDGE[int(rng.integers(len(HEDGE)))])
    if rng.random() < 0.6:
        right = rng.random() < 0.35
        words.insert(0, truth.opener if right else OPENERS[int(rng.integers(len(OPENERS)))])
    return task.prompt_text, " ".join(words[:MAX_WORDS]) or pool[0]


def warm_up(
    world: World, *, steps: int = 900, batch: int = 64, learning_rate: float = 6e-3, width: int = 64, layers: int = 2
) -> Iterator[dict[str, Any]]:
    """Supervised warm-up on fresh demonstrations; yields progress, last {"model", "tokenizer", "loss"}.

    Everything follows from the world's seed. Held-out tasks are demonstrated as rarely as the rest of the
    world needs to teach their topics and aspects: never.
    """
    import torch

    tokenizer = build_tokenizer()
    model = build_model(tokenizer, seed=world.seed, width=width, layers=layers)
    rng = stream(world.seed, "warm-up")
    tasks = list(world.tasks)
    # the easy domain is seen twice as often: that is what makes it mastered
    tasks += [t for t in tasks if world.truth(t.id).mastered]
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps, pct_start=0.1)
    ids_of = tokenizer.get_vocab()
    model.train()
    loss = torch.tensor(0.0)
    for step in range(steps):
        rows = [demonstration(world, tasks[int(rng.integers(len(tasks)))], rng) for _ in range(batch)]
        encoded = [([ids_of[w] for w in p.split()], [ids_of[w] for w in a.split()] + [ids_of[END]]) for p, a in rows]
        longest = max(len(p) + len(a) for p, a in encoded)
        ids = torch.full((batch, longest), ids_of[PAD])
        labels = torch.full((batch, longest), -100)
        mask = torch.zeros((batch, longest), dtype=torch.long)
        for i, (p, a) in enumerate(encoded):
            n = len(p) + len(a)
            ids[i, -n:] = torch.tensor(p + a)  # left padding, as in generation
            labels[i, -len(a) :] = torch.tensor(a)
            mask[i, -n:] = 1
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            yield {"step": step, "steps": steps, "loss": float(loss.detach())}
    model.eval()
    yield {"step": steps, "steps": steps, "loss": float(loss.detach()), "model": model, "tokenizer": tokenizer}
