"""How numbers and foreign text are written in the report. Missing is shown as a dash, never as zero."""

from __future__ import annotations

import math
import unicodedata

MISSING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"


def number(x: float | None, digits: int = 3) -> str:
    """Fixed decimals; one decimal from 10 on (gold on a 0 to 100 scale)."""
    if x is None or not math.isfinite(x):
        return MISSING
    text = f"{x:.1f}" if abs(x) >= 10 else f"{x:.{digits}f}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def signed(x: float | None, digits: int = 3) -> str:
    text = number(x, digits)
    return text if x is None or text.startswith(MINUS) or text == MISSING or float(text) == 0 else f"+{text}"


def percent(x: float | None) -> str:
    """Share in [0, 1] as per cent; one decimal below 10 %."""
    if x is None or not math.isfinite(x):
        return MISSING
    return f"{100 * x:.1f} %" if 0 < abs(x) < 0.0995 else f"{100 * x:.0f} %"


def count(n: float | None) -> str:
    return MISSING if n is None or not math.isfinite(n) else f"{n:,.0f}"


def e_value(x: float | None) -> str:
    """E-values span many orders of magnitude: three digits, powers of ten from 10 000 on."""
    if x is None or math.isnan(x):
        return MISSING
    if math.isinf(x):
        return "\N{INFINITY}"
    if x >= 1e4:
        mantissa, power = f"{x:.1e}".split("e")
        return f"{mantissa}\N{MULTIPLICATION SIGN}10^{int(power)}"
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def threshold(x: float | None) -> str:
    return MISSING if x is None else f"{x:.4g}"


def duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return MISSING
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def clean(text: object, limit: int = 400) -> str:
    """Foreign text on one line: no control, direction or lone surrogate characters, cut at ``limit``."""
    # "Cc" holds terminal escapes, "Cf" direction overrides, "Cs" what UTF-8 cannot write.
    bad = ("Cc", "Cf", "Cs", "Zl", "Zp")
    kept = "".join(" " if unicodedata.category(c) in bad else c for c in str(text)[: 8 * limit])
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def ascii_figures(text: str) -> str:
    """Our typographic signs in plain ASCII, for terminals that know nothing else."""
    signs = {MINUS: "-", MISSING: "-", "\N{MULTIPLICATION SIGN}": "x", "\N{INFINITY}": "inf", "\N{NO-BREAK SPACE}": " "}
    for sign, plain in signs.items():
        text = text.replace(sign, plain)
    return text


def plural(n: int, one: str, many: str | None = None) -> str:
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """First letter upper case, a full stop at the end."""
    text = text.strip()
    if not text:
        return text
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?\N{HORIZONTAL ELLIPSIS}" else ".")
