"""The page of the microworld says what the code does: its example runs, its knobs and pictures are the real ones."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rl_core.microworld.catalogue import DECOYS, USEFUL
from rl_core.microworld.lexicon import vocabulary
from rl_core.microworld.world import Knobs

PAGE = Path(__file__).parents[2] / "docs" / "microworld.md"
TEXT = PAGE.read_text(encoding="utf-8")
PICTURES = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT)
#: knob -> range, from the rows of the table
TABLE = {
    name: (float(low), float(high))
    for name, low, high in re.findall(r"^\| `(\w+)` \| ([\d.]+) to ([\d.]+) \|", TEXT, re.MULTILINE)
}
MOST_BYTES = 60_000


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, PAGE.name, "exec"), names)
    assert len(block.replace("\n\n", "\n").splitlines()) <= 6
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("Roles(")
    task, world = names["task"], names["world"]
    assert float(out[-1]) >= 0.85 or world.truth(task.id).impossible  # type: ignore[attr-defined]


def test_the_table_names_every_knob_with_its_range() -> None:
    assert list(TABLE) == [f.name for f in fields(Knobs)]
    drawn = [Knobs.drawn(seed) for seed in range(300)]
    for name, (low, high) in TABLE.items():
        values = [getattr(k, name) for k in drawn]
        assert low <= min(values) < low + 0.05 * (high - low), name
        assert high - 0.05 * (high - low) < max(values) <= high, name


def test_every_picture_is_there_and_small_and_whole() -> None:
    assert len(PICTURES) >= 4
    for name in PICTURES:
        path = PAGE.parent / name
        assert path.stat().st_size < MOST_BYTES, name
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg", name
        # nothing is fetched from elsewhere
        assert "http" not in path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", ""), name
    assert {p.name for p in (PAGE.parent / "microworld").glob("*.svg")} == {Path(n).name for n in PICTURES}


def test_every_link_leads_to_a_file() -> None:
    links = [x for x in re.findall(r"(?<!!)\[[^\]]+\]\(([^)#]+)\)", TEXT) if not x.startswith("http")]
    assert links
    for link in links:
        assert (PAGE.parent / link).exists(), link


def test_the_counts_are_the_codes() -> None:
    assert f"{len(USEFUL)} useful ones" in TEXT
    assert f"{len(DECOYS)} decoys" in TEXT
    assert f"catalogue of {len(USEFUL) + len(DECOYS)} checks" in TEXT
    tokens = len(vocabulary()) + 3  # padding, end, unknown
    assert f"{tokens} tokens" in TEXT
    # 2 layers of attention (4 × 64 × 64), feed-forward (3 × 64 × 128) and two norms; one norm; tied word vectors
    parameters = 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64 + 64 * tokens
    assert f"{parameters:,} parameters" in TEXT
