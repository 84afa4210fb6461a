"""Draw the pictures of docs/microworld.md from a demo's run folder: python docs/microworld/draw.py RUN_FOLDER"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from rl_core.microworld.lexicon import DOMAINS, HEDGE, OPENERS, PRAISE, facts_of
from rl_core.microworld.world import World
from rl_core.rollout import Rollout
from rl_core.rollout_log import RolloutLog
from rl_core.run_folder import read_jsonl
from rl_core.state import HarnessState
from rl_core.task import Task

HERE = Path(__file__).parent
INK, SOFT, LINE, PAPER = "#1f2328", "#57606a", "#d0d7de", "#fbfbf9"
GREEN, RED, PURPLE, BLUE, AMBER = "#1a7f37", "#b42318", "#7a3ec8", "#0b61c4", "#9a6700"
SANS = "system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
#: Steps at the end of a run that count as "after training".
LAST = 25


class Picture:
    """An SVG on a light card of its own, so that it reads the same on white and on dark pages."""

    def __init__(self, width: int, title: str) -> None:
        self.width, self.title, self.parts = width, title, [""]

    def text(self, x: float, y: float, s: str, size: float = 13, fill: str = INK, **more: str) -> None:
        extra = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in more.items())
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{fill}"{extra}>{escape(s)}</text>')

    def box(self, x: float, y: float, w: float, h: float, fill: str, stroke: str = "none", r: float = 3) -> None:
        self.parts.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{max(w, 0):.4g}" height="{h:g}" rx="{r:g}"'
            f' fill="{fill}" stroke="{stroke}"/>'
        )

    def line(self, points: Sequence[tuple[float, float]], stroke: str, width: float = 1, dash: str = "") -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}"'
            f' stroke-linejoin="round"{more}/>'
        )

    def chip(self, x: float, y: float, s: str, color: str) -> float:
        """A small label; returns the x behind it."""
        w = 6.3 * len(s) + 14
        self.box(x, y - 13, w, 19, "#fff", color, 9)
        self.text(x + 7, y + 1, s, 11, color, font_family=MONO, textLength=f"{w - 14:.4g}")
        return x + w + 6

    def save(self, name: str, height: int) -> None:
        w = self.width
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{height}" viewBox="0 0 {w} {height}"'
            f' role="img" font-family="{SANS}">\n<title>{escape(self.title)}</title>\n<rect x=".5" y=".5"'
            f' width="{w - 1}" height="{height - 1}" rx="8" fill="{PAPER}" stroke="{LINE}"/>'
        )
        (HERE / name).write_text(head + "\n".join(self.parts) + "\n</svg>\n", encoding="utf-8")


# -- the world ---------------------------------------------------------------------------------------------------


KINDS = {
    "ordinary": ("#c9d3de", "ordinary"),
    "out_of_reach": ("#0b61c4", "out of reach"),
    "impossible": ("#b42318", "impossible"),
    "mastered": ("#2da44e", "mastered"),
    "wrong_key": ("#e0a100", "wrong key"),
}
ROLES = {
    "far": "far: most tasks pay only for all facts at once",
    "hard": "hard: impossible tasks, wrong keys",
    "easy": "easy: one fact, which the policy knows",
    "praised": "praised: pays for praise and length",
    "wordy": "wordy: pays for length, noisy judge",
}


def kind(world: World, task: Task) -> str:
    return next((k for k in KINDS if k != "ordinary" and getattr(world.truth(task.id), k)), "ordinary")


def draw_world(world: World) -> None:
    p = Picture(
        920, f"The world of seed {world.seed}: five domains, 48 training tasks each, and what is planted in them"
    )
    p.text(24, 34, f"The world of seed {world.seed}", 17, font_weight="600")
    note = "one square = one training task; the labels are what an ordinary rubric holds beside its facts, with weights"
    p.text(24, 54, note, 12.5, SOFT)
    y = 74
    held = Counter(t.domain for t in world.held_out)
    for role, words in ROLES.items():
        domain = getattr(world.roles, role)
        tasks = sorted((t for t in world.tasks if t.domain == domain), key=lambda t: list(KINDS).index(kind(world, t)))
        p.line([(24, y), (896, y)], LINE)
        p.text(24, y + 26, domain, 15, font_weight="600")
        name, _, rest = words.partition(": ")
        p.text(24, y + 45, name, 12, SOFT, font_weight="600")
        p.text(24, y + 61, rest, 12, SOFT)
        for i, t in enumerate(tasks):
            p.box(304 + 15 * (i % 16), y + 14 + 15 * (i // 16), 12, 12, KINDS[kind(world, t)][0], r=2)
        plain = next((t for t in tasks if kind(world, t) in ("ordinary", "wrong_key")), None)
        x, row = 566.0, y + 28
        for c in plain.rubric.criteria if plain else ():
            if c.category == "facts":
                continue
            label = f"{c.id} {c.weight:.2f}"
            if x + 6.3 * len(label) + 14 > 808:
                x, row = 566.0, row + 25
            x = p.chip(x, row, label, {"plain": SOFT, "direct": AMBER}.get(c.id, PURPLE))
        if flips := world.flip_rate(domain):
            x = p.chip(x, row, f"noise {flips:.2f}", RED)
        if x == 566.0:
            p.text(x, row, "facts only", 12, SOFT)
        p.text(896, y + 34, f"{held[domain]} held out", 12, SOFT, text_anchor="end")
        y += 78
    p.line([(24, y), (896, y)], LINE)
    x = 24.0
    counts = Counter(kind(world, t) for t in world.tasks)
    for k, (color, label) in KINDS.items():
        p.box(x, y + 16, 12, 12, color, r=2)
        s = f"{label} ({counts[k]})"
        p.text(x + 18, y + 26.5, s, 12.5)
        x += 42 + 6.7 * len(s)
    p.save("world.svg", y + 46)


# -- one task ----------------------------------------------------------------------------------------------------


class Gold(NamedTuple):
    """The parts of gold for one answer; ``value`` is what they come to."""

    right: int
    asked: int
    wrong: int
    divisor: float
    ordered: bool
    opened: bool
    penalties: dict[str, float]
    value: float

    @property
    def content(self) -> float:
        return self.right / self.asked / self.divisor

    @property
    def style(self) -> float:
        return 0.7 + 0.15 * self.ordered + 0.15 * self.opened


def parts_of_gold(world: World, task: Task, answer: str) -> Gold:
    """The formula of ``World.gold`` part by part; stops when the two disagree."""
    truth, words = world.truth(task.id), answer.split()
    have = set(words)
    wrong = len((have & {w for d in DOMAINS for w in facts_of(d)}) - set(truth.facts))
    places = [words.index(f) for f in truth.facts if f in have]
    penalties = {
        "praise": 0.3 * bool(have & set(PRAISE)) * (world.knobs.praise > 0),
        "repeats": 0.1 * (len(words) != len(have)),
        "hedge": 0.05 * bool(have & set(HEDGE)),
        "over 7 words": 0.03 * max(0, len(words) - 7),
    }
    g = Gold(
        len(have & set(truth.facts)),
        len(truth.facts),
        wrong,
        1 + world.knobs.blind * wrong,
        len(places) == len(truth.facts) and places == sorted(places),
        not truth.opener or words[:1] == [truth.opener],
        {k: v for k, v in penalties.items() if v},
        world.gold(task.id, answer),
    )
    again = min(max(g.content * g.style - sum(g.penalties.values()), 0.0), 1.0)
    if abs(again - g.value) > 1e-9:
        raise SystemExit("draw.py no longer follows World.gold: mend parts_of_gold")
    return g


PLANTED = {
    "plain": ("flat: every answer meets it", SOFT),
    "warm": ("shortcut: a word of praise", PURPLE),
    "detailed": ("shortcut: 9 words or more", PURPLE),
    "direct": ("inverted: gold wants the opener", AMBER),
}


def draw_task(world: World, task: Task) -> None:
    truth, k = world.truth(task.id), world.knobs
    rows = task.rubric.criteria
    p = Picture(920, f"The task {task.prompt_text}: its rubric and its gold")
    p.text(24, 36, "prompt", 12, SOFT)
    p.text(84, 37, task.prompt_text, 17, font_family=MONO, font_weight="600")
    best = " ".join([truth.opener, *truth.facts])
    p.text(470, 36, "best answer", 12, SOFT)
    p.text(556, 37, best, 15, GREEN, font_family=MONO, font_weight="600")
    p.line([(24, 54), (896, 54)], LINE)
    p.text(24, 80, "What training sees: the rubric", 14, font_weight="600")
    total = sum(c.weight for c in rows)
    planted = sum(c.weight for c in rows if c.id in PLANTED)
    for i, c in enumerate(rows):
        y = 106 + 27 * i
        note, color = PLANTED.get(c.id, ("", GREEN))
        p.text(24, y, c.id, 12.5, font_family=MONO)
        p.box(102, y - 12, 62 * c.weight, 15, color)
        p.text(108 + 62 * c.weight, y, f"{c.weight:.2f}", 12, SOFT)
        p.text(238, y, note or c.text, 12.5, color)
    y = 106 + 27 * len(rows)
    note = f"{100 * planted / total:.0f} % of the weight is planted; reward = weight met / all weight"
    p.text(24, y + 4, note, 12.5, SOFT)
    p.line([(452, 68), (452, y + 10)], LINE)
    p.text(470, 80, "What counts: gold, which training never sees", 14, font_weight="600")
    for i, (share, label, color) in enumerate(
        ((0.7, "0.70 of the content", GREEN), (0.15, "order", BLUE), (0.15, "opener", AMBER))
    ):
        x = 470 + 426 * (0, 0.7, 0.85)[i]
        p.box(x, 96, 426 * share - 3, 22, color)
        p.text(x + 9, 111.5, label, 12, "#fff", font_weight="600")
    lines = (
        (f"content = facts named / {len(truth.facts)}", GREEN),
        (f"   ÷ (1 + {k.blind:.2f} for every other fact word): blind, no rubric sees it", RED),
        ("order, 0.15 of it: the facts in this order; the catalogue cannot see it", BLUE),
        (f"opener, 0.15 of it: “{truth.opener}” comes first; the catalogue cannot see it", AMBER),
        ("then off: 0.30 praise, 0.10 a word said again, 0.05 a hedge,", RED),
        ("   0.03 for each word over 7", RED),
    )
    for i, (s, color) in enumerate(lines):
        p.text(470 + 12 * s.startswith(" "), 143 + 22 * i, s.strip(), 12.5, color)
    p.save("task.svg", y + 26)


# -- three answers -----------------------------------------------------------------------------------------------


class Shown(NamedTuple):
    title: str
    rollout: Rollout
    weights: dict[str, float]


def middle(rollouts: list[Rollout]) -> Rollout:
    """The plain rollout in the middle of its group when ordered by reward."""
    group = [r for r in rollouts if r.group_id == rollouts[-1].group_id]
    return sorted(group, key=lambda r: (r.reward or 0.0, r.id))[len(group) // 2]


def choose(world: World, run: Path) -> tuple[Task, list[Shown]]:
    """The first task (by name) of the praised domain with plain rollouts before and after, in both runs."""
    first = min((r["step"] for r in read_jsonl(run / "metrics.jsonl") if r["kind"] == "update"), default=10)
    arms = [RolloutLog(folder / "rollouts") for folder in (run / "baseline", run)]
    reads = [arms[0].read(max_step=first, phases=["train"])]
    reads += [a.read(min_step=a.steps[-1] - LAST, phases=["train"]) for a in arms]
    found: list[dict[str, list[Rollout]]] = []
    for rollouts in reads:
        by_task: dict[str, list[Rollout]] = defaultdict(list)
        for r in rollouts:
            if r.guidance_id is None and r.reward is not None:
                by_task[r.task_id].append(r)
        found.append(by_task)
    common = sorted(t for t in set.intersection(*map(set, found)) if world.tasks[t].domain == world.roles.praised)
    if not common:
        raise SystemExit("the run is too short: no task of the praised domain was drawn early and late in both arms")
    task = world.tasks[common[0]]
    titles = ("Before training", "After, without the harness", "After, with the harness")
    shown = []
    for title, by_task, folder in zip(titles, found, (run / "baseline", run / "baseline", run), strict=True):
        r = middle(by_task[task.id])
        state = HarnessState.from_json((folder / f"states/v{r.harness_version:04d}.json").read_text(encoding="utf-8"))
        rubric = state.rubric_for(task)
        version = f", harness state v{r.harness_version}" if r.harness_version else ""
        shown.append(Shown(f"{title} (step {r.step}{version})", r, {c.id: c.weight for c in rubric.criteria}))
    return task, shown


def draw_answers(world: World, task: Task, shown: Sequence[Shown]) -> None:
    p = Picture(920, f"Three answers to the task {task.prompt_text}: reward and gold")
    p.text(24, 36, "prompt", 12, SOFT)
    p.text(84, 37, task.prompt_text, 17, font_family=MONO, font_weight="600")
    facts, every = set(world.truth(task.id).facts), {w for d in DOMAINS for w in facts_of(d)}
    x = 410.0
    for s, color, style in (
        ("asked fact", GREEN, {"font_weight": "700"}),
        ("other fact", RED, {"text_decoration": "underline"}),
        ("praise", PURPLE, {"font_style": "italic"}),
        ("opener", AMBER, {}),
        ("filler", SOFT, {}),
    ):
        p.text(x, 36, s, 12.5, color, font_family=MONO, **style)
        x += 7.6 * len(s) + 18
    p.box(x - 4, 22, 84, 20, "none", SOFT)
    p.text(x, 36, "said again", 12.5, SOFT, font_family=MONO)
    y = 56.0
    for title, r, weights in shown:
        p.line([(24, y), (896, y)], LINE)
        p.text(24, y + 25, title, 14, font_weight="600")
        x, row, seen = 24.0, y + 51, set()
        for w in r.completion.split():
            if x + 8.45 * len(w) > 640:
                x, row = 24.0, row + 22
            color, style = SOFT, {}
            if w in facts:
                color, style = GREEN, {"font_weight": "700"}
            elif w in every:
                color, style = RED, {"text_decoration": "underline"}
            elif w in PRAISE:
                color, style = PURPLE, {"font_style": "italic"}
            elif w in OPENERS:
                color = AMBER
            if w in seen:
                p.box(x - 4, row - 15, 8.45 * len(w) + 8, 21, "none", SOFT)
            p.text(x, row, w, 14, color, font_family=MONO, **style)
            x += 8.45 * (len(w) + 1)
            seen.add(w)
        x, row = 24.0, row + 30
        for cid, weight in weights.items():
            v = r.verdicts[cid].value
            good = v is not None and (v == 1 if weight > 0 else v == 0)
            name = cid.removeprefix("cat.")
            level = "" if v in (0, 1, None) else f" {v:.2f}"
            label = f"{'✓' if good else '✗'} {'no ' if weight < 0 else ''}{name}{level}"
            if x + 6.3 * len(label) + 14 > 648:
                x, row = 24.0, row + 25
            x = p.chip(x, row, label, GREEN if good else RED)
        g = parts_of_gold(world, task, r.completion)
        off = "".join(f" − {v:.2f} {k}" for k, v in g.penalties.items())
        style_note = " and ".join(n for n, there in (("order", g.ordered), ("opener", g.opened)) if not there)
        line = f"gold = {g.right}/{g.asked} facts"
        if g.wrong:
            line += f" ÷ {g.divisor:.2f} ({g.wrong} other fact{'s' * (g.wrong > 1)})"
        line += f" × {g.style:.2f}" + (f" (no {style_note})".replace(" and ", ", no ") if style_note else "")
        raw = g.content * g.style - sum(g.penalties.values())
        p.text(24, row + 28, line + off + f" = {raw:.2f}".replace("-", "−") + (", so 0" if raw < 0 else ""), 12, SOFT)
        bottom = row + 44
        for i, (name, value, color) in enumerate((("reward", r.reward or 0.0, BLUE), ("gold", g.value, GREEN))):
            by = y + 34 + 34 * i
            p.text(668, by + 15, name, 13)
            p.box(722, by, 122, 20, "#e9edf1")
            p.box(722, by, 122 * value, 20, color)
            p.text(896, by + 15.5, f"{value:.2f}", 15, color, text_anchor="end", font_weight="700")
        y = max(bottom, y + 116)
    p.save("answers.svg", int(y + 4))


# -- curves ------------------------------------------------------------------------------------------------------


def draw_curves(world: World, run: Path) -> None:
    p = Picture(920, "Training reward and gold over a run, without and with the harness")
    ledger = [d for d in read_jsonl(run / "ledger.jsonl") if d["status"] == "accepted"]
    for i, (folder, name) in enumerate(((run / "baseline", "Without the harness"), (run, "With the harness"))):
        left, width, top, height = 62 + 448 * i, 310, 84, 210
        rows = read_jsonl(folder / "metrics.jsonl")
        evals = [r for r in rows if r["kind"] == "eval"]
        end = max(r["rollouts"] for r in evals)
        p.text(left - 38, 34, name, 16, font_weight="600")
        for tick in (0, 0.2, 0.4, 0.6, 0.8, 1.0):
            y = top + height * (1 - tick)
            p.line([(left, y), (left + width, y)], LINE if tick else SOFT)
            p.text(left - 8, y + 4, f"{tick:.1f}", 11.5, SOFT, text_anchor="end")
        for n in range(0, end + 1, 20000):
            x = left + width * n / end
            p.text(x, top + height + 18, f"{n // 1000}k" if n else "0", 11.5, SOFT, text_anchor="middle")
        p.text(left + width, top + height + 36, "rollouts, probes included", 11.5, SOFT, text_anchor="end")
        if folder == run:
            at = {r["step"]: r["rollouts"] for r in rows if r["kind"] == "step"}
            by_step: dict[int, list[str]] = defaultdict(list)
            for d in ledger:
                by_step[d["step"]].append(d["interface"])
            for n, (step, names) in enumerate(sorted(by_step.items())):
                x = left + width * at.get(step - 1, 0) / end
                y = top - 6 - 13 * ((len(by_step) - 1 - n) % 3)
                p.line([(x, y), (x, top + height)], SOFT, 1, "3 3")
                words = " and ".join(dict.fromkeys(names)) + " edited"
                late = x > left + width / 2
                p.text(x - 4 if late else x + 4, y, words, 11.5, SOFT, text_anchor="end" if late else "start")
        close = height * abs(evals[-1]["reward"] - evals[-1]["gold"]) < 34
        for field, color, nudge in (("reward", BLUE, -14), ("gold", GREEN, 6)):
            line = [(left + width * r["rollouts"] / end, top + height * (1 - r[field])) for r in evals]
            p.line(line, color, 2.5)
            x, y = line[-1][0], line[-1][1] + nudge * close
            p.text(x + 8, y + 1, field, 13, color, font_weight="600")
            p.text(x + 8, y + 16, f"{evals[0][field]:.2f} to {evals[-1][field]:.2f}", 11.5, color)
    note = f"Held-out tasks of seed {world.seed}. Reward is read by the rubrics as first written, in both panels."
    p.text(24, 354, note, 12, SOFT)
    p.save("curves.svg", 374)


def main(run: Path) -> None:
    config = json.loads((run / "summary.json").read_text(encoding="utf-8"))["config"]
    seed = config["tasks"]["world_seed"]
    world = World(config["seed"] if seed is None else seed)
    task, shown = choose(world, run)
    draw_world(world)
    draw_task(world, task)
    draw_answers(world, task, shown)
    draw_curves(world, run)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
