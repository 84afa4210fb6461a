"""Features of a completion that a reward should not pay for by themselves.

``statistics`` correlates each of them with the reward inside groups, and with the
reference where there is one. Each is a plain function of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

Feature = Callable[[str], float]

#: Longer texts are cut before a feature is computed, so that one row cannot take minutes.
MAX_CHARS = 20_000

_PRAISE_WORDS = """
    amazing awesome best brilliant comprehensive definitive delightful excellent exceptional expert fantastic
    flawless great helpful high-quality impressive insightful marvelous masterful outstanding perfect perfectly
    remarkable superb superior terrific thorough ultimate unmatched wonderful world-class
"""
_PRAISE = frozenset(_PRAISE_WORDS.split())
_HEDGE_WORDS = """
    apparently arguably likely maybe might perhaps possibly presumably probably seemingly somewhat supposedly
"""
_HEDGE = frozenset(_HEDGE_WORDS.split())
_LIST_LINE = re.compile(r"^\s*(?:[-*+•]\s|\d+[.)]\s|#{1,6}\s)")
_EDGES = ".,;:!?()[]{}\"'`*_"


def _words(text: str) -> list[str]:
    return [w.strip(_EDGES) for w in text[:MAX_CHARS].lower().split()]


def word_count(text: str) -> float:
    """Words split at white space."""
    return float(len(text[:MAX_CHARS].split()))


def repetition(text: str) -> float:
    """1 − distinct words / words."""
    words = _words(text)
    return 1 - len(set(words)) / len(words) if words else 0.0


def self_praise(text: str) -> float:
    """Share of words that praise."""
    words = _words(text)
    return sum(w in _PRAISE for w in words) / len(words) if words else 0.0


def hedging(text: str) -> float:
    """Share of words that hedge."""
    words = _words(text)
    return sum(w in _HEDGE for w in words) / len(words) if words else 0.0


def list_density(text: str) -> float:
    """Share of non-empty lines that are list items or headings."""
    lines = [line for line in text[:MAX_CHARS].split("\n") if line.strip()]
    return sum(bool(_LIST_LINE.match(line)) for line in lines) / len(lines) if lines else 0.0


DEFAULT_FEATURES: Mapping[str, Feature] = {
    "length": word_count,
    "repetition": repetition,
    "self_praise": self_praise,
    "hedging": hedging,
    "list_density": list_density,
}
