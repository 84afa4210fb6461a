"""A real local HTTP server that speaks the OpenAI chat wire format, and a toy world with a loop written by hand."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from harness_agents.config import HarnessConfig
from harness_agents.harness import Harness
from harness_agents.outcome import Outcome
from rl_core.judge.checks import register
from rl_core.policy import Completion
from rl_core.rollout import Rollout
from rl_core.rubric import CheckRoute, Criterion, Rubric
from rl_core.task import Task, TaskSet


class WireServer:
    """``replies``: texts, or (status, headers, body) for errors; the last one repeats. Requests are recorded."""

    def __init__(self, replies: Sequence[str | tuple[int, dict[str, str], dict[str, Any]]]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                outer.headers.append(dict(self.headers))
                reply = replies[min(len(outer.requests), len(replies)) - 1]
                status, headers, data = (200, {}, _chat(reply, body)) if isinstance(reply, str) else reply
                raw = json.dumps(data).encode()
                self.send_response(status)
                for k, v in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **headers}.items():
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> WireServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _chat(text: str, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> tuple[int, dict[str, str], Any]:
    return (
        status,
        {k.replace("_", "-"): v for k, v in headers.items()},
        {"error": {"message": message, "type": "error", "code": code}},
    )


@pytest.fixture
def wire() -> type[WireServer]:
    return WireServer


@pytest.fixture
def wire_error() -> Callable[..., tuple[int, dict[str, str], Any]]:
    return error


# ---- a toy world: three domains of short word lists, a policy that is a table, gold that no rubric holds


@register("toy.says")
def _says(completion: str, task: Task, word: str) -> bool:
    return word in completion.split()


@register("toy.long")
def _long(completion: str, task: Task, words: int) -> bool:
    return len(completion.split()) >= words


def _criterion(cid: str, family: str, name: str, weight: float, **params: Any) -> Criterion:
    return Criterion(
        id=cid, text=f"{name} {params}", weight=weight, category=family, route=CheckRoute(name=name, params=params)
    )


class ToyPolicy:
    """Says the right word with a chance that depends on the domain; a hint that holds the word helps a lot."""

    def __init__(self, version: int = 0) -> None:
        self.version = version
        self.calls = 0

    def generate(
        self,
        prompts: Sequence[Any],
        *,
        n: int,
        seed: int,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> list[list[Completion]]:
        self.calls += 1
        return [self._answers(p, n, random.Random(f"{seed}-{i}-{p}")) for i, p in enumerate(prompts)]

    def _answers(self, prompt: str, n: int, rng: random.Random) -> list[Completion]:
        hint, _, plain = prompt.rpartition("\n")
        domain, number = plain.split()
        word = f"w{number}"
        chance = {"ok": 0.5, "easy": 1.0, "hard": 0.0}[domain]
        if word in hint.split():
            chance = max(chance, 0.6)
        out = []
        for _ in range(n):
            words = [word] if rng.random() < chance else ["other"]
            words += ["wrong"] if domain == "ok" and rng.random() < 0.4 else []
            words += ["pad"] * rng.choice([0, 0, 4])
            out.append(Completion(" ".join(words), len(words), logprob=-0.8 if hint else -1.0))
        return out

    def logprobs(self, prompts: Sequence[Any], completions: Sequence[str]) -> list[float | None]:
        return [-1.0] * len(completions)


class ToyReference:
    name = "toy"

    def __init__(self) -> None:
        self.calls = 0

    def values(self, task: Task, completions: Sequence[str]) -> list[float | None]:
        self.calls += 1
        word = f"w{task.prompt_text.split()[1]}"
        return [max(0.8 * (word in c.split()) - 0.4 * ("wrong" in c.split()) + 0.2, 0.0) for c in completions]


class Toy:
    """Tasks, catalogue, config and a hand-written loop."""

    Policy, Reference = ToyPolicy, ToyReference
    groups = 24  # a step

    def __init__(self) -> None:
        tasks = []
        for domain, count in (("ok", 60), ("easy", 60), ("hard", 24)):
            for i in range(count):
                said = _criterion(f"{domain}-{i}-fact", "fact", "toy.says", 1.0, word=f"w{i}")
                long = _criterion(f"{domain}-{i}-long", "long", "toy.long", 2.0, words=4)
                criteria = (said, long) if domain == "ok" else (said,)
                tasks.append(
                    Task(
                        id=f"{domain}-{i}",
                        prompt=f"{domain} {i}",
                        domain=domain,
                        rubric=Rubric(criteria=criteria),
                        reference_answer=f"w{i} and so on",
                    )
                )
        self.tasks = TaskSet(tasks)
        self.catalogue = (
            _criterion("cat.wrong", "wrong", "toy.says", 1.0, word="wrong"),
            _criterion("cat.even", "even", "toy.long", 1.0, words=3),
        )

    def config(self, **sections: dict[str, Any]) -> dict[str, Any]:
        base: dict[str, Any] = {
            "train": {"steps": 100, "groups_per_step": Toy.groups, "group_size": 8},
            "updates": {"first_step": 6, "every": 6},
            "reference": {"first_groups": 96, "trickle_groups": 6, "label_budget": 0.2},
            "memory": {"embedding": "hashing"},
            "guidance": {"template": "hints/plain.j2"},
            "gate": {"max_pairs": 40},
        }
        for name, values in sections.items():
            base[name] = {**base.get(name, {}), **values} if isinstance(values, dict) else values
        return base

    def harness(self, run_dir: Any = None, **more: Any) -> Harness:
        sections = {k: more.pop(k) for k in list(more) if k in HarnessConfig.model_fields and isinstance(more[k], dict)}
        if "approval" in more:
            sections["approval"] = more.pop("approval")
        settings: dict[str, Any] = {"tasks": self.tasks, "catalogue": self.catalogue, "reference": ToyReference()}
        settings["planned_rollouts"] = 100 * Toy.groups * 8
        return Harness.from_config(self.config(**sections), run_dir=run_dir, **{**settings, **more})

    def step(self, harness: Harness, policy: ToyPolicy, step: int) -> None:
        """One training step without the training."""
        tasks = harness.draw(self.groups, step)
        prompts = harness.guide(tasks, 8, step)
        drawn = [
            [policy.generate([p.generate_with], n=1, seed=1000 * step + 8 * g + i)[0][0] for i, p in enumerate(row)]
            for g, row in enumerate(prompts)
        ]
        version = harness.state.version
        scored = harness.score(tasks, [[c.text for c in row] for row in drawn], version)
        harness.observe(
            [
                Rollout(
                    id=f"{step}-{g}-{i}",
                    task_id=task.id,
                    group_id=f"{step}-{g}",
                    step=step,
                    completion=c.text,
                    harness_version=version,
                    guidance_id=p.guidance_id,
                    verdicts=s.verdicts,
                    reward=s.reward,
                    tokens=c.tokens,
                    logprob=c.logprob,
                    logprob_plain=-1.0,
                )
                for g, task in enumerate(tasks)
                for i, (c, p, s) in enumerate(zip(drawn[g], prompts[g], scored[g], strict=True))
            ]
        )

    def train(self, harness: Harness, steps: int, policy: ToyPolicy | None = None, start: int = 0) -> list[Outcome]:
        """Steps ``start`` to ``steps``, with the updates that are due."""
        policy = policy or ToyPolicy()
        outcomes = []
        for step in range(start, steps):
            self.step(harness, policy, step)
            if harness.due(step + 1):
                outcomes.append(harness.checkpoint(step + 1, policy))
        return outcomes


@pytest.fixture
def toy() -> Toy:
    return Toy()
