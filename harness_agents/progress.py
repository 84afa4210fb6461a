"""Progress of one or several runs in the terminal: a bar on a screen, plain lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self


class Progress:
    """Bars with reward, live-group share and state version. Outside a terminal one line at every tenth of a run."""

    def __init__(self, names: Mapping[str, int]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._console = Console()
        self._screen = self._console.is_terminal
        self._bars = Bars(
            TextColumn("{task.description:<16}"),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            disable=not self._screen,
        )
        self._ids = {name: self._bars.add_task(name, total=total, note="") for name, total in names.items()}
        self._totals = dict(names)
        self._told: dict[str, int] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def update(self, name: str, step: int, row: Mapping[str, Any] | None = None, note: str | None = None) -> None:
        """``row``: a 'step' row of metrics.jsonl."""
        text = note if note is not None else _note(row or {})
        self._bars.update(self._ids[name], completed=step, note=text, total=max(self._totals[name], step))
        tenth = 10 * step // max(self._totals[name], 1)
        if not self._screen and self._told.get(name, -1) != tenth:
            self._told[name] = tenth
            print(f"{name}: step {step} of {self._totals[name]}  {text}", flush=True)

    def say(self, text: str) -> None:
        """A line above the bars."""
        if self._screen:
            self._console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stdout, flush=True)


def _note(row: Mapping[str, Any]) -> str:
    def number(key: str, form: str) -> str:
        value = row.get(key)
        return "-" if value is None else format(value, form)

    return f"reward {number('reward', '.2f')}  live {number('live_share', '.0%')}  state v{row.get('state_version', 0)}"
