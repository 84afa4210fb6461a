from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import memory
from memory import (
    EditOutcome,
    FailureEpisode,
    FailureMemory,
    HashingEmbedder,
    RealisedEffect,
    Record,
    StoreError,
    log2_change,
)
from memory.store import ChromaStore

ROOT = Path(memory.__file__).parents[1]


def failure(update: int, text: str, **changes: Any) -> FailureEpisode:
    base = {"run": "a", "step": 10 * update, "update": update, "interface": "rubric", "domain": "medical", "text": text}
    return FailureEpisode.model_validate({**base, **changes})


def edit(update: int, key: str, text: str = "re-weight length", **changes: Any) -> EditOutcome:
    base = {"run": "a", "step": 10 * update, "update": update, "interface": "rubric", "outcome": "rejected"}
    return EditOutcome.model_validate({**base, "key": key, "text": text, **changes})


TOLD: list[Record] = [
    failure(1, "length is paid for in writing", domain="writing"),
    failure(2, "dead low groups, tasks out of reach", interface="guidance"),
    edit(2, "k1", "hint with a plan for medical tasks", interface="guidance", domain="medical"),
    edit(3, "k2", "retire the length criterion everywhere"),
    failure(3, "judge flips on tone", domain="role-play"),
    RealisedEffect(
        run="a",
        step=40,
        update=3,
        interface="rubric",
        outcome="helped",
        text="length criterion retired: answers got shorter",
    ),
]


@pytest.fixture
def open_() -> Iterator[Callable[..., FailureMemory]]:
    opened: list[FailureMemory] = []

    def make(where: str | Path = ":memory:", **options: Any) -> FailureMemory:
        opened.append(FailureMemory.open(where, **{"embedder": HashingEmbedder(), **options}))
        return opened[-1]

    yield make
    for m in opened:
        m.close()


def told(m: FailureMemory, query: str = "length", **options: Any) -> list[tuple[str, str, int]]:
    return [(r.record.id, r.why, r.times) for r in m.recall(query, **options)]


def test_import_is_light_and_marked() -> None:
    code = (
        "import sys, memory; assert memory.__harness_agents__ is True;"
        "heavy = {'chromadb', 'torch', 'transformers', 'numpy', 'tokenizers', 'rl_core', 'harness_agents'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"


def test_the_same_event_twice_is_one_record(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    m = open_(tmp_path)
    assert m.remember(TOLD) == len(TOLD)
    assert m.remember([*TOLD, TOLD[0].model_dump()]) == 0
    assert m.count() == len(TOLD)
    changed = edit(3, "k2", "retire the length criterion", outcome="accepted")
    assert m.remember([changed]) == 1
    assert m.count() == len(TOLD)
    assert m.tried("rubric", "k2") == [changed]
    before = told(m)
    m.close()
    m = open_(tmp_path)
    assert m.count() == len(TOLD)
    assert told(m) == before
    assert sum(m._store.count(p) for p in m._partitions) == len(TOLD)
    with pytest.raises(StoreError, match="unknown kind"):
        m.remember([{"kind": "rumour"}])


def test_recall_filters(open_: Callable[..., FailureMemory]) -> None:
    m = open_()
    m.remember(TOLD)

    def ids(**options: Any) -> set[str]:
        return {i for i, _, _ in told(m, "length criterion", recent=10, near=10, **options)}

    def expected(keep: Callable[[Record], bool]) -> set[str]:
        return {r.id for r in TOLD if keep(r)}

    assert ids() == expected(lambda r: True)
    assert ids(interface="guidance") == expected(lambda r: r.interface == "guidance")
    assert ids(domain="medical") == expected(lambda r: r.domain in ("medical", ""))
    assert ids(outcome="rejected") == expected(lambda r: r.outcome == "rejected")
    assert ids(outcome=["helped", "open"], domain="writing", interface="rubric") == expected(
        lambda r: r.outcome in ("helped", "open") and r.domain in ("writing", "") and r.interface == "rubric"
    )
    assert ids(kind="effect") == expected(lambda r: r.kind == "effect")
    assert ids(interface="sampler") == set()
    assert ids(outcome=[]) == set()


def test_a_filter_that_few_pass_still_finds_the_nearest(
    open_: Callable[..., FailureMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.failure_memory.WIDE", 2)
    m = open_()
    m.remember([failure(u, f"alpha beta {'gamma ' * u}", key=str(u)) for u in range(1, 60)])
    hidden = failure(1, "alpha beta delta and much that is not like it", domain="writing", key="w")
    m.remember([hidden])
    (only,) = m.recall("alpha beta gamma", domain="writing", recent=0, near=1)
    assert only.record == hidden


def test_recall_says_why_and_puts_the_nearest_first(open_: Callable[..., FailureMemory]) -> None:
    m = open_()
    m.remember(TOLD)
    first, second = m.recall("length is paid for in writing", recent=1, near=1)
    assert first.record == TOLD[0]
    assert first.score == pytest.approx(1.0, abs=1e-4)
    assert first.why == "near 1.00"
    assert second.record == TOLD[-1]
    assert second.why == "recent, update 3"
    assert second.score is not None
    assert second.score < 0.9
    assert first.line() == "[failure, open, update 1, rubric, writing] length is paid for in writing <near 1.00>"
    (both,) = m.recall(TOLD[-1].text, recent=1, near=1)
    assert both.why == "recent, near 1.00"


def test_recent_is_of_this_run_and_near_is_of_all(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    m = open_(run="b")
    m.remember(TOLD)
    assert m.recall("zzz qqq", near=3) == []
    assert m.recall("", near=3) == []
    assert [r.record for r in m.recall("judge flips on tone", near=1)] == [TOLD[4]]
    mine = failure(1, "something of run b", run="b")
    m.remember([mine])
    (only,) = m.recall("", near=3)
    assert only.record == mine
    assert only.score is None


def test_recall_is_bounded_and_tells_a_thing_once(open_: Callable[..., FailureMemory]) -> None:
    m = open_()
    m.remember([failure(u, f"live share 0.{u} in medical groups") for u in range(1, 8)])
    (only,) = m.recall("live share in medical groups", recent=3, near=3)
    assert only.record.update == 7
    assert only.times == 7
    m.remember([failure(u, f"{word} " * 30) for u, word in enumerate(("apple", "berry", "cherry", "date"), start=8)])
    for bound in (0, 100, 300, 600, 5000):
        found = m.recall("apple", recent=4, near=4, max_chars=bound)
        assert sum(len(r.line()) + 1 for r in found) <= bound
    assert len(m.recall("apple", recent=4, near=4, max_chars=5000)) == 4
    # the short one still comes in where a long one had no room
    assert [r.record.update for r in m.recall("apple", recent=5, near=0, max_chars=150)] == [7]
    with pytest.raises(StoreError, match="must not be negative"):
        m.recall("a", near=-1)


def test_same_content_gives_the_same_recall(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    records = [failure(u, f"{w} fails {v}") for u in (1, 2, 3) for w in ("alpha", "beta") for v in ("so", "so too")]
    forth, back, disk = open_(), open_(), open_(tmp_path)
    forth.remember(records)
    for record in reversed(records):
        back.remember([record])
    forth.export(tmp_path / "out" / "all.jsonl")
    assert disk.import_(tmp_path / "out" / "all.jsonl") == len(records)
    assert disk.import_(tmp_path / "out" / "all.jsonl") == 0
    assert told(forth, "alpha fails") == told(back, "alpha fails") == told(disk, "alpha fails")
    assert {r.to_line() for r in disk.records()} == {r.to_line() for r in records}


def test_tried_and_similar_composites(open_: Callable[..., FailureMemory]) -> None:
    m = open_()
    down = edit(1, "down", data={"change": log2_change({"length": 0.25, "echo": 0.5})})
    again = edit(4, "down", outcome="inconclusive")
    other = edit(2, "other", data={"change": {"tone": 1.0}})
    local = edit(3, "local", domain="writing", data={"change": {"length": -1.0, "echo": -0.4}})
    m.remember([down, again, other, local])
    assert m.tried("rubric", "down") == [again, down]
    assert m.tried("sampler", "down") == []
    found = m.similar_composite({"length": 3.0, "echo": 1.5})
    assert [(s.record, s.relation) for s in found] == [(down, "reversal"), (local, "reversal")]
    assert found[0].cosine == pytest.approx(-1.0)
    assert [s.relation for s in m.similar_composite({"length": -1, "echo": -0.5}, domain="")] == ["repeat"]
    assert m.similar_composite({"length": 1.0, "tone": 1.0}) == []  # cosine .63 with both
    assert m.similar_composite({}) == []
    with pytest.raises(StoreError, match="finite"):
        m.similar_composite({"a": float("nan")})


def test_truncate_forgets_the_future_of_one_run(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    other = failure(3, "of another run", run="b")
    m = open_(tmp_path, run="a")
    m.remember([*TOLD, other])
    assert m.truncate(2) == 3
    assert m.truncate(2) == 0
    left = {r.id for r in TOLD if r.update <= 2} | {other.id}
    assert {r.id for r in m.records()} == left
    m.close()
    m = open_(tmp_path)
    assert {r.id for r in m.records()} == left
    assert m.tried("rubric", "k2") == []
    assert {i for i, _, _ in told(m, "length", recent=9, near=9)} == left
    with pytest.raises(StoreError, match="name of a run"):
        m.truncate(1)


def test_a_second_writer_is_refused_and_told_who_holds_it(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    m = open_(tmp_path, run="night")
    code = (
        "import sys; from memory import FailureMemory, StoreError\n"
        "try: FailureMemory.open(sys.argv[1], embedder='hashing')\n"
        "except StoreError as e: print(e); sys.exit(7)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert out.returncode == 7, out.stderr
    assert f"another writer has this memory open: process {os.getpid()} on " in out.stdout
    assert "(run night)" in out.stdout
    assert "http://host:port" in out.stdout
    with pytest.raises(StoreError, match="another writer"):  # nor twice in one process
        open_(tmp_path)
    m.close()
    m.close()
    open_(tmp_path).remember(TOLD)
    with pytest.raises(StoreError, match="already closed"):
        m.count()


def killed(folder: Path, body: str) -> None:
    """Run ``body`` with a memory ``m`` open; it must end by SIGKILL."""
    code = (
        "import os, signal, sys, memory.journal\n"
        "from memory import FailureEpisode, FailureMemory\n"
        "from memory.store import ChromaStore\n"
        "def die(*a, **k): os.kill(os.getpid(), signal.SIGKILL)\n"
        "m = FailureMemory.open(sys.argv[1], embedder='hashing')\n"
        "def f(u, t): return FailureEpisode(run='a', step=u, update=u, key='k', text=t)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code + body, str(folder)], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert out.returncode == -signal.SIGKILL, out.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_kill_between_journal_and_index_heals(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    killed(
        tmp_path,
        "m.remember([f(1, 'first told'), f(2, 'second told')])\n"
        "ChromaStore.add = die\n"
        "m.remember([f(2, 'second retold'), f(3, 'third thing')])\n",
    )
    # and half a line, as a kill within the append leaves it
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.write(b'{"id": "x", "kind": "fail')
    m = open_(tmp_path)  # the lock of the dead is free
    assert [r.text for r in m.records()] == ["first told", "second retold", "third thing"]
    for text in ("second retold", "third thing"):
        (best,) = m.recall(text, recent=0, near=1)
        assert best.record.text == text
        assert best.score == pytest.approx(1.0, abs=1e-4)
    assert sum(m._store.count(p) for p in m._partitions) == 3  # the replaced version is gone


def test_a_truncation_cut_short_is_finished_at_the_next_open(
    tmp_path: Path, open_: Callable[..., FailureMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    m = open_(tmp_path, run="a")
    m.remember(TOLD)

    def stop(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(m._store, "delete", stop)
        with pytest.raises(KeyboardInterrupt):
            m.truncate(2)
    m.close()
    m = open_(tmp_path)
    left = sum(r.update <= 2 for r in TOLD)
    assert m.count() == sum(m._store.count(p) for p in m._partitions) == left


def test_a_failing_index_does_not_lose_the_record(
    tmp_path: Path, open_: Callable[..., FailureMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    m = open_(tmp_path)
    m.remember(TOLD[:1])

    class PanicException(BaseException):
        """As pyo3's, which `except Exception` misses."""

    def panic(*args: object, **options: Any) -> None:
        raise PanicException("rust")

    store = m._store
    assert isinstance(store, ChromaStore)
    with monkeypatch.context() as patch:
        patch.setattr(store._client, "get_or_create_collection", panic)
        with pytest.raises(StoreError, match=r"PanicException: rust.*rebuild=True"):
            m.remember(TOLD[1:])
    assert m.count() == len(TOLD)
    assert m.recall(TOLD[4].text, recent=0, near=1)[0].record == TOLD[4]


def test_vectors_are_made_again_from_the_journal(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    m = open_(tmp_path)
    m.remember(TOLD)
    before = told(m)
    assert m.rebuild() == len(TOLD)
    assert told(m) == before
    m.close()
    # an index that cannot be read, and one that is not there
    (tmp_path / "index" / "chroma.sqlite3").write_bytes(b"garbage" * 100)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"not a database.*rebuild=True"):
            open_(tmp_path)
    m = open_(tmp_path, rebuild=True)
    assert told(m) == before
    m.close()
    # a lost journal comes back from the index
    (tmp_path / "records.jsonl").unlink()
    m = open_(tmp_path)
    assert told(m) == before
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == len(TOLD)


def test_another_embedder_is_refused_until_rebuilt(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    small = HashingEmbedder(64)
    m = open_(tmp_path, embedder="hashing")
    m.remember(TOLD)
    m.close()
    with pytest.raises(StoreError, match=r"made by 'hashing/char3-5/blake2b/512', not by .*64.*rebuild=True"):
        open_(tmp_path, embedder=small)
    m = open_(tmp_path, embedder="auto")  # follows the store, whatever is installed
    assert m.embedding == "hashing"
    m.close()
    m = open_(tmp_path, embedder=small, rebuild=True)
    assert m.recall(TOLD[0].text, recent=0, near=1)[0].record == TOLD[0]
    m.close()
    open_(tmp_path, embedder=small)


def test_an_index_of_a_newer_chroma_is_refused_in_words(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    open_(tmp_path).close()
    (tmp_path / "store.json").write_text(json.dumps({"chromadb": "99.0.0"}))
    with pytest.raises(StoreError, match=r"chromadb 99\.0\.0, newer than"):
        open_(tmp_path)
    assert open_(tmp_path, rebuild=True).count() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_and_cannot_free_the_lock(tmp_path: Path, open_: Callable[..., FailureMemory]) -> None:
    m = open_(tmp_path)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            m.recall("anything")
        except StoreError as e:
            m.close()
            assert m._lock is not None
            m._lock.release()
            status = 0 if "forked" in str(e) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(StoreError, match=f"another writer has this memory open: process {os.getpid()} "):
        open_(tmp_path)
    assert m.recall("anything") == []


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("http://", "write it as http://host:port"),
        ("http://host", "write it as http://host:port"),
        ("http://me:secret@host:1", "write it as http://host:port"),
        ("http://host:port", "write it as http://host:port"),
        ("ftp://host:1", "unknown kind of address"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9: the store cannot be reached"),
    ],
)
def test_bad_addresses_are_one_clear_line(address: str, says: str) -> None:
    with pytest.raises(StoreError) as caught:
        FailureMemory.open(address, embedder="hashing")
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="choose another folder"):
        FailureMemory.open(tmp_path / "file" / "memory", embedder="hashing")


def test_in_memory_ones_do_not_share(open_: Callable[..., FailureMemory]) -> None:
    a, b = open_(), open_()
    a.remember(TOLD)
    assert b.count() == 0
    assert b.recall("length") == []
    a.close()
    assert ChromaStore.in_memory().partitions() == {}
