"""The wheel in an empty environment: prompts are in it, the command works, nothing else leaks in."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytest.importorskip("hatchling", reason="the build backend is part of the extra dev")


def run(*command: str | Path, cwd: Path) -> str:
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", dist, ROOT, cwd=dist)
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, and of its dependencies only what a light command needs."""
    folder = tmp_path_factory.mktemp("empty environment")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q")
    run(*pip, "--no-deps", wheel, cwd=folder)
    run(*pip, "-c", ROOT / "constraints.txt", "click", "pydantic", "pyyaml", "jinja2", cwd=folder)
    return python


def test_the_wheel_holds_the_packages_the_prompts_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {n.split("/")[0] for n in names if ".dist-info/" not in n}
    assert top == {"harness_agents", "rl_core", "memory"}
    shipped = {n.removeprefix("harness_agents/") for n in names if n.startswith("harness_agents/prompts/")}
    source = {p.relative_to(ROOT).as_posix() for p in (ROOT / "prompts").rglob("*") if p.is_file()}
    assert source
    assert shipped == source
    assert any(n.endswith(".dist-info/licenses/LICENSE") for n in names)


def test_the_command_works(installed: Path) -> None:
    command = installed.with_name("harness-agents")
    cwd = installed.parent
    assert "train" in run(command, "--help", cwd=cwd)
    assert "0.1.0" in run(command, "--version", cwd=cwd)
    run(command, "init", "h.yaml", cwd=cwd)
    assert "learning_rate:" in (cwd / "h.yaml").read_text()


def test_the_templates_are_found_inside_the_package(installed: Path) -> None:
    code = "from harness_agents.templates import shipped_folder as f; print(f())"
    folder = Path(run(installed, "-c", code, cwd=installed.parent).strip())
    assert folder.parent.name == "harness_agents"
    assert any(folder.rglob("*.j2"))


def test_no_tests_examples_or_prompts_leak_to_the_top_level(installed: Path) -> None:
    code = "import importlib.util as u; print([n for n in ('tests', 'examples', 'prompts', 'docs') if u.find_spec(n)])"
    assert run(installed, "-c", code, cwd=installed.parent).strip() == "[]"
