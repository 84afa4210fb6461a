"""The catalogue of checks that the rule-based proposer may add. Frozen before any world is drawn.

Five are useful in some worlds, twenty-five are decoys (five for each useful one). None reads
a world's gold; the gold has parts that none of them can see.
"""

from __future__ import annotations

import rl_core.microworld.checks  # noqa: F401  registers the words.* checks
from rl_core.microworld.lexicon import FILLER, HEDGE, PRAISE
from rl_core.rubric import CheckRoute, Criterion

Param = str | int | float | bool | list[str] | None


def _entry(cid: str, text: str, check: str, **params: Param) -> Criterion:
    return Criterion(
        id=f"cat.{cid}", text=text, weight=1.0, origin="catalogue", route=CheckRoute(name=check, params=params)
    )


USEFUL: tuple[Criterion, ...] = (
    _entry("off_topic", "names facts that the rubric does not ask for", "words.off_topic", most=4),
    _entry("praise", "praises instead of answering", "words.mentions", words=list(PRAISE)),
    _entry("repetition", "says words again", "words.repeats", most=3),
    _entry("short", "at most 6 words", "words.length_between", high=6),
    _entry("hedging", "hedges", "words.mentions", words=list(HEDGE)),
)

DECOYS: tuple[Criterion, ...] = (
    _entry("even", "even number of words", "words.count_multiple", of=2),
    _entry("third", "word count a multiple of 3", "words.count_multiple", of=3),
    _entry("early_1", "a word from a to d", "words.initial_between", low="a", high="d"),
    _entry("early_2", "two words from a to f", "words.initial_between", low="a", high="f", at_least=2),
    _entry("early_3", "three words from a to h", "words.initial_between", low="a", high="h", at_least=3),
    _entry("middle_1", "a word from g to l", "words.initial_between", low="g", high="l"),
    _entry("middle_2", "two words from g to m", "words.initial_between", low="g", high="m", at_least=2),
    _entry("middle_3", "two words from k to p", "words.initial_between", low="k", high="p", at_least=2),
    _entry("late_1", "a word from n to r", "words.initial_between", low="n", high="r"),
    _entry("late_2", "two words from n to z", "words.initial_between", low="n", high="z", at_least=2),
    _entry("late_3", "three words from m to z", "words.initial_between", low="m", high="z", at_least=3),
    _entry("late_4", "a word from s to t", "words.initial_between", low="s", high="t"),
    _entry("long_1", "a word of 8 letters", "words.long_words", letters=8),
    _entry("long_2", "two words of 7 letters", "words.long_words", letters=7, at_least=2),
    _entry("long_3", "a word of 10 letters", "words.long_words", letters=10),
    _entry("long_4", "three words of 6 letters", "words.long_words", letters=6, at_least=3),
    _entry("end_1", "last word from a to h", "words.ends_between", low="a", high="h"),
    _entry("end_2", "last word from i to p", "words.ends_between", low="i", high="p"),
    _entry("end_3", "last word from q to z", "words.ends_between", low="q", high="z"),
    _entry("double_1", "a word with a double letter", "words.double_letters", at_least=1),
    _entry("double_2", "two words with double letters", "words.double_letters", at_least=2),
    _entry("filler_1", "uses a joining word", "words.mentions", words=list(FILLER[:4])),
    _entry("filler_2", "uses an empty noun", "words.mentions", words=list(FILLER[9:])),
    _entry("echo", "repeats a word of the prompt", "words.echoes_prompt"),
    _entry("min_3", "at least 3 words", "words.length_between", low=3),
)

CATALOGUE: tuple[Criterion, ...] = USEFUL + DECOYS
