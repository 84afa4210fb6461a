"""Inline SVG charts, no library. Positions along x are percentages, so a chart fits any width with text of one size.

Marks that must stretch (curves, areas) sit in a nested viewBox of 1000 x 1000 with non-scaling strokes; text, dots and
glyphs sit outside it. Colours are CSS classes, so light and dark share one drawing. Every label is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup, escape

from rl_core.report import figures as f

Points = Sequence[tuple[float, float | None]]
FULL = 1000
#: Rows of numbered badges above a plot.
LANES = 4
#: Group classes from the bottom of a cell to its top: order carries the meaning too, not colour alone.
CLASSES = ("live", "dead", "dead_flat", "dead_low", "dead_high")
CLASS_NAMES = {"live": "live", "dead": "dead", "dead_flat": "flat", "dead_low": "too hard", "dead_high": "mastered"}


@dataclass(frozen=True)
class Series:
    """A curve: (x, y) with None where nothing was measured, optional band (x, low, high) and faint raw points."""

    name: str
    style: str
    points: Points
    band: Sequence[tuple[float, float, float]] = ()
    raw: Points = ()
    dots: bool = False


@dataclass(frozen=True)
class Marker:
    """One or more edits decided at x. ``label``: decision numbers, drawn as a badge; without it only a glyph."""

    x: float
    status: str
    tip: str
    label: str = ""
    href: str = ""


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    ticks: list[float] = field(default_factory=list)

    def share(self, v: float) -> float:
        """Position in [0, 1]."""
        return min(1.0, max(0.0, (v - self.low) / (self.high - self.low)))

    def percent(self, v: float) -> str:
        return f"{100 * self.share(v):.2f}".rstrip("0").rstrip(".") + "%"


def nice_axis(low: float, high: float, ticks: int = 4, *, tight: bool = False) -> Axis:
    """Axis on round numbers. ``tight``: ends stay where the data end."""
    if not high > low:
        low, high = (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    raw = (high - low) / ticks
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.75)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = [round(i * step, 10) for i in range(first, last + 1)]
    if not tight:
        return Axis(marks[0], marks[-1], marks)
    return Axis(low, high, [m for m in marks if low <= m <= high])


def smooth(points: Points, width: int) -> tuple[list[tuple[float, float | None]], list[tuple[float, float, float]]]:
    """Centred moving mean and the band of plus/minus one standard deviation within the window; gaps stay gaps."""
    half = width // 2
    line: list[tuple[float, float | None]] = []
    band: list[tuple[float, float, float]] = []
    for i, (x, y) in enumerate(points):
        near = [v for _, v in points[max(0, i - half) : i + half + 1] if v is not None]
        if y is None or not near:
            line.append((x, None))
            continue
        mean = sum(near) / len(near)
        sd = math.sqrt(sum((v - mean) ** 2 for v in near) / len(near))
        line.append((x, mean))
        band.append((x, mean - sd, mean + sd))
    return line, band


def _xy(x: float, y: float, xs: Axis, ys: Axis) -> str:
    return f"{FULL * xs.share(x):.0f} {FULL * (1 - ys.share(y)):.0f}"


def _path(points: Points, xs: Axis, ys: Axis) -> str:
    """Path data, broken where a value is missing; a lone point becomes a dot."""
    out: list[str] = []
    run = 0
    for x, y in points:
        if y is None:
            run = 0
            continue
        out.append(("L" if run else "M") + _xy(x, y, xs, ys))
        run += 1
    data = "".join(out)
    return "".join(f"M{p}h0" if p and "L" not in p else f"M{p}" for p in data.split("M")[1:])


def _thin(points: Points, most: int = 130) -> Points:
    stride = math.ceil(len(points) / most) or 1
    return points if stride == 1 else [*points[::stride], points[-1]]


def _anchor(t: float, axis: Axis) -> str:
    """Labels at the right end stay inside."""
    return "end" if axis.share(t) > 0.97 else "middle"


def _stretched(inner: str) -> str:
    return f'<svg viewBox="0 0 {FULL} {FULL}" width="100%" height="100%" preserveAspectRatio="none">{inner}</svg>'


def glyph(status: str) -> Markup:
    """Status sign, a shape of its own for each status."""
    svg = Markup('<svg class="glyph {0}" viewBox="-8 -8 16 16" aria-hidden="true"><use href="#g-{0}"/></svg>')
    return svg.format(status)


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_name: str,
    y_text: Callable[[float], str] = f.number,
    x_text: Callable[[float], str] = f.count,
    y_range: tuple[float, float] | None = None,
    markers: Sequence[Marker] = (),
    rule: tuple[float, str] | None = None,
    height: int = 220,
) -> Markup:
    """Curves with bands and the timeline of edits over them. Empty Markup when nothing was measured.

    ``rule``: a named place on the x axis (x, text), such as where two runs are compared.
    """
    known = [(x, y) for s in series for x, y in s.points if y is not None]
    if not known:
        return Markup("")
    values = [y for _, y in known] + [v for s in series for _, lo, hi in s.band for v in (lo, hi)]
    low, high = y_range or (min(values), max(values))
    if y_range is None and 0 <= low < 0.5 * high:
        low = 0.0
    xs = nice_axis(min(x for x, _ in known), max(x for x, _ in known), 5, tight=True)
    ys = nice_axis(low, high)
    over = [m for m in markers if xs.low <= m.x <= xs.high]
    timeline, head = edit_timeline(over, xs)
    out = [
        f'<svg class="plot" role="img" aria-label="{escape(title)}" style="height:{height}px;margin-top:{head + 8}px">'
    ]
    for t in ys.ticks:
        level = f"{100 * (1 - ys.share(t)):.2f}%"
        out.append(
            f'<line class="grid" x2="100%" y1="{level}" y2="{level}"/>'
            f'<text class="tick" dx="-8" dy=".32em" y="{level}" '
            f'text-anchor="end">{escape(y_text(t))}</text>'
        )
    for t in xs.ticks:
        out.append(
            f'<text class="tick" x="{xs.percent(t)}" y="100%" dy="18" text-anchor="{_anchor(t, xs)}">'
            f"{escape(x_text(t))}</text>"
        )
    out.append(f'<text class="tick name" x="100%" y="100%" dy="36" text-anchor="end">{escape(x_name)}</text>')
    if rule is not None:
        place = xs.percent(rule[0])
        out.append(
            f'<line class="rule" x1="{place}" x2="{place}" y2="100%"/><text class="tick" x="{place}" y="100%" '
            f'dx="-6" dy="-7" text-anchor="end">{escape(rule[1])}</text>'
        )
    out.append(timeline)
    inner: list[str] = []
    for s in series:
        if s.band:
            band = _thin([(x, lo) for x, lo, _ in s.band]), _thin([(x, hi) for x, _, hi in s.band])
            there = "L".join(_xy(x, v, xs, ys) for x, v in band[1] if v is not None)
            back = "L".join(_xy(x, v, xs, ys) for x, v in reversed(band[0]) if v is not None)
            inner.append(f'<path class="band {s.style}" d="M{there}L{back}z"/>')
    for s in series:
        if s.raw:
            inner.append(f'<path class="raw {s.style}" d="{_path(_thin(s.raw, 260), xs, ys)}"/>')
        inner.append(f'<path class="curve {s.style}" d="{_path(_thin(s.points), xs, ys)}"/>')
    out.append(_stretched("".join(inner)))
    for s in series:
        for x, v in s.points if s.dots else ():
            if v is None:
                continue
            out.append(
                f'<circle class="dot {s.style}" cx="{xs.percent(x)}" cy="{100 * (1 - ys.share(v)):.2f}%" r="3">'
                f"<title>{escape(s.name)}: {escape(y_text(v))} at {escape(x_text(x))} {escape(x_name)}</title>"
                "</circle>"
            )
    out.append("</svg>")
    return Markup("".join(out))


def edit_timeline(markers: Sequence[Marker], xs: Axis) -> tuple[str, int]:
    """Vertical lines with numbered badges above the plot, and the height in px they need.

    A badge with no room beside its neighbours (measured so that a phone fits too) goes to the next lane up; where all
    lanes are taken the edit keeps its line and a glyph.
    """
    lines: list[str] = []
    signs: list[str] = []
    ends: list[float] = []
    for m in sorted(markers, key=lambda m: m.x):
        x, at = xs.share(m.x), xs.percent(m.x)
        wide = 0.025 + 0.011 * len(m.label)
        lane = next((i for i, end in enumerate(ends) if end <= x - wide), len(ends))
        if not m.label or lane == LANES:
            signs.append(
                f'<svg x="{at}" y="-9" class="fleck {m.status}"><use href="#g-{m.status}" class="small"/>'
                f"<title>{escape(m.tip)}</title></svg>"
            )
            if m.label:
                lines.append(f'<line class="edit {m.status}" x1="{at}" x2="{at}" y1="0" y2="100%"/>')
            continue
        ends[lane : lane + 1] = [x + wide]
        top, w = -30 - 22 * lane, 12 + 7 * len(m.label)
        lines.append(f'<line class="edit {m.status}" x1="{at}" x2="{at}" y1="{top + 9}" y2="100%"/>')
        signs.append(
            f'<a href="{escape(m.href)}"><svg x="{at}" y="{top}" class="badge {m.status}">'
            f'<rect x="{-w / 2:g}" y="-9" width="{w}" height="18" rx="9"/>'
            f'<text text-anchor="middle" dy=".35em">{escape(m.label)}</text><title>{escape(m.tip)}</title>'
            "</svg></a>"
        )
    crowd = " crowd" if len(lines) > 15 else ""
    height = 20 + 22 * len(ends) if ends else 16 if signs else 0
    return f'<g class="edits{crowd}">{"".join(lines)}</g>{"".join(signs)}', height


@dataclass(frozen=True)
class Cell:
    """One domain over some steps: mean shares of the group classes (None: no group was drawn) and its hover text."""

    shares: Mapping[str, float] | None
    tip: str


def group_strip(cells: Sequence[Cell], label: str) -> Markup:
    """One row of the group map: each cell is a column filled from the bottom by the shares of the four classes."""
    n = len(cells)
    paths = {c: "" for c in CLASSES}
    hover = []
    for i, cell in enumerate(cells):
        hover.append(f'<rect x="{i}" width="1" height="100"><title>{escape(cell.tip)}</title></rect>')
        if cell.shares is None:
            continue
        bottom = 0.0
        for c in CLASSES:
            top = min(1.0, bottom + max(0.0, cell.shares.get(c, 0.0)))
            y1, y0 = round(100 * (1 - top)), round(100 * (1 - bottom))
            if y0 > y1:
                paths[c] += f"M{i} {y0}h1v{y1 - y0}h-1z"
            bottom = top
    body = "".join(f'<path class="{c}" d="{d}"/>' for c, d in paths.items() if d)
    return Markup(
        f'<svg class="strip" role="img" aria-label="{escape(label)}" viewBox="0 0 {max(n, 1)} 100" '
        f'preserveAspectRatio="none">{body}<g class="hover">{"".join(hover)}</g></svg>'
    )


def step_axis(first: int, last: int) -> Markup:
    """Step numbers below the group map."""
    xs = nice_axis(first, max(last, first + 1), 5, tight=True)
    text = "".join(
        f'<text class="tick" x="{xs.percent(t)}" y="14" text-anchor="{_anchor(t, xs)}">{f.count(t)}</text>'
        for t in xs.ticks
        if t == int(t)
    )
    return Markup(f'<svg class="axis" aria-hidden="true">{text}</svg>')


def forest_axis(rows: Sequence[tuple[float | None, Sequence[float | None] | None]]) -> Axis | None:
    """Common scale of the forest plot: all means, zero, and the intervals as far as three times the largest mean."""
    means = [m for m, _ in rows if m is not None]
    if not means:
        return None
    ends = [v for m, interval in rows if m is not None for v in interval or () if v is not None]
    reach = 3 * max((abs(m) for m in means), default=0.0) or 0.05
    low = max(min([0.0, *means, *ends]), -reach)
    high = min(max([0.0, *means, *ends]), reach)
    return nice_axis(low, high, 4)


def forest_scale(axis: Axis) -> Markup:
    """Head of the forest column."""
    ticks = [t for t in axis.ticks if t in (axis.low, 0.0, axis.high)]
    text = "".join(
        f'<text class="tick" x="{axis.percent(t)}" y="14" text-anchor="middle">{f.signed(t, 2)}</text>' for t in ticks
    )
    return Markup(f'<svg class="forest scale" aria-hidden="true">{text}</svg>')


def forest_row(mean: float | None, interval: Sequence[float | None] | None, status: str, axis: Axis | None) -> Markup:
    """One decision: interval as a line (an arrow where it leaves the scale), mean as the glyph of its status."""
    if mean is None or axis is None:
        return Markup("")
    out = [f'<line class="zero" x1="{axis.percent(0)}" x2="{axis.percent(0)}" y2="100%"/>']
    said = f"mean d {f.signed(mean)}"
    if interval is not None and len(interval) == 2 and interval[0] is not None and interval[1] is not None:
        lo, hi = interval[0], interval[1]
        said += f", interval {f.signed(lo)} to {f.signed(hi)}"
        out.append(f'<line class="whisker" x1="{axis.percent(lo)}" x2="{axis.percent(hi)}" y1="50%" y2="50%"/>')
        if lo < axis.low:
            out.append('<path class="whisker" d="M6 8L0 13L6 18"/>')
        if hi > axis.high:
            out.append('<svg x="100%" y="13" class="open"><path class="whisker" d="M-6-5L0 0L-6 5"/></svg>')
    out.append(f'<svg class="open {status}" x="{axis.percent(mean)}" y="50%"><use href="#g-{status}"/></svg>')
    return Markup(
        f'<svg class="forest" role="img" aria-label="{escape(said)}">{"".join(out)}<title>{escape(said)}</title></svg>'
    )


def sparkline(path: Sequence[float | None], threshold: float | None, status: str) -> Markup:
    """Path of the e-value on a log scale, with the threshold as a dashed line."""
    known = [v for v in path if v is not None and not math.isnan(v)]
    if len(known) < 2:
        return Markup("")
    top = max([math.log10(threshold) if threshold and threshold > 0 else 1.0, 0.5]) * 1.25

    def y(v: float) -> float:
        log = math.log10(v) if v > 0 else -9.0
        return 26 - 24 * (min(max(log, -1.0), top) + 1.0) / (top + 1.0)

    stride = math.ceil(len(known) / 40)
    kept = known[::stride] if stride == 1 or known[::stride][-1] == known[-1] else [*known[::stride], known[-1]]
    dx = 100 / (len(kept) - 1)
    line = "L".join(f"{i * dx:.0f} {y(v):.1f}" for i, v in enumerate(kept))
    dash = f'<path class="limit" d="M0 {y(threshold):.1f}h100"/>' if threshold and threshold > 0 else ""
    said = f"e-value over the pairs, from {f.e_value(known[0])} to {f.e_value(known[-1])}"
    said += f", threshold {f.e_value(threshold)}" if threshold else ""
    return Markup(
        f'<svg class="spark {status}" role="img" viewBox="-2 0 108 28" preserveAspectRatio="xMinYMid" '
        f'aria-label="{escape(said)}">{dash}<path d="M{line}"/>'
        f'<circle cx="100" cy="{y(kept[-1]):.1f}" r="2.5"/><title>{escape(said)}</title></svg>'
    )


def bars(values: Sequence[tuple[str, float]], start: float | None, top: float, name: str) -> Markup:
    """Horizontal bars of one domain, (style, value) each, with the value behind; a tick where the run started."""
    out = []
    for i, (style, v) in enumerate(values):
        width = 100 * min(1.0, max(0.0, v / top)) if top > 0 else 0.0
        y = 2 + 20 * i
        out.append(
            f'<rect class="{style}" y="{y}" height="14" width="{width:.1f}%" rx="2"/>'
            f'<text class="tick value" x="{width:.1f}%" dx="6" y="{y + 11}">{f.number(v)}</text>'
        )
    height = 20 * len(values)
    if start is not None and top > 0:
        x = f"{100 * min(1.0, max(0.0, start / top)):.1f}%"
        out.append(
            f'<line class="start" x1="{x}" x2="{x}" y1="0" y2="{height - 2}">'
            f"<title>start {f.number(start)}</title></line>"
        )
    return Markup(
        f'<svg class="bars" role="img" aria-label="{escape(name)}" style="height:{height}px">{"".join(out)}</svg>'
    )
