"""What --resume refuses, and what a broken checkpoint or warm policy costs."""

import json

import pytest

from harness_agents.cli import main
from harness_agents.config import HarnessConfig
from harness_agents.config_template import config_yaml
from harness_agents.preflight import check_resume
from harness_agents.train import _last_checkpoint
from rl_core.errors import InputError
from rl_core.run_folder import RunFolder


@pytest.fixture
def run(tmp_path):
    return RunFolder.create(tmp_path / "run", config_text=config_yaml(HarnessConfig()))


def test_a_finished_run_is_not_trained_on(run, tmp_path, capsys):
    run.summary.write_text("{}")
    config = tmp_path / "c.yaml"
    config.write_text("seed: 0\n")
    assert main(["train", str(config), "--out", str(run.path), "--resume"]) == 2
    assert "this run has ended" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "field"), [({"seed": 4}, "seed"), ({"train": {"group_size": 4}}, "train.group_size")]
)
def test_other_settings_are_named(run, change, field):
    check_resume(HarnessConfig(), run.path)
    with pytest.raises(InputError, match="differs from what the run was started with") as e:
        check_resume(HarnessConfig.model_validate(change), run.path)
    assert e.value.field == field


def test_a_cut_checkpoint_is_passed_over(run):
    for step in (10, 35):
        folder = run.checkpoints / f"checkpoint-{step}"
        folder.mkdir()
        for name in ("trainer_state.json", "harness.json"):
            (folder / name).write_text(json.dumps({"step": step}))
    assert _last_checkpoint(run).name == "checkpoint-35"
    (run.checkpoints / "checkpoint-35" / "harness.json").write_text('{"step": 3')
    assert _last_checkpoint(run).name == "checkpoint-10"


def test_rows_of_a_pass_must_divide_a_step(tmp_path, capsys):
    config = tmp_path / "c.yaml"
    config.write_text("train: {rows_per_pass: 3}\n")
    assert main(["train", str(config), "--out", str(tmp_path / "o")]) == 2
    assert "does not divide the 128 rollouts" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_an_unreadable_warm_policy_is_noticed(tmp_path):
    from harness_agents.policies import _readable

    broken = tmp_path / "warm.safetensors"
    broken.write_bytes(b"not weights")
    assert not _readable(broken)
