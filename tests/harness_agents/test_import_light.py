"""Importing the packages loads nothing heavy; names that hide ours are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness_agents

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "accelerate", "chromadb", "datasets", "litellm", "langgraph", "matplotlib", "pandas", "pyarrow", "rich", "torch",
    "transformers", "trl",
}  # fmt: skip


def run(code: str, *, path: str = str(ROOT), cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=cwd, check=False)


def loaded(code: str) -> set[str]:
    result = run(f"{code}\nimport sys\nprint(' '.join(sorted(sys.modules)))")
    assert result.returncode == 0, result.stderr
    return {name.split(".")[0] for name in result.stdout.split()}


def test_the_package_and_the_command_line_load_next_to_nothing() -> None:
    names = loaded("import harness_agents, harness_agents.cli, rl_core")
    assert not names & (HEAVY | {"numpy", "pydantic", "yaml", "jinja2", "langchain_core", "memory"})
    assert not loaded("import memory") & HEAVY


def test_config_nouns_and_ledger_load_nothing_heavy() -> None:
    names = loaded(
        "from harness_agents import Capabilities, HarnessConfig, HarnessState, InputError, Rubric, Task, load_config\n"
        "import harness_agents.config_template, harness_agents.preflight, rl_core.ledger, rl_core.run_folder"
    )
    assert not names & HEAVY


def test_no_module_loads_heavy_libraries_when_imported() -> None:
    """Each module of the three packages, all in one process.

    Only modules of ``rl_core.adapters`` may (they subclass the trainer's classes); a module that
    imports one of those at its top is found all the same.
    """
    code = (
        "import importlib, pkgutil, sys\n"
        f"heavy = {sorted(HEAVY)!r}\n"
        "for package in ('harness_agents', 'rl_core', 'memory'):\n"
        "    module = importlib.import_module(package)\n"
        "    for info in pkgutil.walk_packages(module.__path__, package + '.'):\n"
        "        if info.name.startswith('rl_core.adapters.'):\n"
        "            continue\n"
        "        importlib.import_module(info.name)\n"
        "        bad = [h for h in heavy if h in sys.modules]\n"
        "        if bad:\n"
        "            sys.exit(f'{info.name} loads {bad}')\n"
    )
    result = run(code)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", harness_agents.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(harness_agents, name).__name__ == name
    assert name in dir(harness_agents)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Harnes'"):
        harness_agents.Harnes  # noqa: B018


def test_a_module_that_hides_memory_is_named_with_the_mend(tmp_path: Path) -> None:
    (tmp_path / "memory.py").write_text("cache = {}\n")
    result = run("import harness_agents", path=f"{tmp_path}{os.pathsep}{ROOT}", cwd=tmp_path)
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert str(tmp_path / "memory.py") in last
    assert "-P" in last
