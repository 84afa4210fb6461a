"""Ledger: each decision once, on disk before it counts, whatever kills the process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rl_core.edits import RubricRetire, RubricReweight
from rl_core.errors import InputError
from rl_core.ledger import MAX_E_PATH, Ledger, LedgerEntry


def decision(update: int = 1, family: str = "echo", status: str = "accepted", **fields: Any) -> dict[str, Any]:
    edit = RubricRetire(family=family).model_dump(mode="json")
    return {
        "update": update, "step": 10 * update, "interface": "rubric", "edit": edit,
        "status": status, "state_version": update, **fields,
    }  # fmt: skip


def test_a_decision_comes_back_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    figures = {"pairs": 30, "mean_d": 0.04, "interval": [0.01, 0.07], "e_value": 41.5, "e_path": [1.0, 41.5]}
    failure = {"kind": "spurious", "statistic": 0.3, "where": "writing", "reason": "pays for echo"}
    assert ledger.append(decision(figures=figures, failure=failure, reason="E >= 20", prediction=0.05))
    (entry,) = Ledger(ledger.path).entries
    assert entry == ledger.entries[0]
    assert entry.edit == RubricRetire(family="echo")
    assert entry.figures.interval == (0.01, 0.07)
    assert entry.failure is not None
    assert entry.failure.where == "writing"
    assert entry.description == "rubric (all tasks): retire echo"


def test_what_was_not_measured_is_null_not_zero(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(decision(status="vetoed"))
    row = json.loads(ledger.path.read_text())
    assert row["figures"]["pairs"] is None
    assert row["figures"]["e_value"] is None
    assert row["prediction"] is None


def test_the_same_decision_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert Ledger(path).append(decision())
    again = Ledger(path)
    assert not again.append(decision(reason="asked again after a resume"))
    assert not again.append(LedgerEntry.model_validate(decision()))
    assert again.append(decision(status="rolled_back"))
    assert again.append(decision(update=2))
    assert again.append(decision(family="length"))
    assert len(path.read_text().splitlines()) == len(again) == 4


def test_decisions_of_one_update(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for update, family in ((1, "a"), (2, "b"), (2, "c")):
        ledger.append(decision(update=update, family=family))
    assert [e.edit.key for e in ledger.decisions(2)] == [RubricRetire(family=f).key for f in "bc"]
    assert ledger.decisions(3) == []


def test_cut_at_any_byte_the_last_decision_is_there_or_not(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.append(decision(family="first"))
    kept = path.stat().st_size
    ledger.append(decision(family="last"))
    whole = path.read_bytes()
    for cut in range(kept, len(whole)):
        path.write_bytes(whole[:cut])
        resumed = Ledger(path)
        assert len(resumed) == 1
        if cut % 97 == 0 or cut == len(whole) - 1:
            assert resumed.append(decision(family="last"))
            assert path.read_bytes() == whole


def test_kill_9_loses_no_acknowledged_decision_and_doubles_none(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    writer = (
        "import sys\n"
        "from rl_core.ledger import Ledger\n"
        "ledger = Ledger(sys.argv[1])\n"
        "for u in range(10_000):\n"
        "    edit = {'interface': 'rubric', 'op': 'retire', 'family': 'f' * 5000}\n"
        "    ledger.append({'update': u, 'step': u, 'interface': 'rubric', 'edit': edit, 'status': 'accepted',\n"
        "                   'state_version': u})\n"
        "    print(u, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", writer, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in process.stdout.read().split("\n")[:-1]]
    updates = [e.update for e in Ledger(path).entries]
    assert updates == list(range(len(updates)))
    assert len(updates) >= len(acknowledged)


def test_overflow_is_clipped_and_the_path_thinned(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    path = [float(i) for i in range(500)]
    ledger.append(decision(figures={"e_value": float("inf"), "sd_d": float("nan"), "e_path": path}))
    (entry,) = Ledger(ledger.path).entries
    assert entry.figures.e_value == 1e300
    assert entry.figures.sd_d is None
    assert len(entry.figures.e_path) == MAX_E_PATH
    assert (entry.figures.e_path[0], entry.figures.e_path[-1]) == (0.0, 499.0)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"status": "maybe"}, "status"),
        ({"update": -1}, "update"),
        ({"edit": {"interface": "rubric", "op": "explode"}}, "op"),
        ({"interface": "sampler"}, "interface"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_wrong_decision_is_one_line_and_not_written(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(InputError, match=field) as error:
        ledger.append({**decision(), **change})
    assert "\n" not in str(error.value)
    assert not ledger.path.exists()


def test_a_broken_decision_in_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.append(decision())
    path.write_text(path.read_text() + '{"update": 2}\n')
    with pytest.raises(InputError, match="decision 2, field 'step'"):
        Ledger(path)


def test_equal_content_of_another_kind_is_another_decision(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(decision(family="a"))
    edit = RubricReweight(family="a", multiplier=0).model_dump(mode="json")
    assert ledger.append({**decision(), "edit": edit})
