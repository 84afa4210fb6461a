"""Text that goes to and comes from a language model: fenced, bounded, and read without trust."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

_OPEN, _CLOSE = "<think>", "</think>"
_ASCII_LOWER = {i: i + 32 for i in range(ord("A"), ord("Z") + 1)}
_START = re.compile(r"[{\[]")

#: An answer of a model longer than this is not searched for JSON.
MAX_ANSWER_CHARS = 200_000
#: So many brackets that begin no JSON end the search: each may cost a pass over the text.
MAX_FAILED_STARTS = 200


def strip_think(text: str) -> str:
    """The text without reasoning blocks, also unclosed ones and those whose opening tag is in the prompt."""
    low = text.lower()
    if len(low) != len(text):  # one letter (İ) grows in lower case, and positions would shift
        low = text.translate(_ASCII_LOWER)
    kept, kept_low, at = [], [], 0
    while (begin := low.find(_OPEN, at)) >= 0 and (end := low.find(_CLOSE, begin)) >= 0:
        kept.append(text[at:begin])
        kept_low.append(low[at:begin])
        at = end + len(_CLOSE)
    text, low = "".join([*kept, text[at:]]), "".join([*kept_low, low[at:]])
    begin, end = low.find(_OPEN), low.find(_CLOSE)
    lead = end + len(_CLOSE) if end >= 0 and (begin < 0 or end < begin) else 0
    return text[lead : begin if begin >= 0 else len(text)].strip()


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters, cut in the middle: head and tail both say something about an answer."""
    if len(text) <= limit:
        return text
    mark = " [... cut ...] "
    keep = max(limit - len(mark), 2)
    head = keep - keep // 2
    return text[:head] + mark + text[len(text) - keep // 2 :]


def nonce() -> str:
    """Eight random bytes in hex: an answer cannot guess the fence it is put in."""
    return secrets.token_hex(8)


def fence(text: str, name: str, mark: str, *, limit: int = 4000) -> str:
    """``text`` between tags that carry ``mark``, bounded; the mark is removed from the text itself."""
    return f"<{name}-{mark}>\n{clip(text.replace(mark, ''), limit)}\n</{name}-{mark}>"


def find_json(text: str) -> list[Any]:
    """Every top-level JSON object or list in a model's answer, the last one first.

    Fences, prose around it and reasoning blocks are skipped. Truncated JSON and NaN are
    not repaired: a guess at what a model meant is worse than asking again. The search ends after
    ``MAX_FAILED_STARTS`` brackets that begin no JSON.
    """
    body = strip_think(text)[:MAX_ANSWER_CHARS]
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
    found: list[Any] = []
    at = failed = 0
    while failed < MAX_FAILED_STARTS and (start := _START.search(body, at)) is not None:
        try:
            value, at = decoder.raw_decode(body, start.start())
        except (ValueError, RecursionError):
            failed += 1
            at = start.end()
            continue
        found.append(value)
    return found[::-1]


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
