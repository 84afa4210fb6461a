from __future__ import annotations

import inspect
import json
import logging
import math
import random
import subprocess
import sys
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("trl")

import torch
from conftest_adapters import FakeHarness, make_model, make_tasks
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from rl_core.adapters import trl as adapter
from rl_core.adapters.guided_loss import separate_advantages
from rl_core.adapters.loop import LoopHarness
from rl_core.adapters.trl import (
    AttachOptions,
    GuidedLoss,
    RubricReward,
    attach,
    harness_dataset,
    load_harness,
)
from rl_core.adapters.trl_callback import HarnessUpdateError
from rl_core.errors import InputError
from rl_core.rollout import advantages, groups_of

G, GROUPS = 4, 3


def config(tmp_path, **kw):
    base = {
        "output_dir": str(tmp_path / "out"),
        "per_device_train_batch_size": G * GROUPS,
        "num_generations": G,
        "max_steps": 3,
        "max_completion_length": 6,
        "gradient_accumulation_steps": 1,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "seed": 1,
        "disable_tqdm": True,
    }
    return GRPOConfig(**(base | kw))


def build(
    tmp_path,
    tokenizer,
    harness,
    *,
    loss=None,
    options=None,
    resume_from=None,
    callbacks=None,
    model=None,
    trainer_kw=None,
    **kw,
):
    trainer = GRPOTrainer(
        model=model or make_model(tokenizer),
        args=config(tmp_path, **kw),
        reward_funcs=RubricReward(harness),
        train_dataset=harness_dataset(harness),
        processing_class=tokenizer,
        callbacks=callbacks,
        **(trainer_kw or {}),
    )
    return attach(trainer, harness, loss=loss, options=options, resume_from=resume_from)


def spy(trainer):
    """Record what generation was given and what the loss got, batch by batch."""
    seen = defaultdict(list)
    cls = type(trainer)
    stock = cls.__mro__[2]  # below the mixin

    class Spy(stock):
        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            bound = inspect.signature(GRPOTrainer._generate_single_turn).bind(self, prompt_ids, *args, **kwargs)
            seen["n"].append(bound.arguments["num_generations"])
            seen["generated"].append([tokenizer_of(self).decode(ids) for ids in prompt_ids])
            return super()._generate_single_turn(prompt_ids, *args, **kwargs)

        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            seen["rows"].append(inputs)
            seen["training"].append(self.model.training)
            seen["stock_advantages"].append(output["advantages"].tolist())
            seen["output"].append(output)
            return output

    trainer.__class__ = type(cls.__name__, (cls.__mro__[1], Spy), {})
    return seen


def tokenizer_of(trainer):
    return trainer.processing_class


def decode_loss_prompts(trainer, output):
    tok = tokenizer_of(trainer)
    return [tok.decode(ids[mask.bool()]) for ids, mask in zip(output["prompt_ids"], output["prompt_mask"], strict=True)]


def weights(trainer):
    return {k: v.clone() for k, v in trainer.accelerator.unwrap_model(trainer.model).state_dict().items()}


def same(a, b):
    return all(torch.equal(v, b[k]) for k, v in a.items())


# -- the loop's contract --------------------------------------------------------------------------------


def test_the_fake_fits_the_protocol():
    assert isinstance(FakeHarness(make_tasks()), LoopHarness)


def test_plain_run_draws_scores_and_observes_whole_groups(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks())
    trainer = build(tmp_path, tokenizer, harness)
    trainer.train()
    assert [s for s, _ in harness.draws] == [0, 1, 2]
    assert [ids for ids, _, _ in harness.score_calls] == [ids for _, ids in harness.draws]
    assert all(sizes == [G] * GROUPS and v == 0 for _, sizes, v in harness.score_calls)
    groups = groups_of(harness.rollouts)
    assert [g.id for g in groups] == [f"{s}-{i}" for s in range(3) for i in range(GROUPS)]
    assert [g.task_id for g in groups] == [t for _, ids in harness.draws for t in ids]
    assert all({r.task_id for r in g.rollouts} == {g.task_id} and len(g.rollouts) == G for g in groups)
    first = harness.rollouts[0]
    assert (first.id, first.phase, first.policy_version, first.guidance_id) == ("0-0-0", "train", 0, None)
    assert first.logprob is None
    assert first.logprob_plain is None
    assert set(first.verdicts) == {f"even-{first.task_id[1:]}", f"third-{first.task_id[1:]}"}
    for r in harness.rollouts:
        assert 1 <= r.tokens <= 6
        assert not r.truncated or r.tokens == 6
    assert any(r.truncated for r in harness.rollouts)
    logged = [h for h in trainer.state.log_history if "rubric/even" in h]
    of_step = [r.verdicts[f"even-{r.task_id[1:]}"].value for r in harness.rollouts if r.step == 0]
    assert logged[0]["rubric/even"] == pytest.approx(sum(of_step) / len(of_step), abs=1e-4)
    assert "rewards/rubric/mean" in logged[0]
    assert not trainer._logs["extra"]


def test_late_binding_has_no_lag_and_groups_stay_whole(tmp_path, tokenizer):
    def narrow(harness, step, policy):
        harness.allowed = ["t0", "t1", "t2"]
        harness.advance()

    harness = FakeHarness(make_tasks(), updates=[2], update=narrow)
    trainer = build(tmp_path, tokenizer, harness, max_steps=4)
    seen = spy(trainer)
    trainer.train()
    by_step = {s: {r.task_id for r in harness.rollouts if r.step == s} for s in range(4)}
    assert by_step[2] | by_step[3] == {"t0", "t1", "t2"}
    assert not (by_step[0] | by_step[1]) <= {"t0", "t1", "t2"}
    assert [v for _, _, v in harness.score_calls] == [0, 0, 1, 1]
    assert [{r.harness_version for r in g.rollouts} for g in groups_of(harness.rollouts)] == [{0}] * 6 + [{1}] * 6
    for rows in seen["rows"]:
        for k in range(0, len(rows), G):
            assert len({r["task_id"] for r in rows[k : k + G]}) == 1


@pytest.mark.parametrize(
    ("accumulate", "per_generation", "iterations", "drawn", "groups"),
    [
        (2, 1, 1, [(0, 6), (1, 6)], 6),
        (2, 2, 1, [(0, 6), (1, 6)], 6),
        (1, 1, 2, [(0, 3)], 3),
        (3, 2, 1, None, None),
    ],
)
def test_every_batch_layout_draws_once_a_step(
    tmp_path, tokenizer, accumulate, per_generation, iterations, drawn, groups
):
    harness = FakeHarness(make_tasks())
    build(
        tmp_path,
        tokenizer,
        harness,
        max_steps=2,
        gradient_accumulation_steps=accumulate,
        steps_per_generation=per_generation,
        num_iterations=iterations,
    ).train()
    steps = [s for s, _ in harness.draws]
    assert len(steps) == len(set(steps))
    ids = [r.id for r in harness.rollouts]
    assert len(ids) == len(set(ids))
    for g in groups_of(harness.rollouts):
        step, i = map(int, g.id.split("-"))
        assert g.task_id == dict(harness.draws)[step][i]
        assert len(g.rollouts) == G
    if drawn is not None:
        assert [(s, len(ids)) for s, ids in harness.draws] == drawn
        assert len(groups_of(harness.rollouts)) == groups * len(drawn)


# -- guided generation, unguided loss -------------------------------------------------------------------


@pytest.mark.parametrize("chat", [False, True])
def test_generation_sees_the_hint_and_the_loss_does_not(tmp_path, tokenizer, chat):
    harness = FakeHarness(make_tasks(chat=chat), hint="hint w30 w31")
    trainer = build(tmp_path, tokenizer, harness, max_steps=1)
    seen = spy(trainer)
    trainer.train()
    guided = [r.guidance_id is not None for r in harness.rollouts]
    assert guided == [True, True, False, False] * GROUPS
    assert ["hint w30 w31" in text for text in seen["generated"][0]] == guided
    plain = decode_loss_prompts(trainer, seen["output"][0])
    assert not any("hint" in text for text in plain)
    for rollout, text in zip(harness.rollouts, plain, strict=True):
        assert harness.tasks[rollout.task_id].prompt_text in text
    assert seen["n"] == [1]
    assert trainer.state.log_history[0]["harness/guided_share"] == 0.5


def test_without_hints_generation_keeps_trls_arguments(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks())
    trainer = build(tmp_path, tokenizer, harness, max_steps=1)
    seen = spy(trainer)
    trainer.train()
    assert seen["n"] == [G]
    assert seen["generated"][0] == decode_loss_prompts(trainer, seen["output"][0])


def exact_logprob(model, tokenizer, prompt, answer_ids):
    ids = tokenizer(prompt)["input_ids"]
    with torch.no_grad():
        logp = torch.log_softmax(model(torch.tensor([ids + answer_ids])).logits[0].double(), -1)
    at = range(len(ids) - 1, len(ids) + len(answer_ids) - 1)
    return sum(float(logp[t, a]) for t, a in zip(at, answer_ids, strict=True)) / len(answer_ids)


@pytest.mark.parametrize(
    ("loss", "masked"),
    [
        (GuidedLoss(ratio_cap=50.0), False),
        (GuidedLoss(ratio_cap=1.0, ratio_floor=0.9), True),
        (GuidedLoss(importance="none"), False),
    ],
)
def test_advantages_of_guided_rows_are_scaled_by_the_ratio(tmp_path, tokenizer, loss, masked):
    harness = FakeHarness(make_tasks(), hint="hint w30 w31")
    trainer = build(
        tmp_path, tokenizer, harness, max_steps=1, loss=loss, learning_rate=0.0, mask_truncated_completions=masked
    )
    seen = spy(trainer)
    final = []
    whole = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: final.append(whole(inputs)) or final[-1]
    trainer.train()
    model, output = trainer.accelerator.unwrap_model(trainer.model), seen["output"][0]
    moved = 0
    for k, r in enumerate(harness.rollouts):
        before, after = seen["stock_advantages"][0][k], float(final[0]["advantages"][k])
        if r.guidance_id is None:
            assert after == before
            assert (r.logprob, r.logprob_plain) == (None, None)
            continue
        answer = output["completion_ids"][k][: r.tokens].tolist()
        plain_prompt = harness.tasks[r.task_id].prompt_text
        plain = exact_logprob(model, tokenizer, plain_prompt, answer)
        guided = exact_logprob(model, tokenizer, f"hint w30 w31 {plain_prompt}", answer)
        assert r.logprob_plain == pytest.approx(plain, abs=1e-4)
        assert r.logprob == pytest.approx(guided, abs=1e-4)
        c = 1.0 if loss.importance == "none" else min(max(math.exp(plain - guided), loss.ratio_floor), loss.ratio_cap)
        assert after == pytest.approx(c * before, rel=1e-3, abs=1e-6)
        moved += abs(c - 1) > 0.01
    assert moved or loss.importance == "none"
    logged = trainer.state.log_history[0]
    assert logged["harness/ratio_mean"] <= loss.ratio_cap


def test_separate_baselines_never_compare_guided_with_plain(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks(), hint="hint w30 w31", withheld=lambda text: "w7" in text)
    trainer = build(tmp_path, tokenizer, harness, max_steps=1, loss=GuidedLoss("none", baseline="separate"))
    final = []
    whole = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: final.append(whole(inputs)) or final[-1]
    trainer.train()
    rewards = [r.reward for r in harness.rollouts]
    expected = separate_advantages(rewards, [r.guidance_id is not None for r in harness.rollouts], G, scale="group")
    assert final[0]["advantages"].tolist() == pytest.approx(expected, abs=1e-3)
    assert any(abs(a) > 0.1 for a in expected)


def test_shared_baseline_is_trls_own(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks(), hint="hint w30 w31")
    trainer = build(tmp_path, tokenizer, harness, max_steps=1, loss=GuidedLoss("none"))
    seen = spy(trainer)
    trainer.train()
    expected = [a for g in groups_of(harness.rollouts) for a in advantages(g.rewards)]
    assert seen["stock_advantages"][0] == pytest.approx(expected, abs=1e-3)


# -- rewards ------------------------------------------------------------------------------------------------


def test_withheld_rewards_are_masked_not_zero(tmp_path, tokenizer, caplog):
    harness = FakeHarness(make_tasks(), withheld=lambda text: "w7" in text or "w2" in text)
    trainer = build(tmp_path, tokenizer, harness, max_steps=3)
    seen = spy(trainer)
    with caplog.at_level(logging.ERROR):
        trainer.train()
    flat = [a for step in seen["stock_advantages"] for a in step]
    missing = [k for k, r in enumerate(harness.rollouts) if r.reward is None]
    assert missing
    assert all(flat[k] == 0.0 for k in missing)
    expected = [a for g in groups_of(harness.rollouts) for a in advantages(g.rewards)]
    assert flat == pytest.approx(expected, abs=1e-3)


def test_evaluation_is_untouched(tmp_path, tokenizer):
    harness, extra = FakeHarness(make_tasks(4), hint="hint w30"), make_tasks(8)
    reward = RubricReward(harness, tasks=extra)
    trainer = GRPOTrainer(
        model=make_model(tokenizer),
        reward_funcs=reward,
        train_dataset=harness_dataset(harness),
        args=config(tmp_path, max_steps=2, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8),
        eval_dataset=harness_dataset(extra, min_rows=0),
        processing_class=tokenizer,
    )
    attach(trainer, harness)
    seen = spy(trainer)
    trainer.train()
    evals = [k for k, training in enumerate(seen["training"]) if not training]
    assert len(evals) == 8  # two evaluations of 8 tasks x 4 rows in batches of 8
    assert not any("hint" in text for k in evals for text in seen["generated"][k])
    asked = [r["task_id"] for k in evals[:4] for r in seen["rows"][k]]
    assert sorted(asked) == sorted(t for t in extra.ids for _ in range(G))
    assert len(harness.rollouts) == 2 * G * GROUPS
    assert [s for s, _ in harness.draws] == [0, 1]
    assert any("eval_rubric/even" in h for h in trainer.state.log_history)


def test_facade_needs_known_task_ids():
    harness = FakeHarness(make_tasks())
    reward = RubricReward(harness)
    assert reward.__name__ == "rubric"
    assert reward(completions=["w2", "w3", "w4"], task_id=["t0", "t0", "t1"]) == pytest.approx([2 / 3, 1 / 3, 2 / 3])
    assert harness.score_calls == [(["t0", "t1"], [2, 1], 0)]
    with pytest.raises(InputError, match="unknown task id 'x'"):
        reward(completions=["w2"], task_id=["x"])
    with pytest.raises(InputError, match="harness_dataset"):
        reward(completions=["w2"])


def test_own_reward_functions_must_be_named(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks())

    def stock(**kw):
        dataset = harness_dataset(harness)
        dataset = dataset.add_column("answer", [f"a-{t}" for t in dataset["task_id"]])
        return GRPOTrainer(
            model=make_model(tokenizer),
            args=config(tmp_path, max_steps=1),
            reward_funcs=own,
            train_dataset=dataset,
            processing_class=tokenizer,
        )

    answers = []

    def own(completions, answer, task_id, **kw):
        answers.extend(zip(answer, task_id, strict=True))
        return [0.25] * len(completions)

    with pytest.raises(InputError, match="rewards='replace'"):
        attach(stock(), harness)
    trainer = attach(stock(), harness, rewards="add")
    trainer.train()
    assert answers
    assert all(a == f"a-{t}" for a, t in answers)  # columns follow the task that was drawn
    log = trainer.state.log_history[0]
    assert log["rewards/own/mean"] == 0.25
    assert log["reward"] == pytest.approx(0.25 + log["rewards/rubric/mean"], abs=1e-3)
    trainer = attach(stock(), harness, rewards="replace")
    assert trainer.reward_func_names == ["rubric"]


# -- harness updates ----------------------------------------------------------------------------------------


def test_probes_leave_training_bit_identical(tmp_path, tokenizer):
    noted = {}

    def probe(harness, step, policy):
        model = policy._model
        noted["before"] = {k: v.clone() for k, v in model.state_dict().items()}
        texts = policy.generate(["task w1", "hint task w2 w3"], n=3, seed=step)
        policy.logprobs(["task w1"], [texts[0][0].text])
        noted["same"] = same(noted["before"], model.state_dict())
        noted["version"], noted["tokens"] = policy.version, [c.tokens for c in texts[0]]
        torch.rand(3), np.random.rand(3), random.random()
        random.seed(9), np.random.seed(9), torch.manual_seed(9)

    def run(folder, **kw):
        harness = FakeHarness(make_tasks(), hint="hint w5", **kw)
        trainer = build(tmp_path / folder, tokenizer, harness, max_steps=4, model=make_model(tokenizer, dropout=0.1))
        config_before = trainer.model.generation_config.to_dict()
        trainer.train()
        assert trainer.model.generation_config.to_dict() == config_before
        assert trainer.model.training
        return weights(trainer), [r.completion for r in harness.rollouts], random.random(), np.random.rand()

    without, with_probes = run("a"), run("b", updates=[1, 3], update=probe)
    assert noted["same"]
    assert noted["version"] == 3
    assert max(noted["tokens"]) <= 6
    assert same(without[0], with_probes[0])
    assert without[1:] == with_probes[1:]


def test_strict_failure_stops_and_lax_failure_does_not(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks(), updates=[1], error="judge is down")
    trainer = build(tmp_path, tokenizer, harness, max_steps=3)
    trainer.train()
    assert trainer.state.global_step == 3
    assert trainer._hv_callback.last.error == "judge is down"
    harness = FakeHarness(make_tasks(), updates=[1], error="judge is down")
    trainer = build(tmp_path, tokenizer, harness, max_steps=3, options=AttachOptions(strict=True))
    with pytest.raises(HarnessUpdateError, match="step 1 failed: judge is down"):
        trainer.train()
    assert trainer.state.global_step == 1


def test_resume_gives_the_same_draws_and_answers(tmp_path, tokenizer):
    def narrow(harness, step, policy):
        harness.allowed = harness.allowed[:5]
        harness.advance()

    def fresh(folder, **kw):
        harness = FakeHarness(make_tasks(), hint="hint w5", updates=[2], update=narrow)
        return harness, build(
            tmp_path / folder, tokenizer, harness, options=AttachOptions(save_at_updates=True), max_steps=4, **kw
        )

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **kw):
            control.should_training_stop = state.global_step == 3

    whole, trainer = fresh("a")
    trainer.train()
    expected = weights(trainer)
    _, trainer = fresh("b", callbacks=[Stop()])
    trainer.train()
    checkpoint = tmp_path / "b" / "out" / "checkpoint-2"
    saved = json.loads((checkpoint / "harness.json").read_text())
    assert saved == {"version": 1, "allowed": [f"t{i}" for i in range(5)], "hint": "hint w5"}

    resumed, trainer = fresh("b")
    trainer.train(resume_from_checkpoint=str(checkpoint))
    assert resumed.draws == whole.draws[2:]
    tail = [r for r in whole.rollouts if r.step >= 2]
    assert [(r.id, r.completion, r.harness_version) for r in resumed.rollouts] == [
        (r.id, r.completion, r.harness_version) for r in tail
    ]
    assert same(expected, weights(trainer))

    by_hand, trainer = fresh("c", resume_from=checkpoint)
    assert by_hand.state.version == 1
    by_hand.load_state_dict({"version": 9, "allowed": ["t1"], "hint": None})
    load_harness(checkpoint, by_hand)
    assert (by_hand.state.version, by_hand.hint) == (1, "hint w5")
    with pytest.raises(InputError, match="with the harness attached"):
        load_harness(tmp_path, by_hand)
    (checkpoint / "harness.json").write_text("{")
    with pytest.raises(InputError, match="another checkpoint"):
        load_harness(checkpoint, by_hand)


def test_the_harness_config_sets_loss_and_strictness(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks())
    harness.config = SimpleNamespace(
        strict=True,
        guidance=SimpleNamespace(template="x", importance="none", ratio_cap=0.7, ratio_floor=0.1, baseline="separate"),
    )
    trainer = build(tmp_path, tokenizer, harness)
    assert trainer._hv_loss == GuidedLoss("none", 0.7, 0.1, "separate")
    assert trainer._hv_callback._strict
    harness.config = None
    trainer = build(tmp_path, tokenizer, harness)
    assert trainer._hv_loss == GuidedLoss()
    assert not trainer._hv_callback._strict


# -- refusals -----------------------------------------------------------------------------------------------


def test_attach_refuses_what_it_cannot_do(tmp_path, tokenizer, monkeypatch):
    harness = FakeHarness(make_tasks())
    with pytest.raises(InputError, match="not a GRPOTrainer"):
        attach(object(), harness)
    trainer = build(tmp_path, tokenizer, harness)
    with pytest.raises(InputError, match="has a harness already"):
        attach(trainer, harness)

    def stock(**kw):
        return GRPOTrainer(
            model=make_model(tokenizer),
            args=config(tmp_path, **kw),
            reward_funcs=RubricReward(harness),
            train_dataset=harness_dataset(harness),
            processing_class=tokenizer,
        )

    with pytest.raises(InputError, match="another harness"):
        attach(stock(), FakeHarness(make_tasks()))
    with pytest.raises(InputError, match="sum_then_normalize"):
        attach(stock(multi_objective_aggregation="normalize_then_sum"), harness, loss=GuidedLoss(baseline="separate"))
    trainer = stock()
    trainer.rollout_func = lambda prompts, trainer: {}
    with pytest.raises(InputError, match="rollout_func"):
        attach(trainer, harness)
    trainer = stock()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="2 processes"):
        attach(trainer, harness)


def test_dataset_shape():
    rows = harness_dataset(make_tasks(5), min_rows=12)
    assert len(rows) == 15
    assert rows[0] == {"prompt": "task w0 say w1 w3", "task_id": "t0"}
    assert len(harness_dataset(make_tasks(5), min_rows=0)) == 5
    chat = harness_dataset(make_tasks(2, chat=True), min_rows=0)
    assert chat[1]["prompt"] == [{"role": "user", "content": "task w1 say w2"}]
    mixed = [next(iter(make_tasks(1))), next(iter(make_tasks(1, chat=True)))]
    with pytest.raises(InputError, match="mixed"):
        harness_dataset(mixed)


def test_ready_made_trainer_class(tmp_path, tokenizer):
    harness = FakeHarness(make_tasks(), hint="hint w5")
    trainer = adapter.HarnessGRPOTrainer(
        harness, model=make_model(tokenizer), args=config(tmp_path, max_steps=1), processing_class=tokenizer
    )
    trainer.train()
    assert len(harness.rollouts) == G * GROUPS
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = adapter.Nothing


# -- what we lean on ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("_generate_and_score_completions", ["self", "inputs"]),
        ("_generate_single_turn", ["self", "prompt_ids", "images", "multimodal_fields", "num_generations"]),
        ("_tokenize_prompts", ["self", "prompts"]),
        ("_calculate_rewards", ["self", "inputs", "prompts", "completions", "completion_ids_list"]),
        (
            "_get_per_token_logps_and_entropies",
            ["self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"],
        ),
        ("train", ["self", "resume_from_checkpoint"]),
    ],
)
def test_private_methods_still_take_what_we_pass(name, needed):
    assert list(inspect.signature(getattr(GRPOTrainer, name)).parameters)[: len(needed)] == needed


def test_private_attributes_are_still_there(tmp_path, tokenizer):
    trainer = build(tmp_path, tokenizer, FakeHarness(make_tasks()))
    for name in (
        "_metrics",
        "_tokenizer",
        "eos_token_ids",
        "num_generations",
        "num_iterations",
        "reward_funcs",
        "reward_func_names",
        "reward_processing_classes",
        "reward_weights",
        "scale_rewards",
        "rollout_func",
        "tools",
        "environment_factories",
        "multi_objective_aggregation",
        "max_completion_length",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "chat_template",
        "chat_template_kwargs",
    ):
        assert hasattr(trainer, name), name
    assert trainer.args.steps_per_generation == 1


def test_importing_the_adapter_is_light():
    code = (
        "import sys, rl_core.adapters.trl, rl_core.adapters.hf_policy\n"
        "print(*[m for m in ('torch', 'trl', 'transformers', 'datasets') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""
