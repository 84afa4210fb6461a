from __future__ import annotations

import random

import numpy as np
import pytest

from rl_core.adapters.hf_policy import TransformersPolicy
from rl_core.errors import InputError
from rl_core.policy import FrozenPolicy
from rl_core.task import Message

torch = pytest.importorskip("torch")

PROMPTS = ["task w1 say w2", "task w3", "task w9 say w4 w5 w6"]


def policy(model, tokenizer, **kw):
    return TransformersPolicy(model, tokenizer, **({"max_tokens": 6, "temperature": 1.0} | kw))


def by_hand(model, prompt_ids, answer_ids, temperature=1.0):
    """Mean log-prob of the answer without padding or batching."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt_ids + answer_ids])).logits[0].double() / temperature
    logp = torch.log_softmax(logits, -1)
    at = range(len(prompt_ids) - 1, len(prompt_ids) + len(answer_ids) - 1)
    return sum(float(logp[t, a]) for t, a in zip(at, answer_ids, strict=True)) / len(answer_ids)


def spelled_out(c):
    """No special token was drawn midway, so that the text gives back the tokens."""
    return c.tokens == len(c.text.split()) + (not c.truncated)


def test_shape_limits_and_protocol(model, tokenizer):
    p = policy(model, tokenizer, version=3)
    assert isinstance(p, FrozenPolicy)
    assert p.version == 3
    rows = p.generate(PROMPTS, n=4, seed=1)
    assert [len(r) for r in rows] == [4, 4, 4]
    flat = [c for r in rows for c in r]
    assert all(1 <= c.tokens <= 6 for c in flat)
    assert all(not c.truncated or c.tokens == 6 for c in flat)
    ended = [c for c in p.generate(PROMPTS, n=30, seed=2, max_tokens=20)[0] if not c.truncated]
    assert sum(spelled_out(c) for c in ended) > len(ended) / 2  # the EOS counts
    assert any(c.truncated for c in flat)


def test_seed_decides(model, tokenizer):
    p = policy(model, tokenizer)
    assert p.generate(PROMPTS, n=4, seed=5) == p.generate(PROMPTS, n=4, seed=5)
    assert p.generate(PROMPTS, n=4, seed=5) != p.generate(PROMPTS, n=4, seed=6)
    torch.manual_seed(99)
    again = policy(model, tokenizer).generate(PROMPTS, n=4, seed=5)
    assert again == p.generate(PROMPTS, n=4, seed=5)


def test_greedy_ignores_the_seed(model, tokenizer):
    p = policy(model, tokenizer)
    one, two = (p.generate(PROMPTS, n=2, seed=s, temperature=0.0) for s in (1, 2))
    assert one == two
    assert one[0][0] == one[0][1]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprob_is_the_mean_over_tokens_and_eos(model, tokenizer, temperature):
    p = policy(model, tokenizer, temperature=temperature, max_tokens=12)
    for prompt, row in zip(PROMPTS, p.generate(PROMPTS, n=16, seed=3), strict=True):
        ids = tokenizer(prompt)["input_ids"]
        assert any(spelled_out(c) for c in row)
        for c in filter(spelled_out, row):
            answer = tokenizer(c.text, add_special_tokens=False)["input_ids"]
            answer += [] if c.truncated else [tokenizer.eos_token_id]
            assert c.logprob == pytest.approx(by_hand(model, ids, answer, temperature), abs=1e-4)


def test_logprobs_agree_with_generate_and_with_a_fresh_policy(model, tokenizer):
    p = policy(model, tokenizer)
    rows = p.generate(PROMPTS, n=5, seed=3)
    prompts = [q for q, row in zip(PROMPTS, rows, strict=True) for _ in row]
    prompts, flat = zip(
        *[(q, c) for q, c in zip(prompts, [c for row in rows for c in row], strict=True) if spelled_out(c)], strict=True
    )
    assert len(flat) > 5
    expected = [c.logprob for c in flat]
    assert p.logprobs(prompts, [c.text for c in flat]) == pytest.approx(expected, abs=1e-5)
    assert policy(model, tokenizer).logprobs(prompts, [c.text for c in flat]) == pytest.approx(expected, abs=1e-5)
    other = p.logprobs(["task w30 say w31"] * len(flat), [c.text for c in flat])
    assert max(abs(a - b) for a, b in zip(other, expected, strict=True)) > 0.01


def test_batch_size_does_not_change_logprobs(model, tokenizer, monkeypatch):
    answers = ["w1 w2", "w3", ""]
    whole = policy(model, tokenizer).logprobs(PROMPTS, answers)
    assert policy(model, tokenizer, batch_size=1).logprobs(PROMPTS, answers) == pytest.approx(whole, abs=1e-5)
    monkeypatch.setattr("rl_core.adapters.hf_policy.MAX_LOGITS", 1)
    assert policy(model, tokenizer).logprobs(PROMPTS, answers) == pytest.approx(whole, abs=1e-5)
    assert all(x is not None for x in whole)  # an empty answer still ends with its EOS


def test_chat_prompts_go_through_the_template(model, tokenizer):
    chat = (Message(role="system", content="hint w1"), Message(role="user", content="task w2"))
    p = policy(model, tokenizer)
    assert p._tokenize([chat]) == [tokenizer("system hint w1 user task w2 assistant")["input_ids"]]
    assert p._tokenize(["task w2"]) == [tokenizer("task w2")["input_ids"]]
    assert len(p.generate([chat], n=2, seed=1)[0]) == 2


def test_nothing_is_left_behind(model, tokenizer):
    model.train()
    model.model.layers[0].eval()  # a part that the user froze
    model.generation_config.temperature = 0.2
    config, before = model.generation_config, model.generation_config.to_dict()
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    modes = [m.training for m in model.modules()]
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()

    p = policy(model, tokenizer)
    first = p.generate(PROMPTS, n=2, seed=0)
    p.logprobs(PROMPTS, ["w1", "w2 w3", "w4"])

    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states
    assert [m.training for m in model.modules()] == modes
    assert model.generation_config is config
    assert config.to_dict() == before
    assert all(torch.equal(v, weights[k]) for k, v in model.state_dict().items())
    assert all(x.grad is None for x in model.parameters())
    # and the model's own settings have no say
    model.generation_config.temperature, model.generation_config.repetition_penalty = 5.0, 9.0
    model.generation_config.top_p = 0.01
    assert p.generate(PROMPTS, n=2, seed=0) == first


def test_an_error_inside_still_restores(model, tokenizer, monkeypatch):
    model.train()
    config, state = model.generation_config, torch.get_rng_state().tolist()
    monkeypatch.setattr(model, "generate", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        policy(model, tokenizer).generate(PROMPTS, n=1, seed=0)
    assert model.generation_config is config
    assert model.training
    assert torch.get_rng_state().tolist() == state


@pytest.mark.parametrize(
    ("kw", "field"),
    [({"max_tokens": 0}, "max_tokens"), ({"temperature": -1.0}, "temperature"), ({"batch_size": 0}, "batch_size")],
)
def test_bad_numbers_are_named(model, tokenizer, kw, field):
    with pytest.raises(InputError, match=field):
        policy(model, tokenizer, **kw)


def test_bad_calls_are_named(model, tokenizer):
    p = policy(model, tokenizer)
    with pytest.raises(InputError, match="at least 1"):
        p.generate(PROMPTS, n=0, seed=0)
    with pytest.raises(InputError, match="one prompt for each"):
        p.logprobs(PROMPTS, ["w1"])
    with pytest.raises(InputError, match="without tokens"):
        p.generate([""], n=1, seed=0)
