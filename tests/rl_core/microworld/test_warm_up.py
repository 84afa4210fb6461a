"""The microworld's policy: one token a word, a mediocre teacher, and a warm-up that repeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rl_core.microworld.policy as policy
from harness_agents.templates import Templates, hint_renderer
from rl_core.microworld.lexicon import ASPECTS, HINT, STOP, facts_of, vocabulary
from rl_core.microworld.policy import build_model, build_tokenizer, demonstration, render_hint, warm_up
from rl_core.microworld.world import MAX_WORDS, Knobs, World
from rl_core.sampler import stream

WORLD = World(5, Knobs())


def demonstrations(n: int = 3000) -> Iterator[tuple[Any, str, str]]:
    rng = stream(0, "demonstrations")
    tasks = list(WORLD.tasks)
    for i in range(n):
        t = tasks[i % len(tasks)]
        yield t, *demonstration(WORLD, t, rng)


def last(run: Iterator[dict[str, Any]]) -> dict[str, Any]:
    *_, final = run
    return final


def test_one_token_a_word_and_back() -> None:
    tokenizer = build_tokenizer()
    assert len(tokenizer) == len(vocabulary()) + 3
    text = "hint fluids rest . medical fever cause"
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == 7
    assert tokenizer.decode(ids) == text
    assert tokenizer("nosuchword")["input_ids"] == [tokenizer.unk_token_id]
    assert tokenizer.padding_side == "left"


def test_the_model_is_small_and_follows_its_seed() -> None:
    tokenizer = build_tokenizer()
    a, b, c = (build_model(tokenizer, seed=s) for s in (1, 1, 2))
    assert 0.9e5 <= sum(p.numel() for p in a.parameters()) <= 2e5
    weights = [m.get_input_embeddings().weight.detach().numpy() for m in (a, b, c)]
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


def test_demonstrations_stay_in_the_language() -> None:
    known = set(vocabulary())
    for t, prompt, answer in demonstrations():
        assert set(prompt.split()) | set(answer.split()) <= known
        assert 1 <= len(answer.split()) <= MAX_WORDS
        assert prompt.endswith(t.prompt_text)
        assert len(prompt.split()) + len(answer.split()) < 60


def test_demonstrations_teach_hints_and_not_the_truth_alone() -> None:
    hinted, scores, tempted = [], [], 0
    for t, prompt, answer in demonstrations():
        if prompt != t.prompt_text:
            assert prompt.split()[0] == HINT
            shown = prompt.split()[1 : prompt.split().index(STOP)]
            hinted.append(len(set(answer.split()) & set(shown)) / len(set(answer.split()) & set(facts_of(t.domain))))
        elif not WORLD.truth(t.id).impossible and not WORLD.truth(t.id).mastered:
            scores.append(WORLD.gold(t.id, answer))
            tempted += "superb" in answer.split()
    assert 0.3 < len(hinted) / 3000 < 0.6
    assert np.mean(hinted) == pytest.approx(1.0)  # what a hint says is what the answer uses
    assert 0.1 < np.mean(scores) < 0.5  # mediocre
    assert tempted / len(scores) < 0.02  # praise is what optimisation has to find


def test_out_of_reach_tasks_are_rarely_shown_solved() -> None:
    solved: dict[bool, list[bool]] = {True: [], False: []}
    for t, prompt, answer in demonstrations(6000):
        truth = WORLD.truth(t.id)
        if prompt == t.prompt_text and not truth.mastered:
            solved[truth.out_of_reach].append(set(truth.facts) <= set(answer.split()))
    assert np.mean(solved[True]) < 0.03
    assert np.mean(solved[False]) > 0.15


def test_the_hint_of_the_run_is_the_hint_of_the_teacher() -> None:
    render = hint_renderer(Templates(None), "hints/microworld.j2")
    task = WORLD.tasks[WORLD.tasks.ids[0]]
    assert render("fluids rest", task) == render_hint("fluids rest", task)


def test_a_short_warm_up_lowers_the_loss() -> None:
    rows = list(warm_up(WORLD, steps=30, width=16))
    assert rows[0]["step"] == 0
    assert rows[-1]["step"] == rows[-1]["steps"] == 30
    assert rows[0]["loss"] > 5.0  # about log of the vocabulary
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.5
    assert rows[-1]["model"].training is False


def test_same_seed_same_weights() -> None:
    def weights(seed: int) -> dict[str, Any]:
        final = last(warm_up(World(seed, Knobs()), steps=6, batch=8, width=16))
        return {k: v.numpy() for k, v in final["model"].state_dict().items()}

    a, b, c = weights(5), weights(5), weights(6)
    assert all(np.array_equal(a[k], b[k]) for k in a)
    assert not all(np.array_equal(a[k], c[k]) for k in a)


def test_held_out_tasks_are_never_demonstrated(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()

    def spy(world: World, task: Any, rng: np.random.Generator) -> tuple[str, str]:
        seen.add(task.id)
        return demonstration(world, task, rng)

    monkeypatch.setattr(policy, "demonstration", spy)
    last(warm_up(WORLD, steps=20, width=16))
    assert len(seen) > 200
    assert seen <= set(WORLD.tasks.ids)
    assert not seen & set(WORLD.held_out.ids)


def test_only_answers_are_learned_and_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[dict[str, Any]] = []
    honest = policy.build_model

    def spied(*args: Any, **kwargs: Any) -> Any:
        model = honest(*args, **kwargs)
        forward = model.forward

        def noting(**given: Any) -> Any:
            batches.append(given)
            return forward(**given)

        monkeypatch.setattr(model, "forward", noting)
        return model

    monkeypatch.setattr(policy, "build_model", spied)
    tokenizer = last(warm_up(WORLD, steps=3, batch=16, width=16))["tokenizer"]
    assert len(batches) == 3
    for batch in batches:
        rows = zip(batch["input_ids"].tolist(), batch["labels"].tolist(), batch["attention_mask"].tolist(), strict=True)
        for ids, labels, mask in rows:
            start = next(i for i, x in enumerate(labels) if x != -100)
            assert labels[start:] == ids[start:]
            assert labels[-1] == tokenizer.eos_token_id
            # what comes before the answer is the prompt, with its aspect last, behind padding on the left
            assert tokenizer.decode(ids[start - 1]) in ASPECTS
            padding = mask.index(1)
            assert set(ids[:padding]) <= {tokenizer.pad_token_id}
            assert set(mask[padding:]) == {1}
