"""Fixtures of the adapter tests; the builders lie in conftest_adapters.py so that tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from conftest_adapters import make_model, make_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return make_tokenizer()


@pytest.fixture
def model(tokenizer: Any) -> Any:
    return make_model(tokenizer)
