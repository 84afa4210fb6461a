"""Where the vectors live: a small protocol, and Chroma behind it.

One collection per (record kind, interface): at 100,000 records a broad metadata filter costs
Chroma 144 ms, a search in a partition 2 ms. Every entry carries the whole record, so that a
server can be read by processes which never saw the journal.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from memory.errors import StoreError
from memory.journal import write_atomically

PREFIX = "harness-memory"
INDEX = "index"
ABOUT = "store.json"
#: Chroma's default of 100 finds 40 % of the true neighbours among 20,000 random vectors.
EF_SEARCH = 300
#: Seconds a server may take for one request.
TIMEOUT = 60.0
_PAYLOAD = "record"
_FINGERPRINT = "embedder"

Filters = Mapping[str, Sequence[str]]  # metadata name -> allowed values


@dataclass(frozen=True)
class Entry:
    """One record in the index. ``id`` changes with the record's content."""

    id: str
    vector: Sequence[float]
    metadata: Mapping[str, str | int]
    payload: str


class MemoryStore(Protocol):
    """Vectors in partitions. Every method raises StoreError, and nothing else, on failure."""

    where: str
    shared: bool  # others may write while we have it open

    def partitions(self) -> dict[str, str]:
        """{partition: embedder fingerprint}."""
        ...

    def add(self, partition: str, fingerprint: str, entries: Sequence[Entry]) -> None: ...
    def delete(self, partition: str, ids: Sequence[str]) -> None: ...
    def drop(self, partition: str) -> None: ...
    def count(self, partition: str) -> int: ...
    def ids(self, partition: str) -> set[str]: ...
    def payloads(self, partition: str, ids: Sequence[str]) -> dict[str, str]: ...
    def vectors(self, partition: str, ids: Sequence[str]) -> dict[str, list[float]]: ...

    def query(self, partition: str, vector: Sequence[float], n: int, filters: Filters) -> list[tuple[str, float]]:
        """At most n (id, cosine), nearest first."""
        ...

    def close(self) -> None: ...


class ChromaStore:
    """Chroma: embedded (one process), a server (many), or in memory (tests)."""

    def __init__(self, client: Any, *, where: str, shared: bool, prefix: str, drop_on_close: bool = False) -> None:
        self.where, self.shared = where, shared
        self._client, self._prefix, self._drop = client, prefix + ".", drop_on_close
        self._collections: dict[str, Any] = {}
        with self._chroma("opened"):
            self._batch = int(client.get_max_batch_size())

    @classmethod
    def embedded(cls, folder: Path, *, fresh: bool = False) -> ChromaStore:
        """Store in ``folder``/index; the caller holds the folder's lock. ``fresh`` deletes it first."""
        if fresh:
            shutil.rmtree(folder / INDEX, ignore_errors=True)
        _check_writer(folder, fresh)
        with _errors(str(folder), "opened", _REBUILD):
            import chromadb

            path = str(folder / INDEX)
            try:
                client = chromadb.PersistentClient(path, settings=_settings())
            except BaseException:
                # Chroma keeps the half-opened system and would hand it out at the next try
                from chromadb.api.shared_system_client import SharedSystemClient

                SharedSystemClient._identifier_to_system.pop(path, None)
                raise
            store = cls(client, where=str(folder), shared=False, prefix=PREFIX)
            write_atomically(folder / ABOUT, json.dumps({"chromadb": chromadb.__version__}).encode())
        return store

    @classmethod
    def server(cls, url: str) -> ChromaStore:
        """Store on a Chroma server, ``http://host:port`` or ``https://host:port``."""
        parts = urlsplit(url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or port is None or parts.username or parts.path not in ("", "/") or parts.query:
            raise StoreError("not the address of a Chroma server", mend="write it as http://host:port")
        where = f"{parts.scheme}://{host}:{port}"
        mend = f"start one with 'chroma run --host 127.0.0.1 --port {port} --path FOLDER', or use a folder"
        with _errors(where, "reached", mend):
            import chromadb

            client = chromadb.HttpClient(host, port, ssl=parts.scheme == "https", settings=_settings())
            for session in _sessions(client):
                session.timeout = TIMEOUT
            return cls(client, where=where, shared=True, prefix=PREFIX)

    @classmethod
    def in_memory(cls) -> ChromaStore:
        """Nothing on disk. In-memory clients of one process share data, so names are unique."""
        with _errors("memory", "opened", "report it"):
            import chromadb

            client = chromadb.EphemeralClient(settings=_settings())
            prefix = f"{PREFIX}-{uuid.uuid4().hex}"
            return cls(client, where="memory", shared=False, prefix=prefix, drop_on_close=True)

    def partitions(self) -> dict[str, str]:
        found: dict[str, str] = {}
        with self._chroma("read"):
            for collection in self._client.list_collections():
                if collection.name.startswith(self._prefix):
                    partition = collection.name.removeprefix(self._prefix)
                    found[partition] = str((collection.metadata or {}).get(_FINGERPRINT, ""))
                    if partition in self._collections and self._collections[partition].id != collection.id:
                        del self._collections[partition]  # made again by another process
        return dict(sorted(found.items()))

    def add(self, partition: str, fingerprint: str, entries: Sequence[Entry]) -> None:
        with self._chroma("written"):
            # cosine must be asked for (the default is l2); vectors are always given, so that
            # Chroma never constructs, persists or downloads an embedding function
            collection = self._client.get_or_create_collection(
                self._prefix + partition,
                metadata={_FINGERPRINT: fingerprint},
                configuration={"hnsw": {"space": "cosine", "ef_search": EF_SEARCH}},
                embedding_function=None,
            )
            if str((collection.metadata or {}).get(_FINGERPRINT, "")) != fingerprint:
                # another process was quicker; its fingerprint stands
                mend = "open all with the same embedding"
                raise StoreError("its vectors are made by another embedder", where=self.where, mend=mend)
            self._collections[partition] = collection
            for start in range(0, len(entries), self._batch):
                part = entries[start : start + self._batch]
                # upsert: add would silently keep an entry that is already there
                collection.upsert(
                    ids=[e.id for e in part],
                    embeddings=[list(e.vector) for e in part],
                    metadatas=[{**e.metadata, _PAYLOAD: e.payload} for e in part],
                )

    def delete(self, partition: str, ids: Sequence[str]) -> None:
        with self._chroma("written"):
            for start in range(0, len(ids), self._batch):
                self._collection(partition).delete(ids=list(ids[start : start + self._batch]))

    def drop(self, partition: str) -> None:
        self._collections.pop(partition, None)
        with self._chroma("written"):
            self._client.delete_collection(self._prefix + partition)

    def count(self, partition: str) -> int:
        with self._chroma("read"):
            return int(self._collection(partition).count())

    def ids(self, partition: str) -> set[str]:
        with self._chroma("read"):
            return set(self._collection(partition).get(include=[])["ids"])

    def payloads(self, partition: str, ids: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        with self._chroma("read"):
            for start in range(0, len(ids), self._batch):
                got = self._collection(partition).get(ids=list(ids[start : start + self._batch]), include=["metadatas"])
                found.update(zip(got["ids"], (str(m[_PAYLOAD]) for m in got["metadatas"]), strict=True))
        return found

    def vectors(self, partition: str, ids: Sequence[str]) -> dict[str, list[float]]:
        if not ids:
            return {}
        with self._chroma("read"):
            got = self._collection(partition).get(ids=list(ids), include=["embeddings"])
            return {i: [float(x) for x in v] for i, v in zip(got["ids"], got["embeddings"], strict=True)}

    def query(self, partition: str, vector: Sequence[float], n: int, filters: Filters) -> list[tuple[str, float]]:
        clauses: list[dict[str, Any]] = [{name: {"$in": list(values)}} for name, values in filters.items()]
        # a filter has exactly one operator at its top, and none at all is None
        where = None if not clauses else clauses[0] if len(clauses) == 1 else {"$and": clauses}
        with self._chroma("read"):
            got = self._collection(partition).query(
                query_embeddings=[list(vector)], n_results=n, where=where, include=["distances"]
            )
        found = zip(got["ids"][0], got["distances"][0], strict=True)
        return [(i, max(-1.0, min(1.0, 1.0 - float(d)))) for i, d in found]

    def close(self) -> None:
        if self._drop:
            for partition in self.partitions():
                self.drop(partition)
        with self._chroma("closed"):
            self._client.close()
            for session in _sessions(self._client):
                session.close()

    def _collection(self, partition: str) -> Any:
        if partition not in self._collections:
            self._collections[partition] = self._client.get_collection(
                self._prefix + partition, embedding_function=None
            )
        return self._collections[partition]

    def _chroma(self, verb: str) -> Any:
        return _errors(self.where, verb, "check that the server still runs" if self.shared else _REBUILD)


_REBUILD = "make the vectors again from records.jsonl with FailureMemory.open(..., rebuild=True)"


def _sessions(client: Any) -> list[Any]:
    """HTTP sessions of a client: Chroma gives them no timeout and never closes them."""
    owners = (client, getattr(client, "_admin_client", None))
    sessions = (getattr(getattr(owner, "_server", None), "_session", None) for owner in owners)
    return [s for s in sessions if s is not None]


def _settings() -> Any:
    from chromadb.config import Settings

    # a foreign ./.env would otherwise be read, and may stop us
    return Settings(anonymized_telemetry=False, _env_file=None)


def _check_writer(folder: Path, fresh: bool) -> None:
    """An index of a newer Chroma makes an older one panic: say so before it does."""
    about = folder / ABOUT
    if fresh or not about.exists():
        return
    import chromadb

    try:
        written = str(json.loads(about.read_text(encoding="utf-8"))["chromadb"])
    except (OSError, ValueError, KeyError, TypeError):
        return  # only advice; Chroma itself will tell
    if _numbers(written) > _numbers(chromadb.__version__):
        raise StoreError(
            f"its index was written by chromadb {written}, newer than the installed {chromadb.__version__}",
            where=str(folder),
            mend=f"upgrade chromadb, or {_REBUILD}",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in version.split(".")[:3] if p.isdigit())


@contextmanager
def _errors(where: str, verb: str, mend: str) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except ImportError:
        raise StoreError("package chromadb is not installed", where=where, mend="pip install chromadb") from None
    except BaseException as e:
        # a panic in Chroma's Rust part is no Exception; anything else that is none passes
        if not isinstance(e, Exception) and type(e).__name__ != "PanicException":
            raise
        detail = f"{type(e).__name__}: {e!s:.200}"
        raise StoreError(f"the store cannot be {verb} ({detail})", where=where, mend=mend) from e
