"""The loop written by hand: short, and the harness repairs its rubric while it runs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "examples" / "plain_loop.py"


@pytest.fixture
def example() -> ModuleType:
    from rl_core.judge import checks

    checks._REGISTRY.pop("plain.says", None)  # a second load of the file registers its check anew
    spec = importlib.util.spec_from_file_location("plain_loop_example", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_at_most_60_lines() -> None:
    assert len(FILE.read_text(encoding="utf-8").splitlines()) <= 60


def test_it_repairs_the_rubric_and_gold_rises(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    before, _ = example.main(1)
    gold, version = example.main()
    assert version >= 1
    assert gold > before + 0.2
    assert "retire praise" in capsys.readouterr().out
