"""Training tasks from files. ``load_tasks`` reads a source text of the configuration."""

from __future__ import annotations

from rl_core.errors import InputError
from rl_core.task import TaskSet


def load_tasks(source: str, *, max_answer_words: int | None = None, limit: int | None = None) -> TaskSet:
    """Tasks of ``ifeval:PATH`` or ``jsonl:PATH`` (``microworld`` is made by its own module).

    Raises InputError for an unknown kind, a missing file, or a broken row.
    """
    # The checks that rows may name are registered on import.
    import rl_core.judge.ifeval_checks  # noqa: F401

    kind, colon, path = source.partition(":")
    if kind not in ("ifeval", "jsonl") or not colon or not path.strip():
        raise InputError(
            f"cannot load tasks from {source!r}", field="tasks.source", mend="use microworld, ifeval:PATH or jsonl:PATH"
        )
    if kind == "ifeval":
        from rl_core.datasets.ifeval import load_ifeval

        return load_ifeval(path, max_answer_words=max_answer_words, limit=limit)
    if max_answer_words is not None:
        raise InputError(
            "only ifeval rows can be chosen by answer length", field="tasks.max_answer_words", mend="remove the key"
        )
    from rl_core.datasets.jsonl import load_jsonl

    return load_jsonl(path, limit=limit)
