"""Keys and tokens out of text that is logged or stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_SECRET = re.compile(
    r"((?<![a-z])(?:sk-|key-)|Bearer\s+|api[_-]?key[\"']?\s*[=:]\s*[\"']?)[^\s\"',}]{4,}", re.IGNORECASE
)
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD")


def mask_secrets(text: str, known: Iterable[str] = ()) -> str:
    """``text`` without what looks like a key, without ``known``, and without keys held in the environment."""
    held = [v for k, v in os.environ.items() if _SECRET_NAME.search(k) and len(v) >= 6]
    for secret in sorted({*held, *known}, key=len, reverse=True):
        if secret:
            text = text.replace(secret, "***")
    return _SECRET.sub(r"\1***", text)
