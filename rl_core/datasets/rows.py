"""JSON lines from outside: one row at a time, every fault named by file and row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl_core.errors import InputError

#: One row longer than this is not a task but a mistake.
MAX_ROW_CHARS = 5_000_000


def read_rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, row) for every non-empty line; place is "FILE, row N". Raises InputError."""
    p = Path(path)
    if not p.exists():
        raise InputError("no such file", where=str(p), field="tasks.source", mend="check the path")
    if p.is_dir():
        raise InputError(
            "is a folder, not a file", where=str(p), field="tasks.source", mend="name the .jsonl file in it"
        )
    empty = True
    try:
        with p.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                empty = False
                place = f"{p}, row {number}"
                if len(line) > MAX_ROW_CHARS:
                    raise InputError(
                        f"the row has {len(line)} characters", where=place, mend=f"at most {MAX_ROW_CHARS} are read"
                    )
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as e:
                    raise InputError(
                        f"not valid JSON ({e!s:.60})", where=place, mend="one JSON object per line"
                    ) from None
                if not isinstance(row, dict):
                    raise InputError(
                        f"a {type(row).__name__}, not an object", where=place, mend="one JSON object per line"
                    )
                yield place, row
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", where=str(p), mend="save the file as UTF-8") from None
    except OSError as e:
        raise InputError(f"cannot be read ({e.strerror})", where=str(p), mend="check the path and its rights") from None
    if empty:
        raise InputError("the file is empty", where=str(p), mend="one JSON object per line")
