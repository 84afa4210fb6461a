"""The same memory against a real Chroma server process."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory import EditOutcome, FailureEpisode, FailureMemory, HashingEmbedder, StoreError
from memory.store import TIMEOUT, ChromaStore, _sessions

CHROMA = shutil.which("chroma", path=str(Path(sys.executable).parent)) or shutil.which("chroma")

pytestmark = pytest.mark.skipif(CHROMA is None, reason="command chroma is not installed")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert CHROMA is not None
    command = [CHROMA, "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if server.poll() is not None or time.monotonic() > deadline:
                    pytest.fail("the Chroma server did not start")
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def test_two_writers_share_a_server(url: str, tmp_path: Path) -> None:
    def failure(run: str, text: str, update: int = 1) -> FailureEpisode:
        return FailureEpisode(run=run, step=update, update=update, text=text, key=f"k{update}")

    small = HashingEmbedder(64)
    with FailureMemory.open(url, embedder="hashing", run="a") as a, FailureMemory.open(url, embedder=small) as odd:
        assert a.remember([failure("a", "judge flips on tone")]) == 1
        with pytest.raises(StoreError, match="its vectors were made by"):
            odd.remember([failure("odd", "in vectors of another make")])
    a = FailureMemory.open(url, embedder="hashing", run="a")
    b = FailureMemory.open(url, embedder="auto", run="b")  # follows the store
    with a, b:
        assert a.remember([failure("a", "judge flips on tone")]) == 0
        base = {"run": "b", "step": 2, "update": 2, "interface": "rubric", "outcome": "accepted"}
        edit = EditOutcome.model_validate({**base, "key": "e", "text": "retire tone"})
        assert b.remember([failure("b", "dead low groups"), edit]) == 2
        assert a.count() == b.count() == 3
        assert isinstance(a._store, ChromaStore)
        # a hanging server must not hang training: Chroma's own sessions have no timeout
        assert {s.timeout.read for s in _sessions(a._store._client)} == {TIMEOUT}
        assert a.tried("rubric", "e") == [edit]
        (best,) = b.recall("judge flips on tone", recent=0, near=1)
        assert best.record == failure("a", "judge flips on tone")
        assert [r.record.run for r in a.recall("", near=0)] == ["a"]
        # a changed record replaces its earlier version for all
        a.remember([failure("a", "judge flips on tone and length")])
        fresh = FailureMemory.open(url, embedder="hashing")
        assert sorted(r.text for r in fresh.records(run="a")) == ["judge flips on tone and length"]
        fresh.close()
        assert a.truncate(0) == 1
        assert b.count() == 2

        with pytest.raises(StoreError, match="open it with journal=FILE"):
            a.rebuild()
        with pytest.raises(StoreError, match="rebuild=True"):
            FailureMemory.open(url, embedder=small)
        journal = tmp_path / "copy" / "records.jsonl"
        with FailureMemory.open(url, embedder=small, rebuild=True, journal=journal) as c:
            assert c.recall("dead low groups", recent=0, near=1)[0].record.run == "b"
        assert len(journal.read_text().splitlines()) == 2
        with pytest.raises(StoreError, match="its vectors were made by"):
            b.count()
    with pytest.raises(StoreError, match="already closed"):
        a.count()
