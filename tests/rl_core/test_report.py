"""Report of a run: content, special cases, escaping, figures equal to the ledger's."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import random
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rl_core.edits import (
    Edit,
    GuidanceAdd,
    GuidanceDose,
    GuidanceItem,
    RubricComposite,
    RubricRetire,
    RubricReweight,
    SamplerEdit,
    Scope,
    describe,
)
from rl_core.errors import InputError
from rl_core.report import figures as f
from rl_core.report import summary_text, write_report
from rl_core.rubric import Criterion

DOMAINS = ("medical", "science", "writing", "role-play", "instruction following")
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e\ud800 {{ 7*7 }} \"'&"

SCIENCE, FORMAT = Scope(domains=("science",)), Scope(domains=("instruction following",))
FORMAT_UP = RubricReweight(scope=FORMAT, family="format", multiplier=3)
EDITS: list[tuple[int, Edit, str, float, str, str]] = [
    # step, edit, status, mean d, failure kind, reason
    (
        10,
        RubricComposite(
            multipliers={"length_bonus": 0, "praise": 0.12, "facts": 2.1},
            added=(Criterion(id="precision", text="states figures with units", weight=3),),
        ),
        "accepted",
        0.112,
        "spurious",
        "30 pairs, every domain gains; the battery no longer sees length",
    ),
    (
        10,
        SamplerEdit(rules=((Scope(domains=("role-play",)), 0.25), (SCIENCE, 2)), mix_floor=0.2),
        "inconclusive",
        0.018,
        "dead_high",
        "the cap of 256 rollouts came first",
    ),
    (
        20,
        GuidanceAdd(item=GuidanceItem(id="plan-science", kind="plan", scope=SCIENCE, text="First list the facts.")),
        "accepted",
        0.064,
        "dead_low",
        "hinted rollouts reach reward that the plain ones do not",
    ),
    (
        40,
        RubricComposite(scope=Scope(domains=("writing",)), multipliers={"repeats": 0}),
        "rejected",
        -0.041,
        "blind",
        "harm: the mirrored process passed its threshold",
    ),
    (
        40,
        RubricRetire(scope=Scope(domains=("medical",)), family="hedge"),
        "vetoed",
        math.nan,
        "spurious",
        "the critic's reader: punishes honest uncertainty",
    ),
    (70, FORMAT_UP, "accepted", 0.038, "inverted", "24 pairs on the bank"),
    (
        100,
        GuidanceDose(item_id="plan-science", dose=0.25),
        "inconclusive",
        0.006,
        "hint_unneeded",
        "evidence within the budget was not enough",
    ),
    (110, FORMAT_UP, "rolled_back", -0.052, "inverted", "the running control is better on 64 labelled groups"),
    (
        150,
        SamplerEdit(rules=((Scope(domains=("medical",)), 0.5), (Scope(domains=("writing",)), 3))),
        "accepted",
        0.029,
        "dead_high",
        "medical is mastered",
    ),
    (
        200,
        RubricReweight(scope=SCIENCE, family="units", multiplier=2),
        "rejected",
        -0.003,
        "blind",
        "futility: no gain after 96 pairs",
    ),
]


def ledger_lines() -> list[dict[str, Any]]:
    r = random.Random(3)
    out = []
    version = 0
    for step, edit, status, d, kind, reason in EDITS:
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
            figures = {
                "pairs": pairs,
                "mean_d": d,
                "sd_d": 0.11,
                "lift_current": 0.051,
                "lift_candidate": 0.051 + d,
                "e_value": e,
                "threshold": 20.0,
                "rollouts": pairs * 8,
                "labels": pairs * 4,
                "interval": [d - half, d + half],
                "e_path": path,
            }
        out.append(
            {
                "update": step // 10,
                "step": step,
                "interface": edit.interface,
                "status": status,
                "edit": edit.model_dump(mode="json"),
                "state_version": version,
                "figures": figures,
                "reason": reason,
                "description": describe(edit),
                "prediction": 0.05,
                "failure": {
                    "kind": kind,
                    "statistic": 0.41,
                    "where": str(getattr(edit, "scope", "")),
                    "reason": "support of 36 groups",
                },
            }
        )
    return out


def write_run(
    folder: Path,
    *,
    steps: int = 250,
    harness: bool = True,
    gold: bool = True,
    edits: bool = True,
    domains: tuple[str, ...] = DOMAINS,
    summary: bool = True,
    labels: bool = True,
    seed: int = 7,
) -> Path:
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
            lines.append(
                {
                    "kind": "eval",
                    "step": step,
                    "gold": sum(by.values()) / len(by),
                    "gold_by_domain": by,
                    "reward": 0.5,
                    "rollouts": rollouts,
                }
            )
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
                table[d] = {
                    "reward": 0.4 + 0.001 * step,
                    "live": live,
                    "dead_low": low,
                    "dead_high": high,
                    "dead_flat": 1 - live - low - high,
                }
        if harness and step % 10 == 0:
            now = [d for d in decisions if d["step"] == step]
            probes = sum(d["figures"].get("rollouts", 0) for d in now)
            rollouts += probes
            bought += sum(d["figures"].get("labels", 0) for d in now) if labels else 0
            failed = step == 130
            lines.append(
                {
                    "kind": "update",
                    "step": step,
                    "update": step // 10,
                    "healthy": not now and not failed,
                    "probe_rollouts": probes,
                    "labels": 0 if not labels else 12,
                    "seconds": 1.4,
                    "decisions": len(now),
                    "accepted": sum(d["status"] == "accepted" for d in now),
                    "state_version": 1,
                    "error": "budget of 40 calls reached" if failed else None,
                }
            )
        mean = sum(v["live"] for v in table.values()) / max(1, len(table)) if table else None
        reward = 0.35 + 0.3 * (1 - math.exp(-step / 60)) + r.gauss(0, 0.03)
        lines.append(
            {
                "kind": "step",
                "step": step,
                "reward": reward,
                "live_share": mean,
                "dead_low": 0.1,
                "dead_high": 0.1,
                "dead_flat": 0.1,
                "state_version": 1,
                "guided_share": 0.1,
                "rollouts": rollouts,
                "labels": bought,
                "domains": table,
            }
        )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines), encoding="utf-8")
    (folder / "ledger.jsonl").write_text("".join(json.dumps(d) + "\n" for d in decisions), encoding="utf-8")
    if summary:
        golds = [x for x in lines if x["kind"] == "eval"]
        probe = sum(d["figures"].get("rollouts", 0) for d in decisions)
        data: dict[str, Any] = {
            "command": "demo",
            "seed": seed,
            "steps": steps,
            "rollouts": rollouts,
            "probe_rollouts": probe,
            "labels": bought,
            "label_share": bought / max(1, rollouts),
            "probe_share": probe / max(1, rollouts),
            "seconds": 412.0,
            "notes": [],
            "versions": {"harness-agents": "0.1.0", "torch": "2.13.0"},
            "failures": [],
            "changes": [],
        }
        if golds:
            data |= {
                "gold_first": golds[0]["gold"],
                "gold_last": golds[-1]["gold"],
                "gold_by_domain": golds[-1]["gold_by_domain"],
            }
        (folder / "summary.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


def write_demo(folder: Path, **options: Any) -> Path:
    write_run(folder, **options)
    write_run(folder / "baseline", **{**options, "harness": False, "steps": options.get("steps", 250) + 10})
    return folder


class Page(HTMLParser):
    """The page as a browser would take it apart: nesting, ids, references, texts by row."""

    VOID = ("meta", "br", "hr", "img", "input", "link")

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.rows: dict[str, str] = {}
        self.words: list[str] = []
        self._row = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [k for k, _ in attrs]
        assert len(names) == len(set(names)), f"double attribute in {tag}"
        self.tags.append((tag, {k: v or "" for k, v in attrs}))
        if tag == "tr":
            self._row = dict(attrs).get("id") or ""
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        if tag == "tr":
            self._row = ""

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "script"):
            return
        self.words.append(data)
        if self._row:
            self.rows[self._row] = self.rows.get(self._row, "") + data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def having(self, attribute: str) -> list[str]:
        return [a[attribute] for _, a in self.tags if attribute in a]


def page(folder: Path) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_demo(tmp_path_factory.mktemp("demo") / "run")


def test_one_small_file_that_needs_nothing_else(demo: Path) -> None:
    text = write_report(demo).read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert "url(" not in text
    parsed = Page(text)
    assert parsed.having("src") == []
    assert all(h.startswith("#") for h in parsed.having("href"))
    assert not [a for _, attrs in parsed.tags for a in attrs if a.startswith("on")]
    assert [t for t, _ in parsed.tags].count("script") == 1


def test_every_reference_inside_the_page_has_its_target_once(demo: Path) -> None:
    parsed = page(demo)
    ids = parsed.having("id")
    assert len(ids) == len(set(ids))
    assert {h[1:] for h in parsed.having("href")} <= set(ids)


def test_figures_of_the_decisions_are_those_of_the_ledger(demo: Path) -> None:
    rows = page(demo).rows
    ledger = [json.loads(line) for line in (demo / "ledger.jsonl").read_text().splitlines()]
    assert len([r for r in rows if r]) == len(ledger) == len(EDITS)
    for n, d in enumerate(ledger, start=1):
        row, g = rows[f"d{n}"], d["figures"]
        assert d["description"] in row
        assert d["status"].replace("_", " ") in row
        assert f"step {d['step']}" in row
        if not g:
            assert "not measured" in row
            continue
        mean, lo, hi = (f"{v:+.3f}".replace("-", f.MINUS) for v in (g["mean_d"], *g["interval"]))
        assert f"{mean} ({lo} to {hi})" in row
        assert f"mean d {mean}, interval {lo} to {hi}" in row
        assert f"{g['pairs']} pairs, {g['rollouts']} rollouts, {g['labels']} labels" in row
        assert f"e {f.e_value(g['e_value'])} {'≥' if g['e_value'] >= 20 else '<'} 20" in row
        assert ("made state v" in row) == (d["status"] == "accepted")
    assert "rolled back at step 110" in rows["d6"]


def test_gain_is_read_where_both_runs_have_used_the_same_rollouts(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "baseline").mkdir(parents=True)

    def gold(folder: Path, *points: tuple[int, float]) -> None:
        rows = [{"kind": "eval", "step": k, "gold": g, "rollouts": n} for k, (n, g) in enumerate(points)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))

    gold(run, (0, 0.2), (1000, 0.4), (2000, 0.8))
    gold(run / "baseline", (0, 0.2), (1500, 0.3))
    parsed = page(run)
    assert "gold 0.600 with the harness, 0.300 without, at equal rollouts: +0.300" in parsed.text
    assert "at 1,500 rollouts each, probes included" in parsed.text
    gold(run, (0, 0.2), (1000, 0.25), (2000, 0.2))
    assert f"at equal rollouts: {f.MINUS}0.075" in page(run).text
    assert "the harness did not pay" in page(run).text
    gold(run, (0, 0.2), (1500, 0.303))
    assert "at equal rollouts: no difference" in page(run).text


def test_summary_words_go_first_and_a_different_gain_is_named(tmp_path: Path) -> None:
    run = write_demo(tmp_path / "run", steps=60)
    data = json.loads((run / "summary.json").read_text())
    data |= {
        "failures": ["length was paid for in writing"],
        "changes": ["length lost its weight"],
        "gain": 0.9,
        "notes": ["no reference: signal, not validity"],
    }
    (run / "summary.json").write_text(json.dumps(data))
    text = page(run).text
    assert "Length was paid for in writing." in text
    assert "Length lost its weight." in text
    assert "No reference: signal, not validity." in text
    assert "summary.json gives a gain of +0.900" in text


def test_no_baseline(tmp_path: Path) -> None:
    parsed = page(write_run(tmp_path / "run", steps=40))
    assert "There is no run without harness to compare with" in parsed.text
    assert "without harness, at" not in parsed.text
    assert "same run without harness" not in parsed.text


def test_no_gold(tmp_path: Path) -> None:
    text = page(write_run(tmp_path / "run", steps=40, gold=False)).text
    assert "Gold was not measured, so what the edits gained is not known." in text
    assert "Gold was not measured by domain." in text
    assert "Held-out gold 0.000" not in text


def test_no_decisions(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=40, edits=False)
    (run / "ledger.jsonl").unlink()
    text = page(run).text
    assert "No edit has been tested in this run." in text
    assert "Nothing: no edit was accepted." in text
    assert "What was changed: nothing" in summary_text(run)


def test_no_reference_says_signal_not_validity(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=40, labels=False)
    assert "signal, not validity" in page(run).text
    assert "signal, not validity" not in page(write_run(tmp_path / "other", steps=40)).text


def test_inconclusive_is_named_a_valid_result(demo: Path) -> None:
    assert "Inconclusive is a valid result" in page(demo).text


def test_an_unfinished_run_is_reported_up_to_its_last_whole_line(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=57, summary=False)
    with (run / "metrics.jsonl").open("a") as out:
        out.write('{"kind": "step", "ste')
    text = page(run).text
    assert "unfinished" in text
    assert "So far: " in text
    assert "up to step 57" in text
    assert "The last line of metrics.jsonl is incomplete" in text


def test_a_run_that_has_logged_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    assert "Nothing has been logged yet" in page(tmp_path).text
    assert "Nothing has been logged yet" in summary_text(tmp_path)


def test_steps_logged_again_after_a_resume_count_once(tmp_path: Path) -> None:
    rows = [
        {"kind": "step", "step": s, "reward": 0.1, "live_share": v, "rollouts": 8 * s}
        for s, v in ((1, 0.5), (2, 0.5), (3, 0.0), (2, 0.5), (3, 1.0))
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    assert "Live groups went from 50 % (first step) to 100 % (last step)." in page(tmp_path).text


def test_what_is_missing_is_a_gap_not_zero(tmp_path: Path) -> None:
    rows = [
        {"kind": "step", "step": s, "reward": None if s == 3 else 0.5, "live_share": None, "domains": {}}
        for s in range(1, 6)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    parsed = page(tmp_path)
    curve = next(a["d"] for t, a in parsed.tags if t == "path" and a.get("class") == "curve harness")
    assert curve.count("M") == 2
    assert "The share of live groups has not been logged." in parsed.text
    assert "Groups were not logged by domain." in parsed.text


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = tmp_path / "<b>run"
    write_demo(hostile, steps=40, domains=('"><script>d</script>', "medical"))
    rows = ledger_lines()[:5]
    for d in rows:
        d |= {
            "reason": HOSTILE,
            "description": HOSTILE,
            "failure": {"kind": HOSTILE, "where": HOSTILE, "reason": HOSTILE},
        }
    (hostile / "ledger.jsonl").write_text("".join(json.dumps(d) + "\n" for d in rows))
    data = json.loads((hostile / "summary.json").read_text())
    data |= {
        "failures": [HOSTILE],
        "changes": [HOSTILE],
        "notes": [HOSTILE],
        "command": HOSTILE,
        "versions": {HOSTILE: HOSTILE},
    }
    (hostile / "summary.json").write_text(json.dumps(data))
    parsed = page(hostile)
    tags = [t for t, _ in parsed.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert "<b>run" in parsed.text
    assert not [a for _, attrs in parsed.tags for a in attrs if a.startswith("on")]
    assert "{{ 7*7 }}" in parsed.rows["d1"]
    assert "<script>alert(1)</script>" in parsed.rows["d1"]
    for text in (parsed.text, summary_text(hostile)):
        assert not {"\x1b", "\u202e", "\ud800"} & set(text)


def test_the_policy_of_the_page_allows_only_its_own_script(demo: Path) -> None:
    text = write_report(demo).read_text(encoding="utf-8")
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_many_and_long_domains_and_decisions(tmp_path: Path) -> None:
    names = tuple(f"domain {i:02d} " + "unbroken" * 30 for i in range(40))
    run = write_run(tmp_path / "run", steps=30, domains=names)
    rows = [d | {"step": 1 + k % 30, "reason": "so " * 2000} for k in range(12) for d in ledger_lines()]
    (run / "ledger.jsonl").write_text("".join(json.dumps(d) + "\n" for d in rows))
    parsed = page(run)
    assert "16 more domains" in parsed.text
    assert len([r for r in parsed.rows if r]) == 50
    assert "70 earlier decisions that changed nothing are left out" in parsed.text
    assert {h[1:] for h in parsed.having("href")} <= set(parsed.having("id"))
    assert len(write_report(run).read_bytes()) < 400_000


def test_cells_of_the_group_map_show_the_shares(tmp_path: Path) -> None:
    shares = {"live": 0.5, "dead_low": 0.25, "dead_high": 0.25, "dead_flat": 0.0}
    rows = [
        {"kind": "step", "step": 1, "domains": {"medical": shares, "science": {"live": 0.2}}},
        {"kind": "step", "step": 2, "domains": {"medical": {**shares, "live": 0.25, "dead_low": 0.5}}},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    parsed = page(tmp_path)
    assert "step 1: live 50 %, flat 0 %, too hard 25 %, mastered 25 %" in _near(parsed.text)
    assert "step 1: live 20 %, dead 80 %" in parsed.text
    assert "step 2: no group logged" in parsed.text
    drawn = {a["class"]: a["d"] for t, a in parsed.tags if t == "path" and a.get("class") in shares}
    assert drawn["dead_high"] == "M0 25h1v-25h-1zM1 25h1v-25h-1z"
    assert "dead_flat" not in drawn


def _near(text: str) -> str:
    order = ("live", "flat", "too hard", "mastered")
    head, _, rest = text.partition("step 1: ")
    assert head
    said = {part.rsplit(" ", 2)[0]: part for part in rest.split(" step 2")[0].split(", ")}
    return "step 1: " + ", ".join(said[o] for o in order)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("metrics.jsonl", '{"kind": "step", "step": "soon"}\n', "step"),
        ("metrics.jsonl", '{"kind": "step", "step": 1, "reward": "high"}\n', "reward"),
        ("metrics.jsonl", '{"kind": "eval"}\n', "step"),
        ("metrics.jsonl", "nonsense\n", "line 1"),
        ("metrics.jsonl", "[1]\n", "line 1"),
        ("metrics.jsonl", '{"kind": "step", "step": 1, "domains": {"a\\nb": {"live": "x"}}}\n', "domains"),
        ("ledger.jsonl", '{"step": 1}\n', "decision 1"),
        ("summary.json", "{", "summary.json"),
        ("summary.json", "[]", "summary.json"),
        ("summary.json", '{"notes": 3}', "notes"),
        ("baseline/metrics.jsonl", "nonsense\n", "baseline"),
    ],
)
def test_a_broken_run_folder_is_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / "baseline").mkdir()
    (tmp_path / "metrics.jsonl").write_text("")
    (tmp_path / name).write_text(text)
    for read in (write_report, summary_text):
        with pytest.raises(InputError, match=said) as error:
            read(tmp_path)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "report.html").exists()


def test_no_run_folder(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none", tmp_path / "file"):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match=r"no such folder|holds no run"):
            write_report(place)


def test_out_names_the_file_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", steps=3)
    assert write_report(run) == run / "report.html"
    assert write_report(run, tmp_path / "new" / "r.html") == tmp_path / "new" / "r.html"
    with pytest.raises(InputError, match="cannot be written"):
        write_report(run, tmp_path)
    (tmp_path / "plain").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(run, tmp_path / "plain" / "r.html")


def test_the_same_run_gives_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    assert write_report(demo, tmp_path / "a.html").read_bytes() == write_report(demo, tmp_path / "b.html").read_bytes()


def test_terminal_summary(demo: Path) -> None:
    text = summary_text(demo)
    lines = text.splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= 100 for line in lines)
    assert text.isascii()
    ledger = [json.loads(line) for line in (demo / "ledger.jsonl").read_text().splitlines()]
    flat = " ".join(text.split())
    for d in ledger:
        g = d["figures"]
        if d["status"] == "accepted":
            assert f"step {d['step']}: {d['description']} [d {g['mean_d']:+.3f}, {g['pairs']} pairs, e 24.4" in flat
    for title in ("What failed", "What was changed", "What it gained", "Cost"):
        assert title in lines


def test_terminal_summary_stays_short_when_much_happened(tmp_path: Path) -> None:
    run = write_demo(tmp_path / "run", steps=40)
    rows = [d | {"step": 1 + k, "status": "accepted"} for k in range(9) for d in ledger_lines()]
    (run / "ledger.jsonl").write_text("".join(json.dumps(d) + "\n" for d in rows))
    lines = summary_text(run).splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= 100 for line in lines)
    assert "and 83 more (see the report)" in summary_text(run)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0.0, "0.000"),
        (-0.0001, "0.000"),
        (0.1234, "0.123"),
        (-0.5, "−0.500"),
        (43.21, "43.2"),
    ],
)
def test_numbers(value: float | None, said: str) -> None:
    assert f.number(value) == said


def test_other_figures() -> None:
    assert [f.percent(x) for x in (None, 0.0, 0.048, 0.5, 1.0)] == ["–", "0 %", "4.8 %", "50 %", "100 %"]
    assert [f.signed(x) for x in (0.1, -0.1, 0.0, None)] == ["+0.100", "−0.100", "0.000", "–"]
    assert [f.e_value(x) for x in (0.081, 24.37, 321.4, 2.5e7, math.inf)] == ["0.08", "24.4", "321", "2.5×10^7", "∞"]
    assert [f.duration(x) for x in (None, 1.44, 42, 412, 7260)] == ["–", "1.4 s", "42 s", "7 min", "2 h 01 min"]
    assert f.clean("a\x1b[0m\n\u202eb \ud800c", 80) == "a [0m b c"
    assert f.clean("x" * 50, 10) == "x" * 9 + "…"
