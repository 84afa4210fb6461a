"""RolloutLog: one parquet file per step, written atomically, read back with filters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_core.errors import InputError
from rl_core.rollout import Phase, Rollout
from rl_core.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

_NAME = re.compile(r"step-(\d+)\.parquet")


class RolloutLog:
    """Rollouts of a run in ``folder`` (``step-000042.parquet``).

    ``append`` buffers, ``flush`` writes. What one instance adds to a step that it wrote itself joins
    that file (a later row replaces one with the same id); the file of an earlier process is replaced,
    so a step that is repeated after a resume leaves no duplicates. Not for two writers at once.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._buffer: dict[int, list[tuple[Rollout, str]]] = {}
        self._mine: set[int] = set()

    def append(self, rollouts: Sequence[Rollout], domains: Mapping[str, str]) -> None:
        """Keep for the next ``flush``. ``domains``: task id -> domain ("" where unknown).

        What a completion holds that is no Unicode text (a lone surrogate) is kept as "?".
        """
        for r in rollouts:
            text = r.completion.encode("utf-8", errors="replace").decode("utf-8")
            if text != r.completion:
                r = replace(r, completion=text)
            self._buffer.setdefault(r.step, []).append((r, domains.get(r.task_id, "")))

    def flush(self) -> None:
        """Write one file per buffered step. Raises InputError when the folder cannot be written."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for step in sorted(self._buffer):
            path = self._path(step)
            temporary = path.with_suffix(".tmp")
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.table(_columns(self._rows(step)), schema=_schema()), temporary, compression="zstd")
                temporary.replace(path)
            except OSError as e:
                raise InputError(
                    f"cannot be written ({e.strerror or e.__class__.__name__})",
                    where=str(path),
                    mend="free space or choose another run folder",
                ) from None
            self._mine.add(step)
            del self._buffer[step]

    def read(
        self, *, min_step: int | None = None, max_step: int | None = None, phases: Iterable[Phase] | None = None
    ) -> list[Rollout]:
        """Rollouts in order of step, buffered ones included; steps are inclusive bounds.

        Raises InputError naming the file that is not a rollout log.
        """
        wanted = None if phases is None else set(phases)
        out: list[Rollout] = []
        for step in self.steps:
            if (min_step is None or step >= min_step) and (max_step is None or step <= max_step):
                out += [r for r, _ in self._rows(step) if wanted is None or r.phase in wanted]
        return out

    def truncate(self, after_step: int) -> int:
        """Remove what lies after ``after_step`` (resume from an older checkpoint); number of files removed."""
        for step in [s for s in self._buffer if s > after_step]:
            del self._buffer[step]
        self._mine = {s for s in self._mine if s <= after_step}
        late = [path for step, path in self._files() if step > after_step]
        for path in late:
            path.unlink()
        return len(late)

    @property
    def steps(self) -> list[int]:
        """Steps with rollouts, in order, buffered ones included."""
        return sorted({*(step for step, _ in self._files()), *self._buffer})

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:06d}.parquet"

    def _rows(self, step: int) -> list[tuple[Rollout, str]]:
        """What the file of this step holds once everything is flushed."""
        new = self._buffer.get(step, [])
        old = _read(self._path(step)) if not new or step in self._mine else []
        return list({row[0].id: row for row in (*old, *new)}.values())

    def _files(self) -> list[tuple[int, Path]]:
        if not self.folder.is_dir():
            return []
        return sorted((int(m[1]), p) for p in self.folder.iterdir() if (m := _NAME.fullmatch(p.name)))


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, number, whole = pa.string(), pa.float64(), pa.int64()
    return pa.schema([
        ("id", text), ("task_id", text), ("domain", text), ("group_id", text), ("step", whole), ("completion", text),
        ("policy_version", whole), ("harness_version", whole), ("phase", text), ("guidance_id", text),
        ("reward", number), ("tokens", whole), ("truncated", pa.bool_()), ("logprob", number),
        ("logprob_plain", number), ("verdicts", pa.map_(text, number)), ("causes", pa.map_(text, text)),
    ])  # fmt: skip


def _columns(rows: Sequence[tuple[Rollout, str]]) -> dict[str, list[Any]]:
    plain = (
        "id", "task_id", "group_id", "step", "completion", "policy_version", "harness_version", "phase",
        "guidance_id", "reward", "tokens", "truncated", "logprob", "logprob_plain",
    )  # fmt: skip
    columns: dict[str, list[Any]] = {name: [getattr(r, name) for r, _ in rows] for name in plain}
    columns["domain"] = [domain for _, domain in rows]
    columns["verdicts"] = [[(cid, v.value) for cid, v in r.verdicts.items()] for r, _ in rows]
    columns["causes"] = [[(cid, v.cause) for cid, v in r.verdicts.items() if v.cause is not None] for r, _ in rows]
    return columns


def _read(path: Path) -> list[tuple[Rollout, str]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        data = pq.read_table(path, schema=_schema()).to_pylist()
    except (OSError, pa.ArrowException) as e:
        first = str(e).splitlines()[0] if str(e) else e.__class__.__name__
        raise InputError(
            f"not a rollout log ({first:.80})", where=str(path), mend="delete the file or restore it"
        ) from None
    out = []
    for row in data:
        domain = row.pop("domain")
        causes = dict(row.pop("causes"))
        verdicts = {cid: Verdict(value, causes.get(cid)) for cid, value in row.pop("verdicts")}
        out.append((Rollout(**row, verdicts=verdicts), domain))
    return out
