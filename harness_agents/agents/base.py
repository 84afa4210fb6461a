"""An LLM agent: template + model + schema -> a checked object, with re-asks, else None (then its twin acts)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ValidationError

from harness_agents.masking import mask_secrets
from harness_agents.models import Usage
from harness_agents.templates import Templates
from rl_core.judge.text import clip, find_json

_LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=BaseModel)
Out = TypeVar("Out")

#: Longest prompt that is sent; a template keeps far below it, whatever the number of tasks.
MAX_PROMPT_CHARS = 60_000
MAX_REPLY_ECHO = 4000


class Structured(Generic[Answer]):
    """Asks one model for one kind of object. LLM text is data: found, schema-checked, then checked by the caller.

    ``notes`` tells how the last answer came about: ``path`` (model | rules), ``reasks``,
    ``template`` (hash), ``error`` and ``usage`` so far.
    """

    def __init__(
        self, model: BaseChatModel, templates: Templates, template: str, schema: type[Answer], *, reasks: int = 2
    ) -> None:
        self._model, self._schema, self._reasks = model, schema, reasks
        self._render = templates.bound(template)
        self._hash = templates.info(template).hash
        self.usage = Usage()
        self.notes: dict[str, Any] = {}

    def ask(self, check: Callable[[Answer], Out], **variables: Any) -> Out | None:
        """What ``check`` makes of the first sound answer, or None.

        ``check`` raises ValueError for what a schema cannot say (unknown ids, edits that do not
        fit); its message is shown to the model. A transport error is not re-asked: the model
        wrapper has retried it already.
        """
        messages: list[BaseMessage] = [HumanMessage(clip(self._render(**variables), MAX_PROMPT_CHARS))]
        error = ""
        for reasks in range(self._reasks + 1):
            try:
                reply = self._model.invoke(messages)
            except Exception as e:
                error = mask_secrets(f"{type(e).__name__}: {e}")[:300]
                break
            self.usage.add(reply)
            out, error = self._read(str(reply.text), check)
            if out is not None:
                self._note("model", reasks, None)
                return out
            messages = [
                messages[0],
                AIMessage(clip(str(reply.text), MAX_REPLY_ECHO) or "(empty)"),
                HumanMessage(f"Not usable: {error}. Answer again with one JSON object and nothing else."),
            ]
        _LOG.warning("the model gave no usable answer, its rule-based twin takes over: %s", error)
        self._note("rules", self._reasks, error)
        return None

    def _read(self, text: str, check: Callable[[Answer], Out]) -> tuple[Out | None, str]:
        found = [x for x in find_json(text) if isinstance(x, dict)]
        if not found:
            return None, "no JSON object in the answer"
        problem = ""
        for data in found:
            try:
                return check(self._schema.model_validate(data)), ""
            except ValidationError as e:
                first = e.errors(include_url=False, include_input=False, include_context=False)[:3]
                problem = problem or "; ".join(f"{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in first)
            except (ValueError, RecursionError) as e:
                problem = problem or str(e)
        return None, mask_secrets(problem)[:800]

    def _note(self, path: str, reasks: int, error: str | None) -> None:
        self.notes = {
            "path": path,
            "reasks": reasks,
            "template": self._hash,
            "error": error,
            "usage": self.usage.as_dict(),
        }
