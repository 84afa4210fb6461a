"""One writer per folder: two processes on one embedded Chroma corrupt it without any error."""

from __future__ import annotations

import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path

from memory.errors import StoreError

LOCK = "writer.lock"
OWNER = "writer.json"


class WriterLock:
    """Lock of the operating system: it is freed when the process ends, however it ends.

    The owner's name lies in a file of its own, since some systems do not let others read a
    locked file. Raises StoreError with pid, host, run and start of the present owner.
    """

    def __init__(self, folder: Path, run: str | None = None) -> None:
        self._owner_file = folder / OWNER
        try:
            # never truncated and never deleted, so that all writers lock the same file
            self._fd: int | None = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as e:
            raise _unlockable(folder, e) from None
        try:
            _take(self._fd)
        except (BlockingIOError, PermissionError):
            os.close(self._fd)
            raise StoreError(
                f"another writer has this memory open: {_describe(self._owner_file)}",
                where=str(folder),
                mend="wait for it, give this run its own folder, or share a Chroma server (http://host:port)",
            ) from None
        except OSError as e:
            os.close(self._fd)
            raise _unlockable(folder, e) from None
        self._pid = os.getpid()
        owner = {
            "pid": self._pid,
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
            "run": run,
        }
        try:
            self._owner_file.write_text(json.dumps(owner), encoding="utf-8")
        except OSError as e:
            self.release()
            raise _unlockable(folder, e) from None

    def release(self) -> None:
        """Safe to call twice; a forked child cannot free its parent's lock."""
        if self._fd is None or self._pid != os.getpid():
            return
        self._owner_file.unlink(missing_ok=True)
        os.close(self._fd)  # closing is what unlocks
        self._fd = None


def _take(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        # flock, not lockf: it also keeps out a second memory in the same process
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlockable(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot be locked ({error.strerror})", where=str(folder), mend="use a local folder you may write to"
    )


def _describe(owner_file: Path) -> str:
    try:
        owner = json.loads(owner_file.read_text(encoding="utf-8"))
        pid, host, since = int(owner["pid"]), str(owner["host"]), str(owner["since"])
    except (OSError, ValueError, KeyError, TypeError):
        return "owner unknown"
    text = f"process {pid} on {host} since {since}"
    if owner.get("run"):
        text += f" (run {owner['run']!s:.80})"
    if host == socket.gethostname() and not _alive(pid):
        text += ", which has ended: one of its child processes holds the lock"
    return text


def _alive(pid: int) -> bool:
    if os.name == "nt":  # os.kill would end the process there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
