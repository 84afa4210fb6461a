"""summary_text: the end of a run in plain words, for the terminal."""

from __future__ import annotations

import textwrap
from pathlib import Path

from rl_core.ledger import LedgerEntry
from rl_core.report import figures as f
from rl_core.report import words
from rl_core.report.facts import costs, rolled_back_at, tally
from rl_core.report.run import Run, load_run

WIDTH = 100
MOST_LINES = 30
MOST_EDIT_LINES = 8


def summary_text(run_dir: Path) -> str:
    """What failed, what was changed (one line per accepted edit with its figures), what it gained.

    At most 30 lines of at most 100 characters, no terminal escapes. Raises InputError on a missing or broken folder.
    """
    run = load_run(Path(run_dir))
    out = [*_wrap(words.headline(run) + ".", "", 2), ""]
    out += _block("What failed", words.failures(run), 6, "nothing that led to an edit")
    out += _block("What was changed", _edits(run), MOST_EDIT_LINES, "nothing (no edit was accepted)")
    out += _block("What it gained", words.gains(run), 6, "")
    out += _block("Cost", _cost(run), 2, "")
    room = MOST_LINES - len(out)
    said = words.notes(run)
    if said and room >= 2:
        out += _block("Notes", said, room - 1, "")
    return "\n".join(f.ascii_figures(line) for line in out[:MOST_LINES])


def _wrap(text: str, indent: str, most: int = 1) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", max_lines=most, placeholder=" ..."
    )


def _block(title: str, items: list[str], most: int, empty: str) -> list[str]:
    """Title and at most ``most`` lines, one per item while there are many, else wrapped."""
    if not items:
        return [f"{title}: {empty}"] if empty else []
    shown = items if len(items) <= most else items[: most - 1]
    each = max(1, most // len(shown)) if len(items) <= most else 1
    lines = [line for item in shown for line in _wrap(item, "  ", min(each, 2))]
    if len(items) > len(shown):
        lines.append(f"  and {len(items) - len(shown)} more (see the report)")
    return [title, *lines]


def _edits(run: Run) -> list[str]:
    undone = rolled_back_at(run)
    accepted = [(i, d) for i, d in enumerate(run.decisions) if d.status == "accepted"]
    room = 2 * WIDTH - 24 if 2 * len(accepted) <= MOST_EDIT_LINES else WIDTH - 4
    return [_edit(d, undone.get(i), room) for i, d in accepted]


def _edit(d: LedgerEntry, undone: int | None, width: int) -> str:
    g = d.figures
    parts = [f"d {f.signed(g.mean_d)}"] if g.mean_d is not None else []
    if g.pairs is not None:
        parts.append(f.plural(g.pairs, "pair"))
    if g.e_value is not None:
        parts.append(f"e {f.e_value(g.e_value)}")
    parts += [f"rolled back at step {undone}"] if undone is not None else []
    # No-break spaces hold the figures together when the line wraps.
    figures = " " + f"[{', '.join(parts)}]".replace(" ", "\N{NO-BREAK SPACE}") if parts else ""
    head = f"step {d.step}: "
    # The figures stay whole: it is the description that gives way.
    room = max(20, width - len(head) - len(figures))
    return f"{head}{f.clean(d.description, room)}{figures}"


def _cost(run: Run) -> list[str]:
    c, table = costs(run), tally(run)
    statuses = {
        s: sum(row[s] for row in table.values())
        for s in ("accepted", "rejected", "inconclusive", "vetoed", "rolled_back")
    }
    decided = ", ".join(f"{n} {s.replace('_', ' ')}" for s, n in statuses.items() if n) or "no edit tested"
    return [
        f"{f.count(c.rollouts)} rollouts, probes {f.percent(c.probe_share)}, reference labels {f.count(c.labels)} "
        f"({f.percent(c.label_share)}), {f.duration(c.seconds)}",
        f"{f.plural(len(run.updates), 'harness update')}: {decided}",
    ]
