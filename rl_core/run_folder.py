"""The folder of one training run: where each file lies, and writes that survive kill -9."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from rl_core.errors import InputError

#: Everything a run may write; nothing else in the folder is ever touched.
_FILES = ("config.yaml", "ledger.jsonl", "metrics.jsonl", "bank.jsonl", "summary.json", "report.html")
_FOLDERS = ("states", "rollouts", "memory", "checkpoints")


class RunFolder:
    """Paths of a run and atomic writes into it.

    ``create`` starts a new run, ``open`` goes on with an existing one; both raise InputError
    with the place and the mend.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.ledger = self.path / "ledger.jsonl"
        self.states = self.path / "states"
        self.rollouts = self.path / "rollouts"
        self.metrics = self.path / "metrics.jsonl"
        self.bank = self.path / "bank.jsonl"
        self.memory = self.path / "memory"
        self.checkpoints = self.path / "checkpoints"
        self.summary = self.path / "summary.json"
        self.report = self.path / "report.html"

    @classmethod
    def create(cls, path: str | Path, *, config_text: str | None = None, force: bool = False) -> Self:
        """A new run folder, with ``config.yaml`` when its text is given; ``force`` replaces an old run."""
        check_out(path, force=force)
        run = cls(path)
        try:
            if force and run.is_run:
                run.clear()
            for folder in (run.path, run.states, run.rollouts, run.checkpoints):
                folder.mkdir(parents=True, exist_ok=True)
            if config_text is not None:
                write_atomic(run.config, config_text)
        except OSError as e:
            raise _not_writable(run.path, e) from None
        return run

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """An existing run. Raises InputError when the folder holds none."""
        run = cls(path)
        if not run.is_run:
            problem = "holds no run" if run.path.is_dir() else "no such folder"
            raise InputError(problem, where=str(run.path), mend="name the --out folder of a run")
        for folder in (run.states, run.rollouts, run.checkpoints):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as e:
                raise _not_writable(run.path, e) from None
        return run

    @property
    def is_run(self) -> bool:
        return any(f.is_file() for f in (self.config, self.ledger, self.metrics))

    def state_file(self, version: int) -> Path:
        return self.states / f"v{version:04d}.json"

    def clear(self) -> None:
        """Remove the files of a run (and of its ``baseline``), and only those."""
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        for name in _FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        baseline = RunFolder(self.path / "baseline")
        if baseline.is_run:
            baseline.clear()

    def truncate_metrics(self, after_step: int) -> int:
        """Drop metric rows of steps later than ``after_step`` (resume); returns how many went."""
        rows = read_jsonl(self.metrics)
        kept = [r for r in rows if r.get("step", 0) <= after_step]
        if len(kept) < len(rows) or _is_torn(self.metrics):
            write_atomic(self.metrics, "".join(_line(r) for r in kept))
        return len(rows) - len(kept)


def check_out(path: str | Path, *, resume: bool = False, force: bool = False) -> None:
    """Refuse an output folder that cannot be used, without changing anything.

    Raises InputError when it already holds a run (unless ``resume`` or ``force``), when ``resume``
    finds none, or when the folder, or the nearest parent that exists, is not writable.
    """
    p = Path(path)
    try:
        holds_run = RunFolder(p).is_run
    except OSError as e:  # a name that no file system takes
        raise InputError(
            f"cannot be used ({e.strerror})", where=f"{str(p)[:80]}", mend="choose another --out"
        ) from None
    if resume and not holds_run:
        raise InputError(
            "holds no run to resume", where=str(p), mend="name the folder of the run, or leave --resume out"
        )
    if holds_run and not (resume or force):
        raise InputError(
            "holds a run already",
            where=str(p),
            mend="choose another --out, or pass --resume to go on or --force to replace it",
        )
    near = p.absolute()
    while not near.exists() and near != near.parent:
        near = near.parent
    if not near.is_dir():
        raise InputError(f"{near} is a file, not a folder", where=str(p), mend="choose another --out")
    if not os.access(near, os.W_OK | os.X_OK):
        raise InputError(f"{near} is not writable", where=str(p), mend="choose another --out or change its permissions")


def write_atomic(path: str | Path, data: str | bytes) -> None:
    """Write the whole file or leave the old one: temporary file, fsync, rename, fsync of the folder."""
    p = Path(path)
    temporary = p.with_name(f".{p.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as f:
            f.write(data.encode() if isinstance(data, str) else data)
            f.flush()
            os.fsync(f.fileno())
        temporary.replace(p)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(p.parent)


def append_line(path: str | Path, row: Mapping[str, Any]) -> None:
    """Append one JSON line; it is on disk when this returns.

    A last line without its newline was cut by a kill before its ``append_line`` returned, so
    nobody has relied on it: it is removed first.
    """
    p = Path(path)
    is_new = not p.exists()
    with p.open("ab+") as f:
        end = f.seek(0, os.SEEK_END)
        whole = _whole_length(p, end)
        if whole < end:
            f.truncate(whole)
        f.write(_line(row).encode())
        f.flush()
        os.fsync(f.fileno())
    if is_new:
        _sync_folder(p.parent)


def read_jsonl(path: str | Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file; none when it does not exist. A torn last line is left out, not repaired.

    Raises InputError naming the line when a whole line is not a JSON object.
    """
    p = Path(path)
    try:
        text = p.read_bytes()
    except FileNotFoundError:
        return []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.split(b"\n")[:-1], start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InputError("not a JSON object", where=f"{p}, line {number}", mend="restore or delete that line")
        rows.append(row)
    return rows


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(dict(row), ensure_ascii=False, allow_nan=False) + "\n"


def _whole_length(path: Path, end: int) -> int:
    """Length up to and including the last newline."""
    with path.open("rb") as f:
        position = end
        while position > 0:
            size = min(65536, position)
            position -= size
            f.seek(position)
            found = f.read(size).rfind(b"\n")
            if found >= 0:
                return position + found + 1
    return 0


def _is_torn(path: Path) -> bool:
    if not path.exists():
        return False
    end = path.stat().st_size
    return _whole_length(path, end) < end


def _sync_folder(folder: Path) -> None:
    """Make a new name in the folder durable; some file systems cannot, which is no reason to fail."""
    try:
        fd = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


def _not_writable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot be written ({error.strerror or error.__class__.__name__})",
        where=str(path),
        mend="choose another --out",
    )
