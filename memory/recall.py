"""What recall hands out, and how the list is made short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from memory.records import Record


@dataclass(frozen=True)
class Recalled:
    """A record with the reason why it was recalled.

    ``score``: cosine between the query and the record's text, in [-1, 1]; None without a
    query. ``times``: how many candidates told the same thing (figures aside); the newest
    stands for them.
    """

    record: Record
    score: float | None
    why: str
    times: int = 1

    def line(self) -> str:
        """One line for a prompt: kind, outcome, place, text, reason."""
        r = self.record
        place = ", ".join(x for x in (r.interface if r.interface != "none" else "", r.domain) if x)
        head = f"[{r.kind}, {r.outcome}, update {r.update}" + (f", {place}" if place else "") + "]"
        often = f" (told {self.times} times)" if self.times > 1 else ""
        return f"{head} {' '.join(r.text.split())}{often} <{self.why}>"


@dataclass(frozen=True)
class Similar:
    """An earlier composite edit. ``relation``: "repeat" (cosine above .9) or "reversal" (below -.9)."""

    record: Record
    cosine: float
    relation: str


def told_alike(record: Record) -> tuple[str, ...]:
    """Two records with the same value tell the same thing, perhaps with other figures."""
    text = re.sub(r"\d+", "#", " ".join(record.text.casefold().split()))
    return (record.kind, record.interface, record.domain, record.outcome, text)


def merge(
    recent: Sequence[Recalled], near: Sequence[Recalled], *, n_recent: int, n_near: int, max_chars: int
) -> list[Recalled]:
    """Both lists as one: each thing once, at most ``max_chars`` of lines, best score first.

    ``recent`` is newest first and ``near`` best first. Space is given out in turns, nearest
    first, so that neither list can crowd out the other; what does not fit is left out.
    """
    recent, near = _distinct(recent)[:n_recent], _distinct(near)[:n_near]
    by_id = {r.record.id: r for r in recent}
    near = [replace(n, why=f"recent, {n.why}") if n.record.id in by_id else n for n in near]
    chosen: dict[tuple[str, ...], Recalled] = {}
    left = max_chars
    for candidate in (c for pair in zip_longest(near, recent) for c in pair if c is not None):
        tells = told_alike(candidate.record)
        size = len(candidate.line()) + 1
        if tells not in chosen and size <= left:
            chosen[tells] = candidate
            left -= size
    return sorted(chosen.values(), key=lambda c: (-round(c.score or 0.0, 5), *newest_first(c.record)))


def newest_first(record: Record) -> tuple[int, int, str]:
    """Sort key; the id at the end makes every order a total one."""
    return (-record.step, -record.update, record.id)


def _distinct(candidates: Iterable[Recalled]) -> list[Recalled]:
    groups: dict[tuple[str, ...], list[Recalled]] = {}
    for c in candidates:
        groups.setdefault(told_alike(c.record), []).append(c)
    return [replace(min(same, key=lambda c: newest_first(c.record)), times=len(same)) for same in groups.values()]
