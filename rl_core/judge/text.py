"""Text that goes to and comes from a language model: fenced, bounded, and read without trust."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

_THINK = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_OPEN_THINK = re.compile(r"<think>.*\Z", re.DOTALL | re.IGNORECASE)
_LEAD_THINK = re.compile(r"\A(?:(?!<think>).)*?</think>", re.DOTALL | re.IGNORECASE)

#: An answer of a model longer than this is not searched for JSON.
MAX_ANSWER_CHARS = 200_000


def strip_think(text: str) -> str:
    """The text without reasoning blocks, also unclosed ones and those whose opening tag is in the prompt."""
    text = _THINK.sub("", text)
    text = _LEAD_THINK.sub("", text)
    return _OPEN_THINK.sub("", text).strip()


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
    not repaired: a guess at what a model meant is worse than asking again.
    """
    body = strip_think(text)[:MAX_ANSWER_CHARS]
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
    found: list[Any] = []
    at = 0
    while True:
        starts = [i for i in (body.find("{", at), body.find("[", at)) if i >= 0]
        if not starts:
            break
        start = min(starts)
        try:
            value, end = decoder.raw_decode(body, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        found.append(value)
        at = end
    return found[::-1]


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
