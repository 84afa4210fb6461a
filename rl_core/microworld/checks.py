"""Deterministic checks over word-level answers, registered under ``words.*``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rl_core.judge.checks import register
from rl_core.microworld.lexicon import DOMAINS, facts_of
from rl_core.rubric import CheckRoute
from rl_core.task import Task

_FACTS = frozenset(w for d in DOMAINS for w in facts_of(d))


def listed_words(task: Task) -> frozenset[str]:
    """The words that the task's own rubric asks for: what a check may know about the right answer."""
    out: set[str] = set()
    for c in task.rubric.criteria:
        if isinstance(c.route, CheckRoute) and c.route.name in ("words.mentions", "words.mentions_all"):
            words = c.route.params.get("words")
            out.update(words if isinstance(words, list) else [])
    return frozenset(out)


@register("words.mentions")
def mentions(completion: str, task: Task, words: Sequence[str], at_least: int = 1) -> bool:
    """At least ``at_least`` of ``words`` occur."""
    return len(set(completion.split()) & set(words)) >= at_least


@register("words.mentions_all")
def mentions_all(completion: str, task: Task, words: Sequence[str]) -> bool:
    return set(words) <= set(completion.split())


@register("words.lacks")
def lacks(completion: str, task: Task, words: Sequence[str]) -> bool:
    return not set(completion.split()) & set(words)


@register("words.length_between")
def length_between(completion: str, task: Task, low: int = 0, high: int = 10**6) -> bool:
    return low <= len(completion.split()) <= high


@register("words.off_topic")
def off_topic(completion: str, task: Task, most: int = 4) -> float:
    """Different fact words that the task's rubric does not list, as a share of ``most`` (graded, at most 1)."""
    return min(len((set(completion.split()) & _FACTS) - listed_words(task)), most) / most


@register("words.repeats")
def repeats(completion: str, task: Task, most: int = 3) -> float:
    """Words said again, as a share of ``most`` (graded, at most 1)."""
    words = completion.split()
    return min(len(words) - len(set(words)), most) / most


@register("words.opens_with")
def opens_with(completion: str, task: Task, words: Sequence[str]) -> bool:
    first = completion.split()[:1]
    return bool(first) and first[0] in words


@register("words.echoes_prompt")
def echoes_prompt(completion: str, task: Task) -> bool:
    return bool(set(completion.split()) & set(task.prompt_text.split()))


@register("words.count_multiple")
def count_multiple(completion: str, task: Task, of: int = 2) -> bool:
    return len(completion.split()) % of == 0


@register("words.initial_between")
def initial_between(completion: str, task: Task, low: str = "a", high: str = "m", at_least: int = 1) -> bool:
    """At least ``at_least`` words whose first letter lies between ``low`` and ``high``."""
    return sum(low <= w[0] <= high for w in completion.split()) >= at_least


@register("words.long_words")
def long_words(completion: str, task: Task, letters: int = 8, at_least: int = 1) -> bool:
    return sum(len(w) >= letters for w in completion.split()) >= at_least


@register("words.ends_between")
def ends_between(completion: str, task: Task, low: str = "a", high: str = "m") -> bool:
    last = completion.split()[-1:]
    return bool(last) and low <= last[0][0] <= high


@register("words.double_letters")
def double_letters(completion: str, task: Task, at_least: int = 1) -> bool:
    return sum(any(a == b for a, b in pairwise(w)) for w in completion.split()) >= at_least


@register("words.always")
def always(completion: str, task: Task) -> bool:
    """A criterion that everything meets: planted as a dead one."""
    return True
