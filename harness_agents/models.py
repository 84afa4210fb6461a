"""Model factory: "rules", a litellm id, or any LangChain chat model; one retry layer, usage and cost counted."""

from __future__ import annotations

import email.utils
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field, PrivateAttr, SecretStr

from harness_agents.config import AgentConfig, ReferenceConfig
from harness_agents.masking import mask_secrets
from rl_core.errors import InputError

#: A provider that asks to wait longer than this is treated as failing.
MAX_RETRY_AFTER = 60.0


class ModelError(RuntimeError):
    """A chat model call failed for good. The message holds no key and no prompt.

    ``cause`` is one of timeout, budget, error (the causes of a missing verdict).
    """

    def __init__(self, message: str, *, status: int | None = None, cause: str = "error") -> None:
        super().__init__(message)
        self.status, self.cause = status, cause


def load_litellm() -> Any:
    """Import litellm (about 4 s) with its downloads and its reading of ``.env`` switched off."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def is_transient(error: BaseException) -> bool:
    """Worth another try: 408, 409, 429 (but not a spent quota), 5xx, and connections that failed."""
    if "insufficient_quota" in str(error):
        return False
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in (408, 409, 429) or status >= 500
    name = type(error).__name__.lower()
    return isinstance(error, (TimeoutError, ConnectionError)) or "timeout" in name or "connection" in name


def retry_after(error: BaseException) -> float | None:
    """Seconds that the provider asks to wait (header ``Retry-After``, seconds or a date)."""
    response = getattr(error, "response", None)
    for headers in (getattr(response, "headers", None), getattr(error, "litellm_response_headers", None)):
        raw = headers.get("retry-after") if headers is not None else None
        if raw is None:
            continue
        try:
            return max(float(raw), 0.0)
        except ValueError:
            try:
                return max(email.utils.parsedate_to_datetime(raw).timestamp() - time.time(), 0.0)
            except (TypeError, ValueError):
                return None
    return None


class LiteLLMChatModel(BaseChatModel):
    """A litellm model behind LangChain's interface.

    litellm's and the provider library's own retries are off: one layer (tenacity) retries
    what ``is_transient`` says, so that ``max_attempts`` is the number of requests.
    """

    model: str
    temperature: float = 0.2
    max_tokens: int = 2000
    timeout: float = Field(60.0, description="seconds per request")
    api_base: str | None = None
    api_key: SecretStr | None = Field(None, description="None: litellm reads the provider's environment variable")
    max_attempts: int = 4
    max_wait: float = Field(20.0, description="longest pause of the exponential back-off, seconds")

    _sleep: Callable[[float], None] = PrivateAttr(default=time.sleep)

    @property
    def _llm_type(self) -> str:
        return "litellm"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, "temperature": self.temperature, "max_tokens": self.max_tokens}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        from tenacity import Retrying, retry_if_exception, stop_after_attempt

        litellm = load_litellm()
        request: dict[str, Any] = {
            "model": self.model,
            "messages": [_plain(m) for m in messages],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "timeout": self.timeout,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": True,
            **kwargs,
        }
        if stop:
            request["stop"] = stop
        if self.api_base:
            request["api_base"] = self.api_base
        if self.api_key is not None:
            request["api_key"] = self.api_key.get_secret_value()
        retrying = Retrying(
            stop=stop_after_attempt(self.max_attempts),
            wait=self._pause,
            retry=retry_if_exception(lambda e: is_transient(e) and (retry_after(e) or 0.0) <= MAX_RETRY_AFTER),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            response = retrying(litellm.completion, **request)
        except Exception as e:
            # "from None": the original error carries the request, and with it prompts and headers
            raise self._mask(e) from None
        return self._result(response)

    def _pause(self, state: Any) -> float:
        from tenacity import wait_random_exponential

        own = float(wait_random_exponential(multiplier=0.5, max=self.max_wait)(state))
        error = state.outcome.exception() if state.outcome is not None else None
        asked = retry_after(error) if error is not None else None
        return own if asked is None else max(asked, min(own, 0.5))

    def _mask(self, error: Exception) -> ModelError:
        status = getattr(error, "status_code", None)
        own = [] if self.api_key is None else [self.api_key.get_secret_value()]
        text = " ".join(mask_secrets(str(error), own).split())[:300]
        slow = isinstance(error, TimeoutError) or "timeout" in type(error).__name__.lower() or status == 408
        return ModelError(
            f"model {self.model!r}: {type(error).__name__}: {text}",
            status=status if isinstance(status, int) else None,
            cause="timeout" if slow else "error",
        )

    def _result(self, response: Any) -> ChatResult:
        choice = response.choices[0]
        usage = getattr(response, "usage", None)
        tokens_in = int(getattr(usage, "prompt_tokens", 0) or 0)
        tokens_out = int(getattr(usage, "completion_tokens", 0) or 0)
        hidden = getattr(response, "_hidden_params", None) or {}
        cost = hidden.get("response_cost")
        message = AIMessage(
            content=choice.message.content or "",
            usage_metadata={
                "input_tokens": tokens_in,
                "output_tokens": tokens_out,
                "total_tokens": tokens_in + tokens_out,
            },
            response_metadata={
                "model": self.model,
                "finish_reason": choice.finish_reason,
                "response_cost": float(cost) if cost is not None else None,
            },
        )
        return ChatResult(generations=[ChatGeneration(message=message)])


def _plain(message: BaseMessage) -> dict[str, str]:
    role = {"human": "user", "ai": "assistant", "system": "system"}.get(message.type, "user")
    return {"role": role, "content": str(message.text)}


@dataclass
class Usage:
    """Calls, tokens and money of one agent; ``cost`` in US dollars, unknown prices count as 0 and are flagged."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced_calls: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, message: BaseMessage) -> None:
        meta: dict[str, Any] = dict(getattr(message, "usage_metadata", None) or {})
        cost = (getattr(message, "response_metadata", None) or {}).get("response_cost")
        with self._lock:
            self.calls += 1
            self.input_tokens += int(meta.get("input_tokens", 0))
            self.output_tokens += int(meta.get("output_tokens", 0))
            self.cost += float(cost or 0.0)
            self.unpriced_calls += cost is None

    def as_dict(self) -> dict[str, float]:
        return {
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": round(self.cost, 6),
            "unpriced_calls": self.unpriced_calls,
        }


def build_chat_model(config: AgentConfig | ReferenceConfig) -> BaseChatModel | None:
    """The chat model of one agent; None for "rules" (and for the references that need none).

    Raises InputError for a name that is no litellm id (``provider/model``).
    """
    if config.model in ("rules", "none", "world"):
        return None
    if "/" not in config.model or config.model.startswith("/") or config.model.endswith("/"):
        raise InputError(
            f"unknown model {config.model!r}",
            field="model",
            mend="write 'rules' or a litellm id such as openai/gpt-4o-mini",
        )
    extra: dict[str, Any] = {}
    if isinstance(config, AgentConfig):
        extra = {"temperature": config.temperature, "max_tokens": config.max_tokens}
    else:
        extra = {"temperature": 0.0}
    return LiteLLMChatModel(model=config.model, timeout=config.timeout, api_base=config.api_base, **extra)


def chat_callable(model: BaseChatModel, usage: Usage | None = None) -> Callable[[list[dict[str, str]]], str]:
    """Any LangChain chat model as the plain function that rl_core's judge and reference take."""
    from langchain_core.messages import convert_to_messages

    def chat(messages: list[dict[str, str]]) -> str:
        reply = model.invoke(convert_to_messages(messages))
        if usage is not None:
            usage.add(reply)
        return str(reply.text)

    return chat
