"""Run folder: nothing half-written, nothing foreign touched, torn lines mended."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rl_core import run_folder
from rl_core.errors import InputError
from rl_core.run_folder import RunFolder, append_line, check_out, read_jsonl, write_atomic


def test_create_then_open(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "a" / "b", config_text="seed: 1\n")
    assert RunFolder.open(run.path).config.read_text() == "seed: 1\n"
    assert run.state_file(12).name == "v0012.json"
    assert sorted(p.name for p in run.path.iterdir()) == ["checkpoints", "config.yaml", "rollouts", "states"]


def test_open_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        RunFolder.open(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        RunFolder.open(tmp_path / "none")


def test_a_second_run_in_the_same_folder_is_refused_without_a_trace(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", config_text="seed: 1\n")
    with pytest.raises(InputError, match=r"holds a run already.*--resume.*--force"):
        RunFolder.create(run.path, config_text="seed: 2\n")
    assert run.config.read_text() == "seed: 1\n"
    check_out(run.path, resume=True)


def test_resume_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run to resume"):
        check_out(tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()


def test_force_removes_the_run_and_nothing_else(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, config_text="seed: 1\n")
    append_line(run.ledger, {"update": 1})
    (run.states / "v0000.json").write_text("{}")
    (tmp_path / "baseline" / "states").mkdir(parents=True)
    (tmp_path / "baseline" / "metrics.jsonl").write_text("")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "baseline" / "notes.txt").write_text("mine too")
    new = RunFolder.create(tmp_path, force=True)
    assert not new.is_run
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert left == ["baseline/notes.txt", "notes.txt"]


def test_force_leaves_a_folder_alone_that_only_looks_like_a_run_part(tmp_path: Path) -> None:
    """``baseline`` without a run in it, and ``memory`` of somebody else's project beside no run."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "mine.py").write_text("x")
    RunFolder.create(tmp_path, force=True)
    assert (tmp_path / "memory" / "mine.py").exists()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(InputError, match="is a file, not a folder"):
            check_out(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="not writable"):
        check_out(tmp_path / "run")
    tmp_path.chmod(0o700)


def test_no_write_access_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder.os, "access", lambda *_: False)
    with pytest.raises(InputError, match="not writable"):
        RunFolder.create(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_atomic_write_keeps_the_old_file_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "summary.json"
    write_atomic(target, "old")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_folder.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomic(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_a_torn_line_is_left_out_by_readers_and_mended_by_the_next_append(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_line(path, {"step": 1, "note": "é"})
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"step": 2, "rew')
    assert read_jsonl(path) == [{"step": 1, "note": "é"}]
    assert path.read_bytes() != whole, "reading must not change a file that another process writes"
    append_line(path, {"step": 2})
    assert read_jsonl(path) == [{"step": 1, "note": "é"}, {"step": 2}]


def test_a_torn_first_and_only_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step"')
    append_line(path, {"step": 1})
    assert path.read_text() == '{"step": 1}\n'


def test_a_torn_line_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_line(path, {"step": 1})
    with path.open("ab") as f:
        f.write(b"x" * 200_000)
    append_line(path, {"step": 2})
    assert [r["step"] for r in read_jsonl(path)] == [1, 2]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n[2]\n{"step": 3}\n')
    with pytest.raises(InputError, match="line 2"):
        read_jsonl(path)


def test_not_a_number_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with pytest.raises(ValueError, match="JSON"):
        append_line(path, {"reward": float("nan")})
    assert read_jsonl(path) == []


def test_truncate_metrics(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path)
    assert run.truncate_metrics(5) == 0
    for step in range(1, 8):
        append_line(run.metrics, {"kind": "step", "step": step})
    append_line(run.metrics, {"kind": "update", "step": 5, "update": 1})
    with run.metrics.open("a") as f:
        f.write('{"kind": "st')
    assert run.truncate_metrics(5) == 2
    assert [json.loads(x)["step"] for x in run.metrics.read_text().splitlines()] == [1, 2, 3, 4, 5, 5]
