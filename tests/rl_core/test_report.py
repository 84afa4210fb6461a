"""Report of a run: content, special cases, escaping, figures equal to the ledger's."""

from __future__ import annotations

import json
import math
import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rl_core.errors import InputError
from rl_core.report import summary_text, write_report
from rl_core.report import figures as f

DOMAINS = ("medical", "science", "writing", "role-play", "instruction following")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e\ud800 {{ 7*7 }} \"'&"

EDITS: list[tuple[int, str, str, str, float, str, str]] = [
    # step, interface, description, status, mean d, failure kind, reason
    (10, "rubric", "rubric (all tasks): length_bonus x0, praise x0.12, facts x2.1, add precision (+3)", "accepted", 0.112,
     "spurious", "30 pairs, every domain gains; the battery no longer sees length"),
    (10, "sampler", "sampler: x0.25 on role-play; x2 on science, floor 0.2", "inconclusive", 0.018,
     "non-discriminative", "the cap of 256 rollouts came first"),
    (20, "guidance", "guidance: plan hint for science, dose 0.5, amount 1", "accepted", 0.064,
     "non-discriminative", "hinted rollouts reach reward that the plain ones do not"),
    (40, "rubric", "rubric (writing): retire repeats, add structure (+1.5)", "rejected", -0.041, "blind",
     "harm: the mirrored process passed its threshold"),
    (40, "rubric", "rubric (medical): add hedge (-1)", "vetoed", math.nan, "spurious",
     "the critic's reader: punishes honest uncertainty"),
    (70, "rubric", "rubric (instruction following): format x3", "accepted", 0.038, "inverted", "24 pairs on the bank"),
    (100, "guidance", "guidance: dose of plan-science to 0.25", "inconclusive", 0.006, "non-discriminative",
     "evidence within the budget was not enough"),
    (110, "rubric", "rubric (instruction following): format x3", "rolled_back", -0.052, "inverted",
     "the running control is better on 64 labelled groups"),
    (150, "sampler", "sampler: x0.5 on medical; x3 on writing, floor 0.2", "accepted", 0.029, "non-discriminative",
     "medical is mastered"),
    (200, "rubric", "rubric (science): add units (+1)", "rejected", -0.003, "blind", "futility: no gain after 96 pairs"),
]


def ledger_lines() -> list[dict[str, Any]]:
    r = random.Random(3)
    out = []
    version = 0
    for step, interface, text, status, d, kind, reason in EDITS:
        version += status in ("accepted", "rolled_back")
        figures: dict[str, Any] = {}
        if not math.isnan(d):
            pairs = r.randrange(24, 97)
            log, path = 0.0, []
            for _ in range(min(64, pairs)):
                log += d * 2.2 * r.uniform(0.2, 1.8) * 30 / pairs + r.gauss(0, 0.12)
                path.append(math.exp(log))
            e = 24.37 if status == "accepted" else path[-1] if d > 0.01 else 0.081
            path[-1] = e
            half = r.uniform(0.02, 0.06)
            figures = {"pairs": pairs, "mean_d": d, "sd_d": 0.11, "lift_current": 0.051, "lift_candidate": 0.051 + d,
                       "e_value": e, "threshold": 20.0, "rollouts": pairs * 8, "labels": pairs * 4,
                       "interval": [d - half, d + half], "e_path": path}
        out.append({"update": step // 10, "step": step, "interface": interface, "status": status,
                    "edit": {"interface": interface, "text": text}, "state_version": version, "figures": figures,
                    "reason": reason, "description": text, "prediction": 0.05,
                    "failure": {"kind": kind, "statistic": 0.41, "where": text.partition("(")[2].partition(")")[0],
                                "reason": "support of 36 groups"}})
    return out


def write_run(folder: Path, *, steps: int = 250, harness: bool = True, gold: bool = True, edits: bool = True,
              domains: tuple[str, ...] = DOMAINS, summary: bool = True, labels: bool = True, seed: int = 7) -> Path:
    """A run folder as the runner writes it. Curves are drawn from simple formulas with noise."""
    r = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    decisions = [d for d in ledger_lines() if d["step"] <= steps] if harness and edits else []
    lines: list[dict[str, Any]] = []
    rollouts = bought = 0

    def quality(step: int, k: int) -> float:
        if harness and edits:
            return min(0.93, 0.3 + (0.58 - 0.05 * k) * (1 - math.exp(-step / 70)) + r.gauss(0, 0.012))
        return 0.3 + (0.2 - 0.02 * k) * math.exp(-(((step - 40) / 45) ** 2)) + 0.06 * (step > 40) + r.gauss(0, 0.012)

    for step in range(steps + 1):
        if gold and step % 10 == 0:
            by = {d: quality(step, k) for k, d in enumerate(domains)}
            lines.append({"kind": "eval", "step": step, "gold": sum(by.values()) / len(by), "gold_by_domain": by,
                          "reward": 0.5, "rollouts": rollouts})
        if step == 0:
            continue
        rollouts += 128
        table = {}
        for k, d in enumerate(domains):
            wave = 0.5 + 0.3 * math.sin(k * 1.3) + (0.0015 * step if harness else -0.0015 * step)
            live = min(0.95, max(0.04, wave + r.gauss(0, 0.1)))
            low = (1 - live) * (0.7 if k % 2 else 0.15) * math.exp(-step / 200)
            high = (1 - live - low) * 0.8
            if r.random() > 0.06:
                table[d] = {"reward": 0.4 + 0.001 * step, "live": live, "dead_low": low, "dead_high": high,
                            "dead_flat": 1 - live - low - high}
        if harness and step % 10 == 0:
            now = [d for d in decisions if d["step"] == step]
            probes = sum(d["figures"].get("rollouts", 0) for d in now)
            rollouts += probes
            bought += sum(d["figures"].get("labels", 0) for d in now) if labels else 0
            failed = step == 130
            lines.append({"kind": "update", "step": step, "update": step // 10, "healthy": not now and not failed,
                          "probe_rollouts": probes, "labels": 0 if not labels else 12, "seconds": 1.4,
                          "decisions": len(now), "accepted": sum(d["status"] == "accepted" for d in now),
                          "state_version": 1, "error": "budget of 40 calls reached" if failed else None})
        mean = sum(v["live"] for v in table.values()) / max(1, len(table)) if table else None
        lines.append({"kind": "step", "step": step, "reward": 0.35 + 0.3 * (1 - math.exp(-step / 60)) + r.gauss(0, 0.03),
                      "live_share": mean, "dead_low": 0.1, "dead_high": 0.1, "dead_flat": 0.1, "state_version": 1,
                      "guided_share": 0.1, "rollouts": rollouts, "labels": bought, "domains": table})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines), encoding="utf-8")
    (folder / "ledger.jsonl").write_text("".join(json.dumps(d) + "\n" for d in decisions), encoding="utf-8")
    if summary:
        golds = [x for x in lines if x["kind"] == "eval"]
        probe = sum(d["figures"].get("rollouts", 0) for d in decisions)
        data: dict[str, Any] = {
            "command": "demo", "seed": seed, "steps": steps, "rollouts": rollouts, "probe_rollouts": probe,
            "labels": bought, "label_share": bought / max(1, rollouts), "probe_share": probe / max(1, rollouts),
            "seconds": 412.0, "notes": [], "versions": {"harness-agents": "0.1.0", "torch": "2.13.0"},
            "failures": [], "changes": []}
        if golds:
            data |= {"gold_first": golds[0]["gold"], "gold_last": golds[-1]["gold"],
                     "gold_by_domain": golds[-1]["gold_by_domain"]}
        (folder / "summary.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def write_demo(folder: Path, **options: Any) -> Path:
    write_run(folder, **options)
    write_run(folder / "baseline", **{**options, "harness": False, "steps": options.get("steps", 250) + 10})
    return folder
