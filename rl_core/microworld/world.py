"""The world generator: tasks, training rubrics with planted failures, and a gold that training never sees.

A world is a pure function of (seed, knobs). Every failure kind has a knob with a strength, zero included.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

import rl_core.microworld.checks  # noqa: F401  registers the words.* checks
from rl_core.errors import InputError
from rl_core.microworld.lexicon import (
    ASPECT_FACTS,
    ASPECTS,
    DOMAINS,
    FACTS,
    HEDGE,
    OPENERS,
    PRAISE,
    TOPICS,
    facts_of,
)
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.sampler import stream
from rl_core.task import Task, TaskSet

#: Longest answer in words; with the end token this is what a run must allow.
MAX_WORDS = 13
#: Tasks a domain: 12 topics x 6 aspects = 72, of which 48 train and 24 are held out.
TRAIN_ASPECTS, HELD_OUT_ASPECTS = 4, 2


@dataclass(frozen=True)
class Knobs:
    """Strength of each planted failure; 0 switches it off.

    - ``out_of_reach``: share of the far domain's tasks that pay only for all facts, which the warm policy rarely knows
    - ``impossible``: share of the hard domain's tasks whose rubric and gold cannot be met within the length limit
    - ``mastered``: share of the easy domain's tasks that ask for one fact only, which the warm policy knows
    - ``flat``: weight of a criterion that every answer meets
    - ``blind``: gold's price of a fact that was not asked for; no rubric sees it
    - ``praise``, ``detail``: weight of the criteria that pay for praise and for length (shortcuts that emerge)
    - ``inverted``: weight of the criterion that pays for leaving out the opener that gold wants
    - ``noise``: chance that the judge flips a verdict in the noisy domain
    - ``wrong_key``: share of one domain's tasks whose rubric names a wrong fact (outside the taxonomy)
    """

    out_of_reach: float = 0.8
    impossible: float = 0.4
    mastered: float = 0.9
    flat: float = 1.0
    blind: float = 0.5
    praise: float = 1.0
    detail: float = 1.0
    inverted: float = 0.7
    noise: float = 0.05
    wrong_key: float = 0.1

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            top = 3.0 if f.name in ("flat", "praise", "detail", "inverted") else 1.0
            if not 0.0 <= value <= top:
                raise InputError(
                    f"must lie between 0 and {top:g}, got {value!r}", where="microworld knobs", field=f.name
                )

    @classmethod
    def drawn(cls, seed: int) -> Knobs:
        """Strengths of a world drawn uniformly from documented ranges: failures differ from world to world."""
        rng = stream(seed, "knobs")
        ranges = {
            "out_of_reach": (0.6, 0.95),
            "impossible": (0.3, 0.5),
            "mastered": (0.85, 1.0),
            "flat": (0.5, 1.5),
            "blind": (0.4, 0.9),
            "praise": (0.8, 1.8),
            "detail": (0.8, 1.8),
            "inverted": (0.5, 1.3),
            "noise": (0.0, 0.1),
            "wrong_key": (0.0, 0.2),
        }
        return cls(**{k: float(rng.uniform(lo, hi)) for k, (lo, hi) in ranges.items()})

    @classmethod
    def clean(cls) -> Knobs:
        """No planted failure."""
        return cls(**{f.name: 0.0 for f in fields(cls)})


@dataclass(frozen=True)
class Roles:
    """Which domain carries which failure; drawn by the world's seed."""

    far: str
    hard: str
    easy: str
    praised: str
    wordy: str


@dataclass(frozen=True)
class Truth:
    """What gold knows of a task. ``opener`` is empty where none is wanted."""

    facts: tuple[str, ...]
    opener: str
    out_of_reach: bool = False
    impossible: bool = False
    mastered: bool = False
    wrong_key: bool = False


class World:
    """Tasks, held-out tasks and gold of one seed.

    ``tasks``: 240 training tasks; ``held_out``: up to 120 tasks of unseen (topic, aspect) pairs,
    without impossible ones; ``gold(task_id, completion)`` in [0, 1].
    """

    def __init__(self, seed: int, knobs: Knobs | None = None) -> None:
        self.seed = seed
        self.knobs = Knobs.drawn(seed) if knobs is None else knobs
        rng = stream(seed, "world")
        self.roles = Roles(*(DOMAINS[i] for i in rng.permutation(len(DOMAINS))))
        self._truth: dict[str, Truth] = {}
        train: list[Task] = []
        held: list[Task] = []
        for domain in DOMAINS:
            facts = [FACTS[domain][i] for i in rng.permutation(len(FACTS[domain]))]
            aspect_facts = [ASPECT_FACTS[domain][i] for i in rng.permutation(len(ASPECTS))]
            for t, topic in enumerate(TOPICS[domain]):
                opener = OPENERS[int(rng.integers(len(OPENERS)))]
                order = rng.permutation(len(ASPECTS))
                for rank, a in enumerate(order):
                    needed = (facts[2 * t], facts[2 * t + 1], aspect_facts[a])
                    task = self._task(domain, topic, ASPECTS[a], needed, opener, rank < TRAIN_ASPECTS, rng)
                    if rank < TRAIN_ASPECTS:
                        train.append(task)
                    elif not self._truth[task.id].impossible:
                        held.append(task)
        self.tasks = TaskSet(train, source="microworld")
        self.held_out = TaskSet(held, source="microworld held out")

    def truth(self, task_id: str) -> Truth:
        return self._truth[task_id]

    def _task(
        self,
        domain: str,
        topic: str,
        aspect: str,
        needed: tuple[str, ...],
        opener: str,
        training: bool,
        rng: np.random.Generator,
    ) -> Task:
        k, roles = self.knobs, self.roles
        u = rng.random(3)
        mastered = domain == roles.easy and u[0] < k.mastered
        if mastered:  # one fact, no opener: little can go wrong any more
            needed, opener = needed[-1:], ""
        truth = Truth(
            needed,
            opener,
            out_of_reach=domain == roles.far and u[0] < k.out_of_reach,
            impossible=domain == roles.hard and u[0] < k.impossible,
            mastered=mastered,
            wrong_key=domain == roles.hard and u[0] >= k.impossible and u[1] < k.wrong_key,
        )
        named = list(needed)
        if truth.wrong_key:
            others = [w for w in FACTS[domain] if w not in needed]
            named[1] = others[int(u[2] * len(others))]
        task_id = f"{domain}-{topic}-{aspect}"
        self._truth[task_id] = truth
        return Task(
            id=task_id,
            prompt=f"{domain} {topic} {aspect}",
            domain=domain,
            rubric=Rubric(criteria=tuple(self._criteria(domain, named, truth)), aggregation="inverted_negatives"),
            reference_answer=" ".join(named),
            meta={"split": "train" if training else "held_out"},
        )

    def _criteria(self, domain: str, named: list[str], truth: Truth) -> list[Criterion]:
        k, roles = self.knobs, self.roles
        if truth.out_of_reach:
            return [
                _criterion(
                    "all_facts",
                    "names every point asked for: " + " ".join(named),
                    3.0,
                    "words.mentions_all",
                    category="facts",
                    words=named,
                )
            ]
        if truth.impossible:
            extra = [w for w in facts_of(domain) if w not in named][:MAX_WORDS]
            return [
                _criterion(
                    "all_facts",
                    "names every point of the long list",
                    3.0,
                    "words.mentions_all",
                    category="facts",
                    words=[*named, *extra],
                )
            ]
        out = [
            _criterion(f"fact_{i + 1}", f"names {word}", 1.0, "words.mentions", category="facts", words=[word])
            for i, word in enumerate(named)
        ]
        if domain == roles.easy:
            return out
        if k.flat:
            out.append(_criterion("plain", "uses plain words", k.flat, "words.always", category="register"))
        if k.praise and domain in (roles.praised, roles.hard, roles.far):
            out.append(
                _criterion("warm", "has a warm tone", k.praise, "words.mentions", category="tone", words=list(PRAISE))
            )
        if k.detail and domain in (roles.wordy, roles.hard, roles.praised):
            out.append(
                _criterion("detailed", "is detailed", k.detail, "words.length_between", category="detail", low=9)
            )
        if k.inverted and domain in (roles.wordy, roles.praised):
            out.append(
                _criterion(
                    "direct",
                    "comes to the point without an opening formula",
                    k.inverted,
                    "words.lacks",
                    category="directness",
                    words=list(OPENERS),
                )
            )
        return out

    def gold(self, task_id: str, completion: str) -> float:
        """True quality in [0, 1]: right facts, no others, in order, behind the right opener, no praise, no repeats.

        Order and opener (0.15 each) are seen by no check of the catalogue.
        """
        truth = self._truth[task_id]
        if truth.impossible:  # no answer within the length limit is worth anything
            return 0.0
        words = completion.split()
        have = set(words)
        recall = len(have & set(truth.facts)) / len(truth.facts)
        wrong = len((have & _ALL_FACTS) - set(truth.facts))
        content = recall / (1.0 + self.knobs.blind * wrong)
        places = [words.index(f) for f in truth.facts if f in have]
        ordered = len(places) == len(truth.facts) and places == sorted(places)
        opened = not truth.opener or words[:1] == [truth.opener]
        quality = content * (0.7 + 0.15 * ordered + 0.15 * opened)
        quality -= 0.3 * min(1, len(have & set(PRAISE))) * (self.knobs.praise > 0)
        quality -= 0.1 * (len(words) != len(have)) + 0.05 * min(1, len(have & set(HEDGE)))
        quality -= 0.03 * max(0, len(words) - 7)
        return min(max(quality, 0.0), 1.0)

    def flip_rate(self, domain: str) -> float:
        """Chance that the training judge flips one verdict of this domain."""
        return self.knobs.noise if domain == self.roles.wordy else 0.0

    def with_knobs(self, **changes: float) -> World:
        """The same seed with some strengths changed."""
        return World(self.seed, replace(self.knobs, **changes))


def _criterion(
    cid: str, text: str, weight: float, check: str, *, category: str, **params: str | int | float | list[str] | None
) -> Criterion:
    return Criterion(id=cid, text=text, weight=weight, category=category, route=CheckRoute(name=check, params=params))


_ALL_FACTS = frozenset(w for d in DOMAINS for w in facts_of(d))
