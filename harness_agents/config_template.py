"""The commented harness.yaml: every key of HarnessConfig with what it means and what it may be."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from harness_agents.config import HarnessConfig

_HEADER = """\
# harness.yaml: every key with its value. Delete what you do not change: a missing key takes the value shown.
# `harness-agents train FILE` runs it.
"""


def config_yaml(config: HarnessConfig | None = None, *, header: str = _HEADER) -> str:
    """YAML text of the config (the defaults when None), commented; ``load_config`` gives the same config back."""
    model = config or HarnessConfig()
    plain: list[str] = []
    sections: list[str] = []
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            lines = [f"# {field.description or _first_line(type(value))}", f"{name}:"]
            for key, inner in type(value).model_fields.items():
                lines += _entry(key, inner, getattr(value, key), indent="  ")
            sections.append("\n".join(lines))
        else:
            plain += _entry(name, field, value, indent="")
    return header + "\n" + "\n\n".join(["\n".join(plain), *sections]) + "\n"


def _entry(key: str, field: FieldInfo, value: object, *, indent: str) -> list[str]:
    return [f"{indent}# {field.description or key} {_allowed(field)}", f"{indent}{key}: {_scalar(value)}"]


def _scalar(value: object) -> str:
    return (
        yaml.safe_dump(value, width=10_000, allow_unicode=True, default_flow_style=True).removesuffix("...\n").strip()
    )


def _allowed(field: FieldInfo) -> str:
    """Kind and bounds in words, so that a reader need not guess what is refused."""
    parts = [_kind(field.annotation)]
    for bound in field.metadata:
        for kind, sign in ((annotated_types.Ge, ">="), (annotated_types.Gt, ">"), (annotated_types.Le, "<="),
                           (annotated_types.Lt, "<")):  # fmt: skip
            if isinstance(bound, kind):
                limit: Any = getattr(bound, kind.__name__.lower())
                parts.append(f"{sign} {limit:g}" if isinstance(limit, float) else f"{sign} {limit}")
    return "(" + ", ".join(parts) + ")"


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return " | ".join(str(a) for a in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join("null" if a is type(None) else _kind(a) for a in get_args(annotation))
    names = {int: "whole number", float: "number", str: "text", bool: "true | false"}
    return names.get(annotation, str(annotation))


def _first_line(section: type[BaseModel]) -> str:
    return (section.__doc__ or section.__name__).strip().splitlines()[0]
