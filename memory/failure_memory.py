"""FailureMemory: what failed before, what was tried, and what came of it."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from memory.embedding import Embedder, HashingEmbedder, default_embedder, minilm_installed
from memory.errors import StoreError
from memory.journal import Journal, read_jsonl, write_atomically
from memory.lock import WriterLock
from memory.minilm import MiniLMEmbedder
from memory.recall import Recalled, Similar, merge, newest_first
from memory.records import EditOutcome, Record, parse_record
from memory.store import ChromaStore, Entry, Filters, MemoryStore

_LOG = logging.getLogger(__name__)

JOURNAL = "records.jsonl"
IN_MEMORY = ":memory:"
#: Weight changes at least this parallel repeat (or, mirrored, reverse) each other.
SAME_DIRECTION = 0.9
#: Neighbours looked at before a filter is left to the store.
WIDE = 100


class FailureMemory:
    """Records in a journal (the truth) and their vectors in a store (an index of it).

    Open it with :meth:`open`. All methods raise StoreError, one clear line. Threads may share
    it; a forked child may not use it (Chroma hangs there) and is told so.
    """

    def __init__(
        self,
        store: MemoryStore,
        embedder: Embedder,
        *,
        journal: Journal | None = None,
        lock: WriterLock | None = None,
        run: str | None = None,
    ) -> None:
        self._store, self._embedder, self._journal, self._lock = store, embedder, journal, lock
        self.run = run
        self._records: dict[str, Record] = {}  # in order of arrival
        self._ages: list[tuple[int, int, str]] = []  # sort keys, newest record first
        self._edits: dict[tuple[str, str], set[str]] = {}
        self._pending: dict[str, Record] = {}
        self._partitions: set[str] = set()
        self._pid, self._closed = os.getpid(), False
        self._guard = threading.RLock()

    # ---- opening and closing

    @classmethod
    def open(
        cls,
        path_or_url: str | Path,
        *,
        embedder: str | Embedder = "auto",
        run: str | None = None,
        journal: str | Path | None = None,
        rebuild: bool = False,
    ) -> FailureMemory:
        """Open a folder (made if needed), a Chroma server (``http://host:port``) or ``:memory:``.

        ``embedder``: "auto" (what the store was written with, else MiniLM where installed,
        else hashing), "minilm", "hashing", or any Embedder. ``run``: name of this run; recall's
        recent part then comes from it alone. ``journal``: file for the journal of this writer
        when a server is used (a folder has its own). ``rebuild``: make all vectors again, the
        mend after a change of embedder or a damaged index.
        Raises StoreError when another writer has the folder, or the embedder is not the one
        the vectors were made with.
        """
        target = str(path_or_url)
        lock: WriterLock | None = None
        book: Journal | None = None
        store: MemoryStore | None = None
        try:
            if target == IN_MEMORY:
                store = ChromaStore.in_memory()
            elif target.startswith(("http://", "https://")):
                if journal is not None:
                    book = Journal(Path(journal))
                    lock = _locked(book.path.parent, run)
                store = ChromaStore.server(target)
            elif "://" in target:
                raise StoreError("unknown kind of address", mend="give a folder, or http://host:port")
            else:
                folder = Path(target)
                lock = _locked(folder, run)
                book = Journal(folder / JOURNAL)
                # without a journal the index is all there is: never start by deleting it
                store = ChromaStore.embedded(folder, fresh=rebuild and book.exists())
            memory = cls(store, _choose(embedder, store, rebuild), journal=book, lock=lock, run=run)
            memory._load(rebuild)
            return memory
        except BaseException:
            try:
                if store is not None:
                    store.close()
            finally:
                if lock is not None:
                    lock.release()
            raise

    def close(self) -> None:
        """Release store and lock; safe to call twice."""
        if self._closed or self._pid != os.getpid():
            return
        with self._guard:
            self._closed = True
            try:
                self._store.close()
            finally:
                if self._lock is not None:
                    self._lock.release()

    def __enter__(self) -> FailureMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def where(self) -> str:
        return self._store.where

    @property
    def embedding(self) -> str:
        """Name of the embedder in use."""
        return self._embedder.name

    # ---- writing

    def remember(self, records: Iterable[Record | Mapping[str, Any]]) -> int:
        """Write records; return how many were new or changed.

        The journal is written and synced first, so a record survives kill -9 from then on; the
        index catches up, here or at the next open. The same record twice is one record; a
        changed one replaces its earlier version.
        """
        given = [r if isinstance(r, Record) else parse_record(dict(r)) for r in records]
        with self._guard:
            self._refresh()
            latest = {r.id: r for r in given}
            new = [r for r in latest.values() if (old := self._records.get(r.id)) is None or old != r]
            if not new:
                return 0
            if self._journal is not None:
                self._journal.append(new)
            stale = [self._records[r.id] for r in new if r.id in self._records]
            for record in new:
                self._admit(record)
                self._pending[record.id] = record
            self._unindex(stale)  # first, so that a server never holds two versions
            self._index()
            return len(new)

    def truncate(self, after_update: int, run: str | None = None) -> int:
        """Forget the records of ``run`` (default: this run) with a later update; return how many.

        For resuming from a checkpoint: what happened after it has not happened.
        """
        name = run if run is not None else self.run
        if name is None:
            raise StoreError("truncate needs the name of a run", mend="pass run=, or open the memory with run=")
        with self._guard:
            self._refresh()
            gone = [r for r in self._records.values() if r.run == name and r.update > after_update]
            if not gone:
                return 0
            ids = {r.id for r in gone}
            if self._journal is not None:
                self._journal.replace(r for r in self._journal.read() if r.id not in ids)
            for record in gone:
                self._dismiss(record.id)
            self._unindex(gone)
            return len(gone)

    def rebuild(self) -> int:
        """Make every vector again; return how many. A server needs a journal, which keeps all meanwhile."""
        with self._guard:
            self._refresh(rebuilding=True)
            if self._store.shared:
                if self._journal is None:
                    raise StoreError(
                        "making a server's vectors again would risk its records",
                        where=self.where,
                        mend="open it with journal=FILE, which then holds a copy",
                    )
                self._journal.replace(self._records.values())
            for partition in sorted(self._partitions):
                self._store.drop(partition)
            self._partitions.clear()
            self._pending = dict(self._records)
            self._index()
            return len(self._records)

    def import_(self, path: str | Path) -> int:
        """Remember the records of an exported file; return how many were new or changed."""
        return self.remember(read_jsonl(Path(path)))

    # ---- reading

    def recall(
        self,
        query_text: str,
        *,
        interface: str | None = None,
        domain: str | None = None,
        outcome: str | Sequence[str] | None = None,
        kind: str | None = None,
        recent: int = 3,
        near: int = 3,
        max_chars: int = 4000,
    ) -> list[Recalled]:
        """The ``recent`` newest records and the ``near`` ones closest in meaning, as one list.

        Filters must all hold; a ``domain`` also lets through what concerns all domains. What
        tells the same thing (figures aside) comes once. A near one must lie above the
        embedder's floor, so the list is empty when nothing fits and nothing is recent.
        ``max_chars`` bounds the sum of the lines (``Recalled.line``). Best score first, newer
        first at a tie; equal content gives equal lists.
        """
        if min(recent, near, max_chars) < 0:
            raise StoreError("recent, near and max_chars must not be negative", where="recall")
        outcomes = [outcome] if isinstance(outcome, str) else None if outcome is None else list(outcome)
        if outcomes == []:
            return []
        filters: dict[str, Sequence[str]] = {}
        if domain is not None:
            filters["domain"] = sorted({domain, ""})
        if outcomes is not None:
            filters["outcome"] = sorted(set(outcomes))
        with self._guard:
            self._refresh()
            self._index()
            vector = self._embedder.embed([query_text])[0] if query_text.strip() and self._records else None
            hits = self._nearest(vector, near, filters, kind, interface) if vector is not None and near else []
            # wide enough to fill up after the same thing told again and again
            newest = self._newest(recent, filters, kind, interface)
            scores = self._cosines(vector, newest, {h.record.id: h.score for h in hits})
            latest = [Recalled(r, scores.get(r.id), f"recent, update {r.update}") for r in newest]
            return merge(latest, hits, n_recent=recent, n_near=near, max_chars=max_chars)

    def tried(self, interface: str, edit_key: str) -> list[EditOutcome]:
        """Earlier outcomes of the edit with this key, newest first."""
        with self._guard:
            self._refresh()
            found = [self._records[i] for i in self._edits.get((interface, edit_key), ())]
            return sorted((r for r in found if isinstance(r, EditOutcome)), key=newest_first)

    def similar_composite(self, weights: Mapping[str, float], *, domain: str | None = None) -> list[Similar]:
        """Earlier edits whose weight change is parallel (repeat) or opposite (reversal).

        ``weights``: {criterion family: log2 change} (``log2_change``); it is compared with
        ``data["change"]`` by cosine, above .9 or below -.9. ``domain``: only edits of that very
        scope ("" is all domains). Most parallel or opposite first, newer first at a tie.
        """
        if any(not math.isfinite(x) for x in weights.values()):
            raise StoreError("weight changes must be finite", where="similar_composite")
        with self._guard:
            self._refresh()
            found: list[Similar] = []
            for ids in self._edits.values():
                for record in (self._records[i] for i in ids):
                    if isinstance(record, EditOutcome) and (domain is None or record.domain == domain):
                        cosine = _cosine(weights, record.change)
                        if abs(cosine) > SAME_DIRECTION:
                            found.append(Similar(record, cosine, "repeat" if cosine > 0 else "reversal"))
            return sorted(found, key=lambda s: (-round(abs(s.cosine), 5), *newest_first(s.record)))

    def records(self, *, kind: str | None = None, run: str | None = None) -> list[Record]:
        """All records in order of arrival."""
        with self._guard:
            self._refresh()
            return [r for r in self._records.values() if kind in (None, r.kind) and run in (None, r.run)]

    def count(self, *, kind: str | None = None, run: str | None = None) -> int:
        return len(self.records(kind=kind, run=run))

    def export(self, path: str | Path) -> int:
        """Write all records as JSONL (whole file or nothing); return how many."""
        target, records = Path(path), self.records()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, "".join(r.to_line() + "\n" for r in records).encode("ascii"))
        except OSError as e:
            raise StoreError(f"cannot be written ({e.strerror})", where=str(target), mend="check the path") from None
        return len(records)

    # ---- inside: records in memory

    def _admit(self, record: Record) -> None:
        self._dismiss(record.id)
        self._records[record.id] = record
        insort(self._ages, newest_first(record))
        if isinstance(record, EditOutcome):
            self._edits.setdefault((record.interface, record.key), set()).add(record.id)

    def _dismiss(self, record_id: str) -> None:
        record = self._records.pop(record_id, None)
        if record is None:
            return
        self._pending.pop(record_id, None)
        del self._ages[bisect_left(self._ages, newest_first(record))]
        if isinstance(record, EditOutcome):
            self._edits[record.interface, record.key].discard(record_id)

    def _newest(self, n: int, filters: Filters, kind: str | None, interface: str | None) -> list[Record]:
        found: list[Record] = []
        for *_, record_id in self._ages:
            if len(found) >= _widened(n):
                break
            r = self._records[record_id]
            if (
                self.run in (None, r.run)
                and kind in (None, r.kind)
                and interface in (None, r.interface)
                and _passes(r, filters)
            ):
                found.append(r)
        return found

    # ---- inside: the index

    def _load(self, rebuild: bool) -> None:
        """Records from the journal, then make the index agree with it."""
        recovered = self._journal is not None and not self._journal.exists() and not self._store.shared
        if self._journal is not None:
            for record in self._journal.read():
                self._admit(record)
        self._partitions = set(self._store.partitions())
        if self._store.shared or recovered:
            self._pull(thorough=True)
        if recovered and self._journal is not None:
            if self._records:
                _LOG.warning("memory: %s was missing; restored from the index", self._journal.path)
            self._journal.replace(self._records.values())
        if rebuild:
            self.rebuild()
            return
        present = {p: self._store.ids(p) for p in self._partitions}
        wanted: dict[str, set[str]] = {}
        for record in self._records.values():
            wanted.setdefault(_partition(record), set()).add(_entry_id(record))
            if _entry_id(record) not in present.get(_partition(record), ()):
                self._pending[record.id] = record
        if self._pending and present:
            _LOG.info("memory: %d records were not in the index yet", len(self._pending))
        if not self._store.shared:  # others' records on a server are not ours to remove
            for partition, ids in present.items():
                if extra := sorted(ids - wanted.get(partition, set())):
                    self._store.delete(partition, extra)
        self._index()

    def _index(self) -> None:
        """Give every record that lacks one its vector."""
        if not self._pending:
            return
        batches: dict[str, list[Record]] = {}
        for record in self._pending.values():
            batches.setdefault(_partition(record), []).append(record)
        for partition, records in sorted(batches.items()):
            vectors = self._embedder.embed([r.text for r in records])
            entries = [Entry(_entry_id(r), v, _metadata(r), r.to_line()) for r, v in zip(records, vectors, strict=True)]
            self._store.add(partition, self._embedder.fingerprint, entries)
            self._partitions.add(partition)
            for record in records:
                del self._pending[record.id]

    def _unindex(self, records: Iterable[Record]) -> None:
        stale: dict[str, list[str]] = {}
        for record in records:
            if _partition(record) in self._partitions:
                stale.setdefault(_partition(record), []).append(_entry_id(record))
        for partition, ids in sorted(stale.items()):
            self._store.delete(partition, ids)

    def _nearest(
        self, vector: Sequence[float], n: int, filters: Filters, kind: str | None, interface: str | None
    ) -> list[Recalled]:
        hits: list[Recalled] = []
        for partition in sorted(self._partitions):
            of_kind, _, of_interface = partition.partition(".")
            if kind in (None, of_kind) and interface in (None, of_interface):
                hits.extend(self._search(partition, vector, _widened(n), filters))
        hits.sort(key=lambda h: (-round(h.score or 0.0, 5), *newest_first(h.record)))
        return hits

    def _search(self, partition: str, vector: Sequence[float], n: int, filters: Filters) -> list[Recalled]:
        # Chroma's broad filters are slow (70 ms at 10,000 records) and searches are not (3 ms):
        # search wide and filter here, and let Chroma filter only when too few are left
        wide = max(WIDE, 2 * n) if filters else n
        found = self._store.query(partition, vector, wide, {})
        hits = self._known(found, filters)
        exhausted = len(found) < wide or found[-1][1] <= self._embedder.floor
        if filters and len(hits) < n and not exhausted:
            hits = self._known(self._store.query(partition, vector, n, filters), filters)
        return hits[:n]

    def _known(self, found: Sequence[tuple[str, float]], filters: Filters) -> list[Recalled]:
        hits: list[Recalled] = []
        for entry_id, cosine in found:
            record = self._records.get(entry_id.partition(".")[0])
            if record is None or _entry_id(record) != entry_id or not _passes(record, filters):
                continue
            if cosine > self._embedder.floor:
                hits.append(Recalled(record, cosine, f"near {cosine:.2f}"))
        return hits

    def _cosines(
        self, vector: Sequence[float] | None, records: Sequence[Record], known: Mapping[str, float | None]
    ) -> dict[str, float]:
        scores = {i: s for i, s in known.items() if s is not None}
        if vector is None:
            return scores
        unknown: dict[str, list[Record]] = {}
        for record in records:
            if record.id not in scores:
                unknown.setdefault(_partition(record), []).append(record)
        for partition, missing in sorted(unknown.items()):
            vectors = self._store.vectors(partition, [_entry_id(r) for r in missing])
            for record in missing:
                if (other := vectors.get(_entry_id(record))) is not None:
                    scores[record.id] = sum(a * b for a, b in zip(vector, other, strict=True))
        return scores

    def _refresh(self, *, rebuilding: bool = False) -> None:
        """Refuse what cannot work; on a server also take in what others wrote."""
        if self._pid != os.getpid():
            raise StoreError(
                "opened before this process was forked", where=self.where, mend="open it in the process that uses it"
            )
        if self._closed:
            raise StoreError("already closed", where=self.where, mend="open it again")
        if self._store.shared:
            written = self._store.partitions()
            if not rebuilding:
                _check_embedder(set(written.values()), self._embedder, self.where)
            self._partitions = set(written)
            self._pull()

    def _pull(self, *, thorough: bool = False) -> None:
        """Records from the index, where it holds others than we know."""
        known: dict[str, set[str]] = {}
        for record in self._records.values():
            if record.id not in self._pending:
                known.setdefault(_partition(record), set()).add(_entry_id(record))
        arrived: list[Record] = []
        for partition in sorted(self._partitions | set(known)):
            mine = known.get(partition, set())
            # counts tell of nearly every change and are cheap; ids are not
            if not thorough and partition in self._partitions and self._store.count(partition) == len(mine):
                continue
            held = self._store.ids(partition) if partition in self._partitions else set()
            for entry_id in mine - held:
                if self._journal is None:
                    self._dismiss(entry_id.partition(".")[0])
            for entry_id, payload in self._store.payloads(partition, sorted(held - mine)).items():
                arrived.append(_from_payload(payload, f"{self.where}, entry {entry_id}"))
        for record in sorted(arrived, key=lambda r: (r.step, r.update, r.id)):
            self._admit(record)


def _locked(folder: Path, run: str | None) -> WriterLock:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise StoreError(f"cannot be made ({e.strerror})", where=str(folder), mend="choose another folder") from None
    return WriterLock(folder, run)


def _choose(embedder: str | Embedder, store: MemoryStore, rebuild: bool) -> Embedder:
    """The embedder to use, checked against the vectors that are there."""
    written = set() if rebuild else set(store.partitions().values())
    if embedder == "auto" and len(written) == 1:
        candidates: list[Embedder] = [HashingEmbedder()]
        if minilm_installed():
            candidates.append(MiniLMEmbedder())
        for known in candidates:
            if known.fingerprint in written:
                return known
    chosen = default_embedder(embedder) if isinstance(embedder, str) else embedder
    _check_embedder(written, chosen, store.where)
    return chosen


def _check_embedder(written: set[str], embedder: Embedder, where: str) -> None:
    if others := sorted(written - {embedder.fingerprint}):
        raise StoreError(
            f"its vectors were made by {others[0]!r}, not by {embedder.fingerprint!r}",
            where=where,
            mend="open it with that embedding, or make the vectors again with FailureMemory.open(..., rebuild=True)",
        )


def _partition(record: Record) -> str:
    return f"{record.kind}.{record.interface}"


def _entry_id(record: Record) -> str:
    """Record id and content: a changed record is another entry, so comparing ids finds it."""
    return f"{record.id}.{record.content}"


def _metadata(record: Record) -> dict[str, str | int]:
    return {
        "run": record.run,
        "step": record.step,
        "update": record.update,
        "domain": record.domain,
        "outcome": record.outcome,
    }


def _from_payload(payload: str, where: str) -> Record:
    try:
        return parse_record(json.loads(payload), where=where)
    except json.JSONDecodeError:
        raise StoreError("not JSON", where=where, mend="remove the entry from the server") from None


def _cosine(a: Mapping[str, float], b: Mapping[str, float]) -> float:
    norm = math.sqrt(sum(x * x for x in a.values()) * sum(x * x for x in b.values()))
    if norm == 0.0:
        return 0.0
    return sum(x * b.get(family, 0.0) for family, x in a.items()) / norm


def _passes(record: Record, filters: Filters) -> bool:
    return all(getattr(record, name) in allowed for name, allowed in filters.items())


def _widened(n: int) -> int:
    return 4 * n + 8 if n else 0
