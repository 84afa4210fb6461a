"""Models through litellm against a real local HTTP server: requests are counted, nothing of litellm is mocked."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from pydantic import SecretStr

from harness_agents.config import AgentConfig, ReferenceConfig
from harness_agents.models import LiteLLMChatModel, ModelError, Usage, build_chat_model, chat_callable
from rl_core.errors import InputError

KEY = "sk-very-secret-0123456789"


def make(url: str, slept: list[float], **more: object) -> LiteLLMChatModel:
    m = LiteLLMChatModel(model="openai/some-model", api_base=url, api_key=SecretStr(KEY), timeout=5, **more)
    m._sleep = slept.append
    return m


def test_one_call_with_usage_and_settings(wire: Any) -> None:
    with wire(["hello"]) as server:
        usage = Usage()
        m = make(server.url, [], temperature=0.3, max_tokens=50)
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        assert chat_callable(m, usage)(messages) == "hello"
    assert len(server.requests) == 1
    sent = server.requests[0]
    assert sent["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert sent["temperature"] == 0.3
    assert sent["max_tokens"] == 50
    assert sent["model"] == "some-model"
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 11, 7)
    assert usage.unpriced_calls == 1  # the price of this model is unknown and that is said


def test_another_provider_string_speaks_the_same_wire(wire: Any) -> None:
    with wire(["hi"]) as server:
        m = LiteLLMChatModel(model="hosted_vllm/m", api_base=server.url, api_key=SecretStr(KEY), timeout=5)
        assert m.invoke("x").text == "hi"
    assert len(server.requests) == 1


def test_429_waits_as_long_as_the_server_asks_then_answers(wire: Any, wire_error: Any) -> None:
    slept: list[float] = []
    with wire([wire_error(429, "slow down", retry_after="7"), "done"]) as server:
        assert make(server.url, slept).invoke("x").text == "done"
    assert len(server.requests) == 2
    assert slept == [pytest.approx(7, abs=0.5)]


def test_a_server_that_asks_for_an_hour_is_not_waited_for(wire: Any, wire_error: Any) -> None:
    slept: list[float] = []
    with wire([wire_error(429, "later", retry_after="3600")]) as server, pytest.raises(ModelError):
        make(server.url, slept).invoke("x")
    assert len(server.requests) == 1
    assert slept == []


def test_500_makes_exactly_max_attempts_requests(wire: Any, wire_error: Any) -> None:
    slept: list[float] = []
    with wire([wire_error(500)]) as server, pytest.raises(ModelError) as caught:
        make(server.url, slept, max_attempts=3).invoke("x")
    assert len(server.requests) == 3
    assert caught.value.status == 500
    assert len(slept) == 2


@pytest.mark.parametrize(("status", "code"), [(400, None), (401, None), (404, None), (429, "insufficient_quota")])
def test_what_cannot_get_better_is_not_retried(status: int, code: str | None, wire: Any, wire_error: Any) -> None:
    with wire([wire_error(status, code or "no", code)]) as server, pytest.raises(ModelError):
        make(server.url, []).invoke("x")
    assert len(server.requests) == 1


def test_keys_never_reach_the_error(monkeypatch: pytest.MonkeyPatch, wire: Any, wire_error: Any) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plainlookingvalue")
    with (
        wire([wire_error(401, f"Incorrect API key provided: {KEY}, also plainlookingvalue")]) as server,
        pytest.raises(ModelError) as caught,
    ):
        make(server.url, []).invoke("x")
    text = str(caught.value)
    assert KEY not in text
    assert "0123456789" not in text
    assert "plainlookingvalue" not in text
    assert caught.value.__suppress_context__  # the traceback does not print the original either
    assert KEY not in repr(make(server.url, []))


def test_no_connection_is_transient_and_named(wire: Any) -> None:
    slept: list[float] = []
    with wire(["x"]) as server:
        url = server.url
    with pytest.raises(ModelError):
        make(url, slept, max_attempts=2).invoke("x")
    assert len(slept) == 1


def test_factory() -> None:
    assert build_chat_model(AgentConfig()) is None
    assert build_chat_model(ReferenceConfig(model="world")) is None
    built = build_chat_model(AgentConfig(model="openai/gpt-4o-mini", temperature=0.7, api_base="http://127.0.0.1:1"))
    assert isinstance(built, LiteLLMChatModel)
    assert built.temperature == 0.7
    with pytest.raises(InputError, match="unknown model 'gpt'"):
        build_chat_model(AgentConfig(model="gpt"))


def test_any_langchain_model_becomes_a_chat_callable() -> None:
    assert chat_callable(FakeListChatModel(responses=["a"]))([{"role": "user", "content": "x"}]) == "a"


def test_importing_the_models_does_not_import_litellm() -> None:
    code = "import sys, harness_agents.models; print([m for m in ('litellm', 'torch', 'chromadb') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
