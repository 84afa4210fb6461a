"""Rows of metrics.jsonl: written once, and dropped again when a run goes back."""

from __future__ import annotations

from pathlib import Path

from harness_agents.metrics import append_once, forget_later
from rl_core.run_folder import append_line, read_jsonl


def test_a_row_with_the_same_key_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    for row in (
        {"kind": "eval", "step": 0, "gold": 1},
        {"kind": "eval", "step": 0, "gold": 2},
        {"kind": "eval", "step": 5},
    ):
        append_once(file, row, key=("kind", "step"))
    append_once(file, {"kind": "step", "step": 0}, key=("kind", "step"))
    assert read_jsonl(file) == [
        {"kind": "eval", "step": 0, "gold": 1},
        {"kind": "eval", "step": 5},
        {"kind": "step", "step": 0},
    ]


def test_going_back_drops_later_steps_updates_and_evaluations(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    for step in range(8):
        append_line(file, {"kind": "step", "step": step})
        append_line(file, {"kind": "eval", "step": step})
    for update, step in ((1, 3), (2, 6)):
        append_line(file, {"kind": "update", "update": update, "step": step})
    forget_later(file, rollout_step=4, update=1)  # saved after step 4, the fifth, was trained on
    kept = read_jsonl(file)
    assert [r["step"] for r in kept if r["kind"] == "step"] == [0, 1, 2, 3, 4]
    assert [r["step"] for r in kept if r["kind"] == "eval"] == [0, 1, 2, 3, 4, 5]  # the one after step 4 is numbered 5
    assert [r["update"] for r in kept if r["kind"] == "update"] == [1]
    before = file.stat().st_mtime_ns
    forget_later(file, rollout_step=4, update=1)
    assert file.stat().st_mtime_ns == before  # nothing to drop, nothing written
