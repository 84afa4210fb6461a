"""Prompt templates: the user's folder first, then the shipped ones; sandboxed, variables checked, hashed.

Every template starts with one comment that says what it needs::

    {# version: 1
       variables: prompt, answer #}
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rl_core.errors import InputError
from rl_core.guidance import Renderer
from rl_core.policy import Prompt
from rl_core.task import Task

_HEADER = re.compile(r"\A\{#(.*?)#\}", re.DOTALL)
_FIELD = re.compile(r"^\s*(version|variables):\s*(.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class TemplateInfo:
    """``hash``: first 12 hex digits of the SHA-256 of the file; it is written into every record."""

    name: str
    path: str
    version: str
    variables: tuple[str, ...]
    hash: str


def shipped_folder() -> Path:
    """The templates inside the installed package, or ``prompts/`` of a checkout."""
    inside = Path(str(resources.files("harness_agents"))) / "prompts"
    return inside if inside.is_dir() else Path(__file__).resolve().parent.parent / "prompts"


class Templates:
    """Finds, checks and renders templates by name, such as ``evolver.j2`` or ``hints/plain.j2``."""

    def __init__(self, folder: str | Path | None = None) -> None:
        from jinja2 import FileSystemLoader, StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        self._folders = [shipped_folder()]
        if folder is not None:
            own = Path(folder)
            if not own.is_dir():
                raise InputError("no such folder", where=str(own), field="prompts", mend="create it or drop the key")
            self._folders.insert(0, own)
        self._env = SandboxedEnvironment(
            loader=FileSystemLoader([str(f) for f in self._folders]),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._info: dict[str, TemplateInfo] = {}

    def info(self, name: str) -> TemplateInfo:
        """Where a template comes from and what it takes. Raises InputError when it is missing or unsound."""
        from jinja2 import TemplateError, TemplateNotFound, meta

        if name in self._info:
            return self._info[name]
        loader = self._env.loader
        assert loader is not None
        try:
            source, path, _ = loader.get_source(self._env, name)
        except (TemplateNotFound, UnicodeDecodeError):
            raise InputError(
                f"no template {name!r}",
                where=str(self._folders[0]),
                field="prompts",
                mend="name one of: " + ", ".join(self.names()),
            ) from None
        where = path or name
        try:
            used = meta.find_undeclared_variables(self._env.parse(source))
        except TemplateError as e:
            line = getattr(e, "lineno", None)
            raise InputError(
                f"not a valid template ({e.message})",
                where=f"{where}{f', line {line}' if line else ''}",
                mend="mend the syntax there",
            ) from None
        header = _HEADER.match(source)
        fields = dict(_FIELD.findall(header.group(1))) if header else {}
        if "variables" not in fields:
            raise InputError(
                "no header", where=where, mend="start the file with {# version: 1, next line variables: a, b #}"
            )
        declared = tuple(v.strip() for v in fields["variables"].split(",") if v.strip())
        if set(declared) != used:
            odd = sorted(set(declared) ^ used)
            raise InputError(
                "the header's variables are not those that the text uses",
                where=where,
                field=", ".join(odd),
                mend="declare what is used and use what is declared",
            )
        info = TemplateInfo(
            name, where, fields.get("version", "0"), declared, hashlib.sha256(source.encode()).hexdigest()[:12]
        )
        self._info[name] = info
        return info

    def names(self) -> list[str]:
        """Every template that can be used."""
        return sorted({p.relative_to(f).as_posix() for f in self._folders for p in f.rglob("*.j2")})

    def render(self, name: str, /, **variables: Any) -> str:
        """The text. Raises InputError when variables are missing or unknown, or the template fails."""
        from jinja2 import TemplateError

        info = self.info(name)
        if odd := sorted(set(variables) ^ set(info.variables)):
            raise InputError(
                "missing or unknown variables",
                where=info.path,
                field=", ".join(odd),
                mend="the template takes: " + ", ".join(info.variables),
            )
        try:
            return self._env.get_template(name).render(**variables).strip()
        except TemplateError as e:
            raise InputError(f"cannot be rendered ({e.message})", where=info.path, mend="mend the template") from None

    def bound(self, name: str) -> Callable[..., str]:
        """``render`` for one template; checked now, so that a broken file stops the start and not the run."""
        self.info(name)

        def render(**variables: Any) -> str:
            return self.render(name, **variables)

        return render


def hint_renderer(templates: Templates, name: str) -> Renderer:
    """A hint template (variables ``text`` and ``prompt``) as the renderer that guidance uses.

    In a chat the hint goes into the last user message, so that roles stay as they are.
    """
    render = templates.bound(name)

    def place(text: str, task: Task) -> Prompt:
        if isinstance(task.prompt, str):
            return render(text=text, prompt=task.prompt)
        users = [i for i, m in enumerate(task.prompt) if m.role == "user"]
        at = users[-1] if users else len(task.prompt) - 1
        return tuple(
            m.model_copy(update={"content": render(text=text, prompt=m.content)}) if i == at else m
            for i, m in enumerate(task.prompt)
        )

    return place
