"""Command line: what it hands on, and that bad input is one line, exit code 2, and leaves nothing behind."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness_agents.cli import main
from harness_agents.config import HarnessConfig, load_config


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Stand-ins for the two long commands: these tests are about what the command line hands on."""
    seen: list[tuple[Any, ...]] = []

    def run_training(config: HarnessConfig, *, out: Path, resume: bool) -> None:
        seen.append((config, out, resume))
        if config.seed == 130:
            raise KeyboardInterrupt

    demo, train = ModuleType("harness_agents.demo"), ModuleType("harness_agents.train")
    demo.run_demo = lambda out, seed, steps: seen.append((out, seed, steps))  # type: ignore[attr-defined]
    train.run_training = run_training  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "harness_agents.demo", demo)
    monkeypatch.setitem(sys.modules, "harness_agents.train", train)
    return seen


def fails(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line of a refused command."""
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def a_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("seed: 1\n")
    return folder


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in ("init", "demo", "train", "report", "graph"):
        assert f"  {command} " in text
    assert main([]) == 0
    assert capsys.readouterr().out == text


def test_init_writes_the_documented_defaults_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    assert load_config("harness.yaml") == HarnessConfig()
    Path("harness.yaml").write_text("seed: 5\n")
    capsys.readouterr()
    assert "harness.yaml: exists already" in fails(capsys, "init")
    assert load_config("harness.yaml").seed == 5
    assert main(["init", "harness.yaml", "--force"]) == 0
    assert load_config("harness.yaml").seed == 0


@pytest.mark.parametrize("target", ["no/such/folder/h.yaml", "file/h.yaml", "."])
def test_init_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str], target: str) -> None:
    Path("file").write_text("x")
    fails(capsys, "init", target)
    assert [p.name for p in Path().iterdir()] == ["file"]


def test_demo_hands_on_its_options(calls: list[tuple[Any, ...]]) -> None:
    assert main(["demo", "--out", "d", "--seed", "7", "--steps", "40"]) == 0
    assert main(["demo"]) == 0
    assert calls == [(Path("d"), 7, 40), (Path("runs/demo"), 0, None)]


def test_without_out_each_run_gets_its_own_folder(calls: list[tuple[Any, ...]]) -> None:
    a_run(Path("runs/demo"))
    a_run(Path("runs/demo-2"))
    assert main(["demo"]) == 0
    assert calls == [(Path("runs/demo-3"), 0, None)]


def test_a_folder_with_a_run_is_kept_unless_forced(
    capsys: pytest.CaptureFixture[str], calls: list[tuple[Any, ...]]
) -> None:
    a_run(Path("d"))
    Path("d/notes.txt").write_text("mine")
    assert "d: holds a run already; choose another --out" in fails(capsys, "demo", "--out", "d")
    assert calls == []
    assert Path("d/config.yaml").exists()
    assert main(["demo", "--out", "d", "--force"]) == 0
    assert not Path("d/config.yaml").exists()
    assert Path("d/notes.txt").exists()


def test_train_hands_on_the_config_with_overrides(calls: list[tuple[Any, ...]]) -> None:
    Path("my.yaml").write_text("seed: 1\ntasks: {source: 'ifeval:gone.jsonl'}\n")
    assert main(["train", "my.yaml", "--tasks", "microworld", "--seed", "9"]) == 0
    ((config, out, resume),) = calls
    assert (config.seed, config.tasks.source, out, resume) == (9, "microworld", Path("runs/my"), False)


def test_train_resumes_only_a_run(capsys: pytest.CaptureFixture[str], calls: list[tuple[Any, ...]]) -> None:
    Path("my.yaml").write_text("")
    assert "holds no run to resume" in fails(capsys, "train", "my.yaml", "--out", "r", "--resume")
    assert "add --out" in fails(capsys, "train", "my.yaml", "--resume")
    assert "choose one" in fails(capsys, "train", "my.yaml", "--out", "r", "--resume", "--force")
    assert not Path("r").exists()
    a_run(Path("r"))
    assert "holds a run already" in fails(capsys, "train", "my.yaml", "--out", "r")
    assert "differs from what the run was started with" in fails(capsys, "train", "my.yaml", "--out", "r", "--resume")
    assert calls == []
    assert main(["train", "my.yaml", "--out", "r", "--resume", "--seed", "1"]) == 0
    assert calls[0][2] is True
    assert Path("r/config.yaml").exists()


@pytest.mark.parametrize(
    ("text", "argv", "expected"),
    [
        (None, [], "my.yaml: no such file"),
        ("trian: {}", [], "my.yaml, field 'trian': unknown key"),
        ("train: {steps: many}", [], "my.yaml, field 'train.steps'"),
        ("policy: {model: gtp2}", [], "my.yaml, field 'policy.model': unknown model"),
        ("proposer: {model: rulez}", [], "my.yaml, field 'proposer.model': unknown model"),
        ("", ["--tasks", "ifeval:gone.jsonl"], "no such file 'gone.jsonl'"),
        ("", ["--out", "my.yaml"], "is a file, not a folder"),
        ("", ["--out", "my.yaml/run"], "is a file, not a folder"),
        ("", ["--seed", "-1"], "'--seed'"),
        ("", ["--stpes", "3"], "--stpes"),
    ],
)
def test_train_refuses_bad_input_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], calls: list[tuple[Any, ...]], text: str | None, argv: list[str], expected: str
) -> None:
    if text is not None:
        Path("my.yaml").write_text(text)
    before = sorted(Path().rglob("*"))
    assert expected in fails(capsys, "train", "my.yaml", *argv)
    assert calls == []
    assert sorted(Path().rglob("*")) == before


def test_bad_input_is_found_before_anything_heavy_is_loaded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modules of the long commands are not even imported (here: cannot be)."""
    monkeypatch.setitem(sys.modules, "harness_agents.demo", None)
    monkeypatch.setitem(sys.modules, "harness_agents.train", None)
    Path("file").write_text("")
    fails(capsys, "demo", "--out", "file/run")
    fails(capsys, "train", "file", "--out", "file/run")


def test_ctrl_c_is_130_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str], calls: list[tuple[Any, ...]]) -> None:
    Path("my.yaml").write_text("")
    assert main(["train", "my.yaml", "--seed", "130", "--out", "r"]) == 130
    assert "harness-agents train my.yaml --out r --resume" in capsys.readouterr().err


def test_a_mistyped_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "see 'harness-agents --help'" in fails(capsys, "trian")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["none"], "none: no such folder"),
        (["empty"], "empty: holds no run"),
        (["run", "--out", "empty"], "empty: is not a file"),
        (["run", "--out", "none/report.html"], "not a file in an existing folder"),
    ],
)
def test_report_refuses(capsys: pytest.CaptureFixture[str], argv: list[str], expected: str) -> None:
    Path("empty").mkdir()
    a_run(Path("run"))
    assert expected in fails(capsys, "report", *argv)
    assert [p.name for p in Path("run").iterdir()] == ["config.yaml"]


def test_report_and_graph_of_real_parts(capsys: pytest.CaptureFixture[str]) -> None:
    run = a_run(Path("run"))
    (run / "metrics.jsonl").write_text(
        '{"kind": "step", "step": 1, "reward": 0.5, "live_share": 0.5, "dead_low": 0.25, "dead_high": 0.25, '
        '"dead_flat": 0.0, "state_version": 0, "guided_share": 0.0, "rollouts": 8, "labels": 0, "domains": {}}\n'
    )
    assert main(["report", "run", "--out", "page.html"]) == 0
    assert "wrote page.html" in capsys.readouterr().out
    assert "<html" in Path("page.html").read_text()
    assert main(["graph"]) == 0
    text = capsys.readouterr().out
    for node in ("collect", "diagnose", "recall", "evolve", "propose", "critique", "approve", "apply", "remember"):
        assert node in text
