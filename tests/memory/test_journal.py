from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from memory.errors import StoreError
from memory.journal import Journal
from memory.records import FailureEpisode


def record(update: int, text: str = "t") -> FailureEpisode:
    return FailureEpisode(run="r", step=update, update=update, key="k", text=text)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "records.jsonl")


def test_what_is_appended_is_read_and_the_last_version_wins(journal: Journal) -> None:
    assert journal.read() == []
    journal.append([record(1), record(2)])
    journal.append([record(1, "revised")])
    assert [(r.update, r.text) for r in journal.read()] == [(2, "t"), (1, "revised")]


@pytest.mark.parametrize("cut", [1, 5, 60, -1])
def test_a_torn_last_line_is_removed_and_the_rest_stays(
    journal: Journal, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    journal.append([record(1)])
    whole = journal.path.read_bytes()
    line = (record(2).to_line() + "\n").encode()
    journal.path.write_bytes(whole + line[: cut if cut > 0 else len(line) - 2])
    with caplog.at_level(logging.WARNING):
        assert journal.read() == [record(1)]
    assert "torn line" in caplog.text
    assert journal.path.read_bytes() == whole
    journal.append([record(3)])
    assert journal.read() == [record(1), record(3)]


def test_a_whole_last_line_that_only_lacks_its_newline_is_kept(journal: Journal) -> None:
    journal.append([record(1), record(2)])
    journal.path.write_bytes(journal.path.read_bytes()[:-1])
    assert journal.read() == [record(1), record(2)]
    journal.append([record(3)])
    assert journal.read() == [record(1), record(2), record(3)]


def test_a_bad_line_in_the_middle_is_an_error_that_names_it(journal: Journal) -> None:
    journal.append([record(1)])
    journal.path.write_bytes(journal.path.read_bytes() + b"{oops\n")
    journal.path.write_bytes(journal.path.read_bytes() + (record(2).to_line() + "\n").encode())
    with pytest.raises(StoreError, match=r"records\.jsonl, line 2: not JSON"):
        journal.read()


def test_a_failing_append_leaves_the_file_as_it_was(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.append([record(1)])
    before = journal.path.read_bytes()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        journal.append([record(2)])
    assert journal.path.read_bytes() == before


def test_replace_puts_other_lines_in_place(journal: Journal) -> None:
    journal.append([record(1), record(2)])
    journal.replace([record(2)])
    assert journal.read() == [record(2)]
    assert [p.name for p in journal.path.parent.iterdir()] == ["records.jsonl"]
