"""Judge and reference read by a language model behind a chat callable; no LLM library is imported here."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rl_core.judge.text import clip, fence, find_json, nonce, strip_think
from rl_core.rubric import Criterion
from rl_core.task import Task
from rl_core.verdict import Cause, Verdict

#: ``chat([{"role": "user", "content": ...}]) -> text``; may raise anything.
Chat = Callable[[list[dict[str, str]]], str]
#: Renders the prompt from named variables (a template bound to its file).
Render = Callable[..., str]

MAX_ANSWER = 4000
MAX_PROMPT = 4000


class LLMJudge:
    """Verdicts on the judge-routed criteria of a completion: one call each, JSON answer.

    The template gets ``prompt`` and ``answer`` (fenced, bounded, reasoning stripped),
    ``criteria`` (list of ``{"id", "text", "levels"}``) and ``nonce``. A call that fails, or
    an answer that does not name a criterion, gives ``no_verdict`` with its cause, never 0.
    """

    def __init__(self, chat: Chat, render: Render, *, reasks: int = 1, workers: int = 4) -> None:
        self._chat, self._render, self._reasks, self._workers = chat, render, reasks, max(workers, 1)
        self.calls = 0

    def verdicts(
        self, task: Task, completions: Sequence[str], criteria: Sequence[Criterion]
    ) -> list[dict[str, Verdict]]:
        """One dict (criterion id -> Verdict) per completion, every criterion present."""
        if self._workers == 1 or len(completions) < 2:
            return [self._one(task, text, criteria) for text in completions]
        with ThreadPoolExecutor(min(self._workers, len(completions))) as pool:
            return list(pool.map(lambda text: self._one(task, text, criteria), completions))

    def _one(self, task: Task, completion: str, criteria: Sequence[Criterion]) -> dict[str, Verdict]:
        mark = nonce()
        text = self._render(
            prompt=fence(task.prompt_text, "task", mark, limit=MAX_PROMPT),
            answer=fence(strip_think(completion), "answer", mark, limit=MAX_ANSWER),
            criteria=[{"id": c.id, "text": c.text, "levels": list(c.levels)} for c in criteria],
            nonce=mark,
        )
        messages = [{"role": "user", "content": text}]
        best: dict[str, Verdict] = {}
        cause: Cause = "unparsable"
        for _ in range(self._reasks + 1):
            self.calls += 1
            try:
                reply = self._chat(messages)
            except Exception as e:
                cause = _cause(e)
                break
            read = _read_verdicts(reply, criteria)
            best = {**read, **best}
            missing = [c.id for c in criteria if c.id not in best]
            if not missing:
                break
            if not find_json(reply) and _is_refusal(reply):
                cause = "refusal"
                break
            messages = [
                *messages[:1],
                {"role": "assistant", "content": clip(reply, 2000) or "(empty)"},
                {
                    "role": "user",
                    "content": "Not usable. Answer with the JSON object only; these criteria lack a "
                    "valid verdict: " + ", ".join(missing),
                },
            ]
        return {c.id: best.get(c.id, Verdict.missing(cause)) for c in criteria}


class LLMReference:
    """Trusted values of all completions of one task, read together in one call.

    The template gets ``prompt``, ``reference_answer`` (fenced or empty), ``answers`` (list
    of ``{"id", "text"}``) and ``nonce``. The order shown is shuffled by content, so that a
    liking for a position does not follow the order of drawing. Values are marks from 0 to
    10 divided by 10; None where the model gave none.
    """

    def __init__(self, chat: Chat, render: Render, *, name: str = "llm", reasks: int = 1) -> None:
        self._chat, self._render, self._reasks, self.name = chat, render, reasks, name
        self.calls = 0

    def values(self, task: Task, completions: Sequence[str]) -> list[float | None]:
        """One value in [0, 1] (or None) per completion; a failing call gives None for all."""
        n = len(completions)
        if n == 0:
            return []
        mark = nonce()
        digest = hashlib.sha256("\x00".join([task.id, *completions]).encode()).digest()
        order = list(range(n))
        random.Random(digest).shuffle(order)
        answers = [
            {"id": f"A{place + 1}", "text": fence(strip_think(completions[i]), "answer", mark, limit=MAX_ANSWER)}
            for place, i in enumerate(order)
        ]
        reference = task.reference_answer or ""
        text = self._render(
            prompt=fence(task.prompt_text, "task", mark, limit=MAX_PROMPT),
            reference_answer=fence(reference, "reference", mark, limit=MAX_ANSWER) if reference else "",
            answers=answers,
            nonce=mark,
        )
        messages = [{"role": "user", "content": text}]
        marks: dict[str, float] = {}
        for _ in range(self._reasks + 1):
            self.calls += 1
            try:
                reply = self._chat(messages)
            except Exception:
                break
            marks = {**_read_marks(reply, [a["id"] for a in answers]), **marks}
            missing = [a["id"] for a in answers if a["id"] not in marks]
            if not missing:
                break
            messages = [
                *messages[:1],
                {"role": "assistant", "content": clip(reply, 2000) or "(empty)"},
                {
                    "role": "user",
                    "content": "Not usable. Answer with the JSON object only; these answers lack a "
                    "mark from 0 to 10: " + ", ".join(missing),
                },
            ]
        out: list[float | None] = [None] * n
        for place, i in enumerate(order):
            out[i] = marks.get(f"A{place + 1}")
        return out


def _read_verdicts(reply: str, criteria: Sequence[Criterion]) -> dict[str, Verdict]:
    for data in find_json(reply):
        rows: Any = data.get("verdicts") if isinstance(data, dict) else data
        if isinstance(rows, dict):
            rows = [{"id": k, "verdict": v} for k, v in rows.items()]
        if not isinstance(rows, list):
            continue
        out: dict[str, Verdict] = {}
        by_id = {c.id: c for c in criteria}
        for row in rows:
            if not isinstance(row, dict):
                continue
            c = by_id.get(str(row.get("id")))
            value = None if c is None else _level(row.get("verdict", row.get("met", row.get("level"))), c)
            if c is not None and value is not None:
                out[c.id] = Verdict.of(value)
        if out:
            return out
    return {}


def _level(raw: object, criterion: Criterion) -> float | None:
    if criterion.kind == "graded":
        last = len(criterion.levels) - 1
        if isinstance(raw, str) and raw in criterion.levels:
            return criterion.levels.index(raw) / last
        if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= last:
            return raw / last
        return None
    if isinstance(raw, bool):
        return float(raw)
    if isinstance(raw, (int, float)) and raw in (0, 1):
        return float(raw)
    if isinstance(raw, str):
        return {"met": 1.0, "yes": 1.0, "true": 1.0, "unmet": 0.0, "not met": 0.0, "no": 0.0, "false": 0.0}.get(
            raw.strip().lower()
        )
    return None


def _read_marks(reply: str, ids: Sequence[str]) -> dict[str, float]:
    for data in find_json(reply):
        rows: Any = data.get("marks", data) if isinstance(data, dict) else data
        if isinstance(rows, list) and len(rows) == len(ids) and not any(isinstance(r, dict) for r in rows):
            rows = dict(zip(ids, rows, strict=True))
        if isinstance(rows, list):
            rows = {str(r.get("id")): r.get("mark") for r in rows if isinstance(r, dict)}
        if not isinstance(rows, dict):
            continue
        out = {
            k: float(v) / 10
            for k in ids
            if isinstance(v := rows.get(k), (int, float)) and not isinstance(v, bool) and 0 <= v <= 10
        }
        if out:
            return out
    return {}


def _is_refusal(reply: str) -> bool:
    start = strip_think(reply).lower().replace("’", "'")[:80]
    return any(s in start for s in ("i can't", "i cannot", "i'm sorry", "i am sorry", "i won't", "unable to"))


def _cause(error: Exception) -> Cause:
    cause = getattr(error, "cause", None)
    if cause in ("timeout", "refusal", "budget"):
        return cause  # type: ignore[no-any-return]  # narrowed by the test above, the attribute is untyped
    return "timeout" if isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower() else "error"
