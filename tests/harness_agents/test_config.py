"""The YAML file: documented in full, checked in full, one clear line when wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from harness_agents.config import HarnessConfig, load_config, parse_config
from harness_agents.config_template import config_yaml
from harness_agents.preflight import preflight
from rl_core.errors import InputError


def write(folder: Path, text: str) -> Path:
    file = folder / "harness.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_template_is_the_defaults(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, config_yaml())) == HarnessConfig()


def test_any_config_survives_its_own_yaml(tmp_path: Path) -> None:
    config = parse_config(
        {
            "seed": 12,
            "prompts": "my: prompts # here",
            "train": {"learning_rate": 1e-7, "steps": 3, "beta": 0},
            "policy": {"model": "yes"},
            "evolver": {"model": "openai/gpt-4o-mini", "api_base": "http://127.0.0.1:8000/v1"},
            "tasks": {"source": "jsonl:" + "very long folder name/" * 20 + "é.jsonl", "limit": 7},
            "updates": {"enabled": False},
        }
    )
    assert load_config(write(tmp_path, config_yaml(config))) == config


def test_every_key_stands_in_the_template_under_a_comment() -> None:
    lines = config_yaml().splitlines()

    def check(model: type[BaseModel], indent: str) -> None:
        for name, field in model.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                at = lines.index(f"{name}:")
                check(inner, "  ")
            else:
                assert field.description, f"{model.__name__}.{name} has no description"
                at = next(i for i, line in enumerate(lines) if line.startswith(f"{indent}{name}: "))
            assert lines[at - 1].startswith(f"{indent if at and lines[at].startswith(' ') else ''}# ")

    check(HarnessConfig, "")


def test_bounds_and_choices_are_said() -> None:
    text = config_yaml()
    assert "(number, > 0, < 1)\n  alpha: 0.05" in text
    assert "(auto | human)\napproval: auto" in text
    assert "(whole number or null, >= 1)\n  limit: null" in text


@pytest.mark.parametrize("text", ["", "# only a comment\n", "{}"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    assert load_config(write(tmp_path, text)) == HarnessConfig()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train: {stps: 3}", r"field 'train.stps': unknown key; did you mean 'steps'\?"),
        ("trian: {steps: 3}", r"field 'trian': unknown key; did you mean 'train'\?"),
        ("zzz: 1", r"field 'zzz': unknown key; known keys: seed, tasks"),
        ("train: {steps: many}", r"field 'train.steps': .*integer.*'many'"),
        ("train: {steps: 2.5}", r"field 'train.steps': .*integer"),
        ("train: {steps: true}", r"field 'train.steps': true or false is not a value"),
        ("train: {steps: 0}", r"field 'train.steps': .*greater than or equal to 1"),
        ("train: {learning_rate: .inf}", r"field 'train.learning_rate': .*finite"),
        ("train: {learning_rate: .nan}", r"field 'train.learning_rate'"),
        ("train: 3", r"field 'train': "),
        ("approval: maybe", r"field 'approval': .*'auto' or 'human'"),
        ("gate: {min_pairs: 90}", r"field 'gate': min_pairs \(90\) is above max_pairs \(60\)"),
        ("guidance: {ratio_floor: 2}", r"field 'guidance': ratio_floor \(2\) is above ratio_cap \(1\)"),
        ("seed: -1", r"field 'seed'"),
        ("- a\n- b", r"must be a mapping"),
        ("seed: 1\nseed: 2", r"line 2: not valid YAML \(duplicate key 'seed'\)"),
        ("train:\n  steps: 1\n  steps: 2", r"line 3: .*duplicate key 'steps'"),
        ("seed: [1", r"not valid YAML"),
        ("? [1, 2]\n: 3", r"not valid YAML"),
        ("seed: !!python/object/apply:os.getcwd []", r"not valid YAML"),
        ("1: 2", r"field '1'"),
        ("prompts: |\n  a\n  b\ntrain: {steps: |\n  x}", r"harness.yaml"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_field_and_mend(tmp_path: Path, text: str, expected: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError, match=expected) as error:
        load_config(file)
    message = str(error.value)
    assert message.startswith(str(file))
    assert "\n" not in message
    assert error.value.mend


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"seed: 1 # \xe9")
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path / "latin.yaml")


def test_preflight_takes_the_defaults_and_the_world_reference() -> None:
    preflight(HarnessConfig())
    preflight(parse_config({"reference": {"model": "world"}, "evolver": {"model": "ollama_chat/llama3.2:3b"}}))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"policy": {"model": "gtp2"}}, r"field 'policy.model': unknown model 'gtp2'"),
        ({"policy": {"model": "smollm"}, "tasks": {"source": "jsonl:none.jsonl"}}, r"'tasks.source': no such file"),
        ({"tasks": {"source": "ifeval:none.jsonl"}}, r"'tasks.source': no such file.*--tasks ifeval:PATH"),
        ({"tasks": {"source": "csv:rows.csv"}}, r"'tasks.source': unknown source"),
        ({"tasks": {"source": "ifeval"}}, r"'tasks.source': unknown source"),
        ({"evolver": {"model": "rulez"}}, r"'evolver.model': unknown model 'rulez'; use 'rules' or"),
        ({"critic": {"model": "gpt"}}, r"'critic.model'"),
        ({"reference": {"model": "gold"}}, r"'reference.model': unknown model 'gold'"),
        ({"prompts": "no/such/folder"}, r"'prompts': no such folder"),
    ],
)
def test_preflight_names_what_is_not_there(data: dict[str, object], expected: str) -> None:
    with pytest.raises(InputError, match=expected) as error:
        preflight(parse_config(data), where="h.yaml")
    assert str(error.value).startswith("h.yaml, ")


def test_preflight_keeps_world_parts_to_the_world(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    source = {"source": f"jsonl:{rows}"}
    with pytest.raises(InputError, match="microworld policy reads only"):
        preflight(parse_config({"tasks": source}))
    (tmp_path / "config.json").write_text("{}")
    policy = {"model": str(tmp_path)}
    preflight(parse_config({"tasks": source, "policy": policy}))
    with pytest.raises(InputError, match="reference of the microworld only"):
        preflight(parse_config({"tasks": source, "policy": policy, "reference": {"model": "world"}}))
