"""The microworld's reference as a model server on the loopback: OpenAI wire format, nothing leaves the machine.

With it the embedded runs use the same path as a run with a hosted judge: prompt template, chat model,
HTTP, JSON answer. Gold never crosses the wire but as the marks that were asked (and counted) for.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from rl_core.microworld.judge import MicroworldReference
from rl_core.microworld.world import World
from rl_core.task import Task

#: Content of a fenced block: ``<label-nonce> ... </label-nonce>``.
_FENCED = re.compile(r"<(task|answer)-([0-9a-f]+)>\n?(.*?)\n?</\1-\2>", re.DOTALL)
_ANSWER = re.compile(r"^(A\d+):\s*<answer-([0-9a-f]+)>\n?(.*?)\n?</answer-\2>", re.DOTALL | re.MULTILINE)


class ReferenceServer:
    """``with ReferenceServer(world) as s:`` serves ``s.api_base``; ``s.requests`` counts the calls."""

    MODEL = "openai/microworld-reference"

    def __init__(self, world: World) -> None:
        self._reference = MicroworldReference(world)
        self._by_prompt: dict[str, Task] = {t.prompt_text: t for t in (*world.tasks, *world.held_out)}
        self.requests = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                owner.requests += 1
                try:
                    content = json.loads(self.rfile.read(size))["messages"][0]["content"]
                    status, body = 200, owner._reply(content)
                except (KeyError, ValueError, IndexError, TypeError) as e:
                    status, body = 400, {"error": {"message": f"not a request for marks ({type(e).__name__})"}}
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _reply(self, content: str) -> dict[str, Any]:
        prompt = next((m[2] for m in _FENCED.findall(content) if m[0] == "task"), "")
        answers = {label: text for label, _, text in _ANSWER.findall(content)}
        values = self._reference.values(self._by_prompt[prompt.strip()], [t.strip() for t in answers.values()])
        marks = {k: None if v is None else round(10 * v, 3) for k, v in zip(answers, values, strict=True)}
        return {
            "id": "microworld",
            "object": "chat.completion",
            "created": 0,
            "model": "microworld-reference",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": json.dumps({"marks": marks})},
                }
            ],
            "usage": {
                "prompt_tokens": len(content.split()),
                "completion_tokens": len(marks),
                "total_tokens": len(content.split()) + len(marks),
            },
        }
