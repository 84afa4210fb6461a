"""IFEval rows (google-research, Apache-2.0) as tasks whose instructions are code-checked criteria.

A row: ``key`` (int or str), ``prompt``, ``instruction_id_list``, ``kwargs`` (one dict per instruction,
nulls allowed).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from rl_core.datasets.rows import read_rows
from rl_core.errors import InputError
from rl_core.judge.ifeval_checks import INSTRUCTIONS
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.task import Message, Task, TaskSet

DOMAIN = "instruction_following"

#: What a prompt asks for -> words such an answer takes at least, as a rule of thumb.
LONG_FORMS: dict[str, int] = {
    form: words
    for words, forms in (
        (150, ("essay", "article", "blog")),
        (120, ("resume", "cover letter")),
        (100, ("story", "script", "itinerary", "proposal", "report", "biography", "speech", "novel")),
        (80, ("a play", "letter to", "a letter")),
        (60, ("email", "dialogue", "conversation", "review", "song", "rap", "rubric")),
        (50, ("advertisement", "an ad", "poem", "summary", "limerick", "a plan", "a post")),
        (40, ("a table",)),
    )
    for form in forms
}

_WANTED = {
    "int": "an integer",
    "str": "a text",
    "list": "a list of texts",
    "relation": "'at least' or 'less than'",
}


def load_ifeval(path: str | Path, *, max_answer_words: int | None = None, limit: int | None = None) -> TaskSet:
    """Tasks of an IFEval file; all of the one domain ``instruction_following``.

    Each instruction becomes a criterion of weight 1 (id ``<instruction id>#<index>``, category its family), with
    the aggregation ``inverted_negatives``: the reward is the share of instructions that are met.

    ``max_answer_words`` keeps the rows with ``shortest_answer`` <= that. Raises InputError naming
    file, row and field; also when no row is left.
    """
    tasks: list[Task] = []
    seen: dict[str, str] = {}
    total = 0
    for place, row in read_rows(path):
        task = _task(place, row)
        total += 1
        if task.id in seen:
            raise InputError(
                f"duplicate key {row['key']!r} (first in {seen[task.id]})",
                where=place,
                field="key",
                mend="remove one of the rows",
            )
        seen[task.id] = place.rpartition(", ")[2]
        if max_answer_words is not None and shortest_answer(row) > max_answer_words:
            continue
        if limit is None or len(tasks) < limit:
            tasks.append(task)
    if not tasks:
        raise InputError(
            f"none of {total} rows has an answer that fits {max_answer_words} words",
            where=str(path),
            field="tasks.max_answer_words",
            mend="raise the limit",
        )
    return TaskSet(tasks, source=str(path))


def shortest_answer(row: dict[str, Any]) -> int:
    """Words that an answer needs at least, roughly: the largest demand of any instruction, of a word count in
    the prompt ("300 word", "500+ words") and of the form it asks for (``LONG_FORMS``).
    """
    prompt = row["prompt"].lower()
    need = [
        INSTRUCTIONS[name].words(**_given(kwargs))
        for name, kwargs in zip(row["instruction_id_list"], row["kwargs"], strict=True)
    ]
    need += [int(n) for n in re.findall(r"(?<!than )\b(\d{1,4})\+?[ -]words?\b", prompt)]
    need += [words for form, words in LONG_FORMS.items() if re.search(rf"\b{form}s?\b", prompt)]
    return max(need)


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if v is not None}


def _task(place: str, row: dict[str, Any]) -> Task:
    key, prompt = row.get("key"), row.get("prompt")
    names: Any = row.get("instruction_id_list")
    kwargs: Any = row.get("kwargs")
    if isinstance(key, bool) or not isinstance(key, (int, str)) or key == "":
        raise _wrong(place, "key", key, "an integer or a text")
    if not isinstance(prompt, str) or not prompt.strip():
        raise _wrong(place, "prompt", prompt, "a text")
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise _wrong(place, "instruction_id_list", names, "a list of at least one instruction id")
    if not isinstance(kwargs, list) or len(kwargs) != len(names) or not all(isinstance(k, dict) for k in kwargs):
        raise _wrong(place, "kwargs", kwargs, f"a list of {len(names)} objects, one per instruction")
    criteria = [_criterion(place, i, name, _given(kw)) for i, (name, kw) in enumerate(zip(names, kwargs, strict=True))]
    return Task(
        id=f"ifeval-{key}",
        prompt=(Message(role="user", content=prompt),),
        domain=DOMAIN,
        rubric=Rubric(criteria=tuple(criteria)),
        meta={"dataset": "ifeval"},
    )


def _criterion(place: str, i: int, name: str, kwargs: dict[str, Any]) -> Criterion:
    instruction = INSTRUCTIONS.get(name)
    if instruction is None:
        raise InputError(
            f"unknown instruction {name!r}",
            where=place,
            field=f"instruction_id_list.{i}",
            mend="the 25 instructions of IFEval are known",
        )
    for param, kind in instruction.params.items():
        value = kwargs.get(param)
        good = isinstance(value, kind) and not isinstance(value, bool)
        if isinstance(value, list):
            good = kind is list and bool(value) and all(isinstance(x, str) and x for x in value)
        elif good and kind is str:
            good = value not in ("", None)
        is_relation = param.endswith("relation")
        if good and is_relation:
            good = value in ("at least", "less than")
        if not good:
            raise _wrong(place, f"kwargs.{i}.{param}", value, _WANTED["relation" if is_relation else kind.__name__])
    extra = sorted(kwargs.keys() - instruction.params.keys())
    if extra:
        raise InputError(f"{name} does not know it", where=place, field=f"kwargs.{i}.{extra[0]}", mend="remove it")
    text = instruction.text(**kwargs)
    return Criterion(
        id=f"{name}#{i}",
        text=text if len(text) <= 2000 else text[:1997] + "...",
        category=name.partition(":")[0],
        tags=(name,),
        route=CheckRoute(name=f"ifeval.{name}", params=kwargs),
        origin="ifeval",
    )


def _wrong(place: str, field: str, value: Any, wanted: str) -> InputError:
    got = "is missing" if value is None else f"has the wrong value {value!r:.60}"
    return InputError(got, where=place, field=field, mend=f"it must be {wanted}")
