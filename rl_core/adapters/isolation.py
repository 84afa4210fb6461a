"""Leave no trace: keep the global random state and a model's mode as they were."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def preserved_rng() -> Iterator[None]:
    """Restore the random state of ``random``, numpy and torch (every CUDA device in use) on leaving."""
    import numpy as np
    import torch

    py, nump, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(py)
        np.random.set_state(nump)
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)


@contextlib.contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """``model.eval()`` inside; on leaving every submodule gets its own mode back (some may have been in eval)."""
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
