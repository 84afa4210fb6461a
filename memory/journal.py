"""records.jsonl: the source of truth. The vectors beside it can always be made again.

One record a line, appended and fsynced before anything else happens; the last version of an
id wins. A process killed while it appends leaves at most one torn last line, which was never
acknowledged: it is cut off at the next open.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from memory.errors import StoreError
from memory.records import Record, parse_record

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")


class Journal:
    """Append-only JSONL file. The caller holds the folder's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        return self.path.exists()

    def read(self) -> list[Record]:
        """Repair a torn end, then all records, oldest first, each id once (its last version).

        Raises StoreError naming the line when one that is not the last cannot be read.
        """
        if not self.path.exists():
            return []
        raw = self._io(self.path.read_bytes, "read")
        whole = _repaired(raw, self.path)
        if whole != raw:
            self._rewrite(whole)
        records: dict[str, Record] = {}
        for number, line in enumerate(whole.split(b"\n"), start=1):
            if line.strip():
                record = _parse(line, f"{self.path}, line {number}")
                records.pop(record.id, None)  # a revision moves to its own place in time
                records[record.id] = record
        return list(records.values())

    def append(self, records: Sequence[Record]) -> None:
        """Write and fsync; on failure (disk full) the file is as before and StoreError is raised."""
        if not records:
            return
        data = "".join(record.to_line() + "\n" for record in records).encode("ascii")
        fresh = not self.path.exists()

        def write() -> None:
            with self.path.open("ab", buffering=0) as file:
                before = os.fstat(file.fileno()).st_size
                try:
                    view = memoryview(data)
                    while view:
                        view = view[file.write(view) :]
                    os.fsync(file.fileno())
                except OSError:
                    os.ftruncate(file.fileno(), before)
                    raise
            if fresh:
                _sync_folder(self.path.parent)

        self._io(write, "written")

    def replace(self, records: Iterable[Record]) -> None:
        """Put these records in place of all lines, atomically."""
        self._rewrite("".join(record.to_line() + "\n" for record in records).encode("ascii"))

    def _rewrite(self, data: bytes) -> None:
        self._io(lambda: write_atomically(self.path, data), "written")

    def _io(self, action: Callable[[], _T], verb: str) -> _T:
        try:
            return action()
        except OSError as e:
            raise StoreError(
                f"cannot be {verb} ({e.strerror or e.__class__.__name__})",
                where=str(self.path),
                mend="check space and rights",
            ) from None


def read_jsonl(path: Path) -> list[Record]:
    """Records of an exported file. Raises StoreError naming the line; nothing is repaired."""
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise StoreError(f"cannot be read ({e.strerror})", where=str(path), mend="check the path") from None
    lines = enumerate(raw.split(b"\n"), start=1)
    return [_parse(line, f"{path}, line {n}") for n, line in lines if line.strip()]


def write_atomically(path: Path, data: bytes) -> None:
    """Whole file or the old one, also after power loss."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    _sync_folder(path.parent)


def _repaired(raw: bytes, path: Path) -> bytes:
    if not raw:
        return raw
    ended = raw.endswith(b"\n")
    body = raw[:-1] if ended else raw
    start = body.rfind(b"\n") + 1
    try:
        json.loads(body[start:])
    except ValueError:
        _LOG.warning("memory: %s ended in a torn line (%d bytes), which was removed", path, len(raw) - start)
        return raw[:start]
    return raw if ended else raw + b"\n"


def _parse(line: bytes, where: str) -> Record:
    try:
        data = json.loads(line)
    except ValueError:
        raise StoreError("not JSON", where=where, mend="restore the line or remove it") from None
    return parse_record(data, where=where)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
