"""Words, sentences and capital words of an English text, by rule."""

from __future__ import annotations

import re

#: A full stop after one of these ends no sentence.
_ABBREVIATIONS_WORDS = """
    mr mrs ms dr prof rev gen col capt lt sgt st mt jr sr vs etc e.g i.e a.m p.m no inc ltd co corp dept est fig
    vol jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k u.n ph.d m.d b.a m.a d.c
"""
_ABBREVIATIONS = frozenset(_ABBREVIATIONS_WORDS.split())
_END = re.compile(r"""[.!?]+["'”’)\]*_]*(?=\s|$)""")
_TOKEN = re.compile(r"[^\W_][\w.&/-]*")


def count_words(text: str) -> int:
    """Runs of letters, digits and underscores ("don't" is two), as IFEval counts."""
    return len(re.findall(r"\w+", text))


def count_sentences(text: str) -> int:
    """Sentences end at . ! ? before white space, unless the stop belongs to an abbreviation, an initial or a
    list number; a line break alone ends none (as in the Punkt splitter that IFEval used).
    """
    count = 0
    start = 0
    for m in _END.finditer(text):
        before = text[start : m.start()]
        if not re.search(r"\w", before) and not re.search(r"\w", m.group()):
            start = m.end() if not before.strip() else start
            continue
        word = before.split()[-1] if before.split() else ""
        bare = word.strip("\"'“”‘’([*_").lower()
        follow = text[m.end() :].lstrip()
        if m.group().startswith(".") and len(m.group().rstrip("\"'”’)]*_")) == 1:
            if bare in _ABBREVIATIONS and follow[:1] and not (bare[-1:] == "m" and follow[:1].isupper()):
                continue
            if re.fullmatch(r"[a-z]", bare) and bare != "i" and follow[:1].isupper():
                continue
            if follow and re.search(r"(?:^|\n)[\s*_]*\d+$", before):
                continue
        if ".." in m.group() and follow[:1].islower():
            continue
        count += 1
        start = m.end()
    return count + bool(re.search(r"\w", text[start:]))


def count_capital_words(text: str) -> int:
    """Tokens in capital letters only; a hyphenated word is one token, a contraction ends before its apostrophe."""
    return sum(token.isupper() for token in _TOKEN.findall(text))
