"""The TRL example runs with the real harness, and attaching stays short."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "trl_grpo.py"


def test_attaching_takes_under_fifteen_lines():
    added = [line for line in EXAMPLE.read_text(encoding="utf-8").splitlines() if line.split("  # +")[0] != line]
    assert 0 < len(added) < 15


def test_example_trains_with_a_harness_update(tmp_path, monkeypatch, capsys):
    pytest.importorskip("trl")
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--steps", "6", "--out", str(tmp_path / "out")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert "'train_rollouts': 288" in printed
    assert "'updates': 1" in printed
