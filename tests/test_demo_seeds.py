"""Slow: the demo's harness arm over seeds that were not used while building it (about 15 minutes on 2 cores)."""

import json
import multiprocessing
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

SEEDS = range(101, 111)
INTERFACES = ("sampler", "guidance", "rubric")


def one_seed(seed: int, out: str) -> dict:
    os.environ["OMP_NUM_THREADS"] = "1"
    from harness_agents.demo import run_harness_arm
    from rl_core.ledger import Ledger

    summary = run_harness_arm(Path(out), seed)
    entries = Ledger(Path(out) / "ledger.jsonl").entries
    return {
        "seed": seed,
        "accepted": dict(Counter(e.interface for e in entries if e.status == "accepted")),
        "rejected": sum(e.status == "rejected" for e in entries),
        "vetoed": sum(e.status == "vetoed" for e in entries),
        "inconclusive": sum(e.status == "inconclusive" for e in entries),
        **{k: summary[k] for k in ("label_share", "probe_share", "gold_first", "gold_last", "rollouts")},
    }


@pytest.mark.slow
def test_edits_on_every_interface_over_ten_unseen_seeds(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        rows = list(pool.map(one_seed, SEEDS, [str(tmp_path / str(s)) for s in SEEDS]))
    for row in rows:
        print(json.dumps(row))
    counts = {i: sum(bool(r["accepted"].get(i)) for r in rows) for i in INTERFACES}
    every = sum(all(r["accepted"].get(i) for i in INTERFACES) for r in rows)
    rejections = sum(r["rejected"] > 0 for r in rows)
    print(json.dumps({"accepted_on": counts, "all_three": every, "with_rejection": rejections}))
    assert all(n >= 8 for n in counts.values()), counts
    assert every >= 6
    assert rejections >= 8
    assert all(r["label_share"] <= 0.05 for r in rows)
    assert all(r["gold_last"] > r["gold_first"] for r in rows)
