"""The training judge flips at the stated rate, the reference is gold plus a little noise; both repeat exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from rl_core.judge.checks import Scorer
from rl_core.microworld.judge import REFERENCE_NOISE, MicroworldReference, MicroworldScorer
from rl_core.microworld.policy import demonstration
from rl_core.microworld.world import Knobs, World
from rl_core.sampler import stream
from rl_core.task import Task

WORLD = World(2, Knobs(noise=0.1))


def groups(world: World = WORLD, size: int = 6) -> Iterator[tuple[Task, list[str]]]:
    rng = stream(0, "answers")
    for t in world.tasks:
        yield t, [demonstration(world, t, rng)[1] for _ in range(size)]


def test_verdicts_flip_at_the_rate_of_the_noisy_domain_only() -> None:
    flips = {True: [0, 0], False: [0, 0]}
    for t, texts in groups():
        noisy = MicroworldScorer(WORLD).verdicts(t, texts, t.rubric)
        clean = Scorer().verdicts(t, texts, t.rubric)
        for a, b in zip(noisy, clean, strict=True):
            assert a.keys() == b.keys()
            row = flips[t.domain == WORLD.roles.wordy]
            row[0] += sum(a[c] != b[c] for c in a)
            row[1] += len(a)
            assert all(a[c].value in (b[c].value, 1 - (b[c].value or 0.0)) for c in a)
    assert flips[False][0] == 0
    changed, n = flips[True]
    assert n > 1000
    assert abs(changed / n - 0.1) < 4 * math.sqrt(0.1 * 0.9 / n)


def test_flips_repeat_and_follow_the_seed() -> None:
    t = next(t for t in WORLD.tasks if t.domain == WORLD.roles.wordy)
    texts = [" ".join(WORLD.truth(t.id).facts[:k]) for k in (0, 1, 2, 3)] * 8
    first = MicroworldScorer(WORLD).verdicts(t, texts, t.rubric)
    again = MicroworldScorer(World(2, Knobs(noise=0.1))).verdicts(t, texts, t.rubric)
    assert first == again
    assert first != Scorer().verdicts(t, texts, t.rubric)
    # the same text at another place of the group may flip otherwise: flips are the judge's, not the answer's
    assert len({tuple(sorted((k, v.value) for k, v in row.items())) for row in first[0::4]}) > 1


def test_no_noise_no_flips() -> None:
    quiet = WORLD.with_knobs(noise=0.0)
    for t, texts in groups(quiet, size=2):
        assert MicroworldScorer(quiet).verdicts(t, texts, t.rubric) == Scorer().verdicts(t, texts, t.rubric)


def test_all_flip_at_rate_one() -> None:
    world = WORLD.with_knobs(noise=1.0)
    t = next(t for t in world.tasks if t.domain == world.roles.wordy)
    rows = MicroworldScorer(world).verdicts(t, ["and"], t.rubric)
    assert rows[0]["plain"].value == 0.0


def test_the_reference_is_gold_plus_noise_of_the_stated_size() -> None:
    reference = MicroworldReference(WORLD)
    assert reference.name == "microworld"
    off: list[float] = []
    for t, texts in groups():
        for text, value in zip(texts, reference.values(t, texts), strict=True):
            assert value is not None
            assert 0.0 <= value <= 1.0
            gold = WORLD.gold(t.id, text)
            if 0.25 < gold < 0.75:  # five deviations from where clipping begins
                off.append(value - gold)
    assert len(off) > 200
    errors = np.array(off)
    assert abs(errors.mean()) < 4 * REFERENCE_NOISE / math.sqrt(len(errors))
    assert abs(errors.std() / REFERENCE_NOISE - 1) < 4 / math.sqrt(2 * len(errors))
    assert REFERENCE_NOISE == 0.05


def test_the_same_answer_gets_the_same_value() -> None:
    t = WORLD.tasks[WORLD.tasks.ids[0]]
    text = " ".join(WORLD.truth(t.id).facts[:2])
    together = MicroworldReference(WORLD).values(t, ["and", text, text])
    alone = MicroworldReference(WORLD).values(t, [text])
    assert together[1] == together[2] == alone[0]
    assert MicroworldReference(World(3, WORLD.knobs)).values(t, [text]) != alone


def test_without_noise_the_reference_is_gold() -> None:
    for t, texts in list(groups(size=2))[:20]:
        assert MicroworldReference(WORLD, noise=0.0).values(t, texts) == [WORLD.gold(t.id, x) for x in texts]
