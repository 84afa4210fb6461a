from __future__ import annotations

import math

import pytest

from rl_core.adapters.guided_loss import GuidedLoss, neutralise_vllm_correction, ratio, separate_advantages
from rl_core.errors import InputError


def test_ratio_is_the_length_normalised_likelihood_ratio_within_bounds():
    free = GuidedLoss(ratio_cap=100.0)
    assert ratio(-2.0, -1.0, free) == pytest.approx(math.exp(-1.0))
    assert ratio(-1.0, -2.0, free) == pytest.approx(math.e)
    assert ratio(-1.0, -2.0, GuidedLoss()) == 1.0
    assert ratio(-9.0, -1.0, GuidedLoss(ratio_floor=0.2)) == 0.2
    assert ratio(-9.0, -1.0, GuidedLoss(importance="none")) == 1.0
    assert ratio(0.0, -1e6, free) == 100.0


def test_unknown_log_probs_leave_the_gradient():
    assert ratio(float("nan"), -1.0, GuidedLoss(ratio_floor=0.5)) == 0.0
    assert ratio(-1.0, -math.inf, GuidedLoss()) == 0.0


def test_separate_baselines_by_hand():
    rewards = [1.0, 0.8, 0.2, 0.0, 0.5, 0.5, None, 0.3]
    guided = [True, True, False, False, True, True, False, False]
    assert separate_advantages(rewards, guided, 4, scale="none") == pytest.approx(
        [0.1, -0.1, 0.1, -0.1, 0.0, 0.0, 0.0, 0.0]
    )
    sd = 0.2 / math.sqrt(2)
    by_group = separate_advantages(rewards, guided, 4, scale="group")
    assert by_group[:4] == pytest.approx([0.1 / (sd + 1e-4), -0.1 / (sd + 1e-4)] * 2)
    known = [r for r in rewards if r is not None]
    mean = sum(known) / 7
    whole = math.sqrt(sum((r - mean) ** 2 for r in known) / 6)
    assert separate_advantages(rewards, guided, 4, scale="batch")[0] == pytest.approx(0.1 / (whole + 1e-4))


def test_vllm_correction_spares_guided_rows():
    torch = pytest.importorskip("torch")
    output = {
        "importance_sampling_ratio": torch.tensor([[0.0], [0.9]]),
        "sampling_per_token_logps": torch.tensor([[-9.0, -9.0], [-1.0, -2.0]]),
        "old_per_token_logps": torch.tensor([[-3.0, -3.0], [-1.1, -2.1]]),
    }
    neutralise_vllm_correction(output, torch.tensor([0]))
    assert output["importance_sampling_ratio"].tolist() == [[1.0], [pytest.approx(0.9)]]
    assert output["sampling_per_token_logps"][0].tolist() == [-3.0, -3.0]
    assert output["sampling_per_token_logps"][1].tolist() == [-1.0, -2.0]
    neutralise_vllm_correction({}, torch.tensor([0]))  # nothing to do without vLLM


@pytest.mark.parametrize(
    ("kw", "field"),
    [
        ({"importance": "full"}, "importance"),
        ({"baseline": "both"}, "baseline"),
        ({"ratio_floor": 2.0}, "ratio_cap"),
        ({"ratio_cap": 0.0}, "ratio_cap"),
        ({"ratio_cap": math.inf}, "ratio_cap"),
    ],
)
def test_bad_settings_are_named(kw, field):
    with pytest.raises(InputError, match=field):
        GuidedLoss(**kw)
