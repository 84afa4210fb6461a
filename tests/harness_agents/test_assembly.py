"""Parts that do not fit are refused when a harness is built; secrets stay out of notes."""

from __future__ import annotations

from typing import Any

import pytest

from harness_agents.assembly import build_reference, build_scorer
from harness_agents.config import ReferenceConfig
from harness_agents.masking import mask_secrets
from harness_agents.templates import Templates
from rl_core.errors import InputError


def test_a_judge_or_reference_without_its_method_is_refused(toy: Any) -> None:
    wrong: Any = object()
    with pytest.raises(InputError, match="judge"):
        build_scorer(wrong, toy.tasks)
    with pytest.raises(InputError, match="reference"):
        build_reference(ReferenceConfig(), Templates(), given=wrong)


def test_score_wants_lists_of_completions(toy: Any) -> None:
    with toy.harness() as harness:
        for wrong in (["text"], "t"):
            with pytest.raises(InputError, match="completions"):
                harness.score(list(toy.tasks)[:1], wrong)


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "held-in-env")
    text = "sk-abcdef Bearer tok123 api_key='zzz999' held-in-env mine task-12345"
    got = mask_secrets(text, ["mine"])
    assert got == "sk-*** Bearer *** api_key='***' *** *** task-12345"
