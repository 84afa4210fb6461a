"""Harness on real LangGraph, sqlite and Chroma: the calls of a loop, updates, failures, approval, rollback, budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness_agents.agents.protocols import Attribution, Proposal
from harness_agents.doses import DoseBook
from harness_agents.harness import Harness
from rl_core.edits import GuidanceAdd, GuidanceItem, RubricComposite, Scope, parse_edit
from rl_core.errors import InputError
from rl_core.policy import Capabilities
from rl_core.rollout import Rollout
from rl_core.rubric import Criterion, Rubric
from rl_core.run_folder import read_jsonl
from rl_core.state import HarnessState, candidate
from rl_core.task import Task, TaskSet


def test_a_run_repairs_all_three_interfaces(toy: Any, tmp_path: Path) -> None:
    with toy.harness(tmp_path / "run") as harness:
        outcomes = toy.train(harness, 14)
        first = outcomes[0]
        assert first.error is None
        assert {d["interface"] for o in outcomes for d in o.accepted} == {"sampler", "guidance", "rubric"}
        assert first.state_version == 1
        assert harness.state.version == outcomes[-1].state_version
        composite = harness.state.rubric[0]
        assert composite.multipliers["long"] == 0.0  # the shortcut is retired
        assert [c.id for c in composite.added] == ["cat.wrong"]  # what gold punishes and no rubric saw
        assert composite.added[0].weight < 0
        counts = harness.counts()
    assert counts["train_rollouts"] == 14 * toy.groups * 8
    assert counts["probe_rollouts"] == sum(o.probe_rollouts for o in outcomes) > 0
    ledger = read_jsonl(tmp_path / "run" / "ledger.jsonl")
    assert [r["status"] for r in ledger if r["update"] == 1].count("accepted") == len(first.accepted)
    assert all(r["figures"]["e_value"] >= r["figures"]["threshold"] for r in ledger if r["status"] == "accepted")
    assert {r["state_version"] for r in ledger if r["status"] == "accepted" and r["update"] == 1} == {1}
    file = tmp_path / "run" / "states" / f"v{harness.state.version:04d}.json"
    assert HarnessState.from_json(file.read_text()) == harness.state
    metrics = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    steps = [m for m in metrics if m["kind"] == "step"]
    assert [m["step"] for m in steps] == list(range(14))
    assert steps[0]["state_version"] == 0
    assert steps[-1]["state_version"] == harness.state.version
    assert steps[0]["guided_share"] == 0
    assert max(m["guided_share"] for m in steps) > 0
    assert set(steps[0]["domains"]) == {"ok", "easy", "hard"}
    assert [m["update"] for m in metrics if m["kind"] == "update"] == [1, 2]


def test_same_seed_same_ledger_and_state(toy: Any, tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        with toy.harness(tmp_path / name) as harness:
            toy.train(harness, 7)
            texts.append(((tmp_path / name / "ledger.jsonl").read_text(), harness.state.to_json()))
    assert texts[0] == texts[1]


def test_fast_calls_are_pure(toy: Any) -> None:
    with toy.harness() as harness:
        assert [t.id for t in harness.draw(16, 3)] == [t.id for t in harness.draw(16, 3)]
        assert [t.id for t in harness.draw(16, 3)] != [t.id for t in harness.draw(16, 4)]
        task = toy.tasks["ok-1"]
        (scored,) = harness.score([task], [["w1 pad pad pad", "w1", "other"]])
        assert [s.reward for s in scored] == [1.0, pytest.approx(1 / 3), 0.0]
        assert set(scored[0].verdicts) == {"ok-1-fact", "ok-1-long"}
        with pytest.raises(InputError, match="no state version 7"):
            harness.score([task], [["x"]], 7)


def test_due_follows_the_schedule_once(toy: Any) -> None:
    with toy.harness() as harness:
        assert [s for s in range(20) if harness.due(s)] == [6, 12, 18]
        toy.train(harness, 6)
        assert not harness.due(6)
    with toy.harness(updates={"enabled": False}) as harness:
        assert not any(harness.due(s) for s in range(50))


def test_old_versions_still_score_after_an_update(toy: Any) -> None:
    with toy.harness() as harness:
        toy.train(harness, 7)
        task, texts = toy.tasks["ok-1"], [["other pad pad pad", "w1"]]
        old, new = harness.score([task], texts, 0)[0], harness.score([task], texts)[0]
    assert old[0].reward > old[1].reward  # the shortcut paid
    assert new[0].reward < new[1].reward


# ---- failures


class _Broken:
    name = "broken"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def values(self, task: Task, completions: Any) -> list[float | None]:
        raise self.error


def test_a_failing_update_changes_nothing_and_is_remembered(toy: Any, tmp_path: Path) -> None:
    with toy.harness(tmp_path / "run", reference=_Broken(RuntimeError("server gone"))) as harness:
        outcomes = toy.train(harness, 13)
        assert [o.error for o in outcomes] == ["RuntimeError: server gone"] * 2
        assert harness.state.version == 0
        assert harness.counts()["updates"] == 2
        assert [r.outcome for r in harness.memory.records()] == ["update-failed"] * 2
    updates = [m for m in read_jsonl(tmp_path / "run" / "metrics.jsonl") if m["kind"] == "update"]
    assert [m["error"] for m in updates] == ["RuntimeError: server gone"] * 2


def test_a_reference_that_cannot_judge_gives_no_edit_on_the_rubric(toy: Any) -> None:
    class Blank:
        name = "blank"

        def values(self, task: Task, completions: Any) -> list[float | None]:
            return [None] * len(completions)

    with toy.harness(reference=Blank()) as harness:
        (outcome,) = toy.train(harness, 6)
    assert outcome.error is None
    assert outcome.accepted == []


def test_a_policy_that_fails_makes_edits_inconclusive(toy: Any) -> None:
    class Failing(toy.Policy):  # type: ignore[misc]  # the class comes from a fixture
        broken = False

        def generate(self, *args: Any, **more: Any) -> Any:
            if self.broken:
                raise ConnectionError("no server")
            return super().generate(*args, **more)

    policy = Failing()
    with toy.harness() as harness:
        toy.train(harness, 6 - 1, policy)
        toy.step(harness, policy, 5)
        policy.broken = True
        outcome = harness.checkpoint(6, policy)
    assert outcome.error is None
    by_interface = {d["interface"]: d["status"] for d in outcome.decisions}
    assert by_interface["rubric"] == "accepted"  # needs no rollout
    assert by_interface["guidance"] == "inconclusive"


def test_no_rollouts_is_a_quiet_update(toy: Any) -> None:
    with toy.harness() as harness:
        outcome = harness.checkpoint(6, toy.Policy())
    assert outcome.error is None
    assert outcome.healthy
    assert outcome.notes == ["no rollouts since the last update"]


# ---- without a reference


def test_without_a_reference_no_criterion_is_added_or_reweighted(toy: Any) -> None:
    with toy.harness(reference=None) as harness:
        outcomes = toy.train(harness, 13)
        state = harness.state
    assert all(o.error is None for o in outcomes)
    assert state.rubric == ()
    assert harness.counts()["labels"] == 0
    accepted = [d for o in outcomes for d in o.accepted]
    assert accepted
    assert {d["interface"] for d in accepted} <= {"sampler", "guidance"}
    assert all("signal, not validity" in d["reason"] for d in accepted)


def test_a_loop_without_logprobs_gets_no_hints(toy: Any) -> None:
    with toy.harness(capabilities=Capabilities(logprobs=False)) as harness:
        outcomes = toy.train(harness, 13)
        assert harness.state.guidance == ()
    assert not any(d["interface"] == "guidance" for o in outcomes for d in o.decisions)


# ---- labels


def test_label_budget_counts_probes_and_may_borrow_from_the_plan(toy: Any) -> None:
    with toy.harness(reference={"label_budget": 0.01}, planned_rollouts=40_000) as harness:
        toy.train(harness, 13)
        counts = harness.counts()
        assert 0 < counts["labels"] <= 400
        assert harness._services.bank.labels <= counts["labels"]
    with toy.harness(reference={"label_budget": 0.05}, planned_rollouts=0) as harness:
        toy.train(harness, 6)
        counts = harness.counts()
    assert 0 < counts["labels"] <= 0.05 * (counts["train_rollouts"] + counts["probe_rollouts"])


def test_labels_are_front_loaded_then_trickle(toy: Any) -> None:
    with toy.harness(reference={"first_groups": 20, "trickle_groups": 3}, planned_rollouts=10**6) as harness:
        toy.train(harness, 13)
        groups = [e.group for half in ("evidence", "test") for e in harness._services.bank.entries(half, step=12)]
    early = [g for g in groups if g.step < 6]
    late = [g for g in groups if g.step >= 6]
    assert (len(early), len(late)) == (20, 3)
    assert all(len(g.rollouts) == 8 for g in groups)  # labelled whole


# ---- approval


def test_a_human_says_yes_or_no(toy: Any, tmp_path: Path) -> None:
    with toy.harness(tmp_path / "yes", approval="human") as harness:
        (outcome,) = toy.train(harness, 7)
        assert harness.state.version == 0
        assert outcome.pending is not None
        assert "rubric" in {e["interface"] for e in outcome.pending["edits"]}
        assert read_jsonl(tmp_path / "yes" / "ledger.jsonl") == []
        with pytest.raises(InputError, match="not an answer"):
            harness.resume_approval({"approve": 1})
        done = harness.resume_approval({"approved": True, "by": "kim"})
        assert done.pending is None
        assert harness.state.version == 1
        with pytest.raises(InputError, match="no update waits"):
            harness.resume_approval(True)
    with toy.harness(tmp_path / "no", approval="human") as harness:
        toy.train(harness, 7)
        harness.resume_approval({"approved": False, "reason": "too early"})
        assert harness.state.version == 0
    rows = read_jsonl(tmp_path / "no" / "ledger.jsonl")
    assert {r["status"] for r in rows} == {"vetoed"}
    assert "too early" in rows[0]["reason"]


def test_an_update_that_nobody_answers_is_declined_at_the_next(toy: Any) -> None:
    with toy.harness(approval="human") as harness:
        first, second = toy.train(harness, 13)
        assert first.pending
        assert second.pending
        vetoed = [e.edit.model_dump(mode="json") for e in harness._services.ledger.entries if e.status == "vetoed"]
        assert vetoed == [e["edit"] for e in first.pending["edits"]]
        assert harness.state.version == 0


def test_a_waiting_update_survives_a_restart(toy: Any, tmp_path: Path) -> None:
    with toy.harness(tmp_path / "run", approval="human") as harness:
        toy.train(harness, 7)
        saved = json.loads(json.dumps(harness.state_dict()))
    with toy.harness(tmp_path / "run", approval="human") as harness:
        harness.load_state_dict(saved)
        done = harness.resume_approval(True)
        assert harness.state.version == 1
        rows = read_jsonl(tmp_path / "run" / "ledger.jsonl")
        assert [r["edit"] for r in rows if r["status"] == "accepted"] == [d["edit"] for d in done.accepted] != []


# ---- rollback


def test_rollback_makes_a_new_version_and_is_remembered(toy: Any, tmp_path: Path) -> None:
    with toy.harness(tmp_path / "run") as harness:
        (outcome,) = toy.train(harness, 7)
        new = harness.rollback(0, step=7, reason="gold fell")
        assert (new.version, new.parent) == (2, 1)
        assert new.digest == HarnessState().digest
        assert harness.state == new
        rows = [r for r in read_jsonl(tmp_path / "run" / "ledger.jsonl") if r["status"] == "rolled_back"]
        assert [r["edit"] for r in rows] == [d["edit"] for d in outcome.accepted] != []
        assert {r["reason"] for r in rows} == {"gold fell"}
        remembered = {r.key: r.outcome for r in harness.memory.records(kind="edit")}
        assert all(remembered[parse_edit(r["edit"]).key] == "rolled_back" for r in rows)
        with pytest.raises(InputError, match="no state version 9"):
            harness.rollback(9, step=7, reason="x")


# ---- construction


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"evolver": {"model": "gpt"}}, "unknown model 'gpt'"),
        ({"reference": {"model": "world"}}, "'world' is the microworld's reference"),
        ({"updates": {"evry": 3}}, "did you mean 'every'"),
        ({"guidance": {"template": "hints/none.j2"}}, "no template 'hints/none.j2'"),
    ],
)
def test_bad_config_is_one_clear_line(toy: Any, config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Harness.from_config(toy.config(**config), tasks=toy.tasks)
    assert "\n" not in str(caught.value)


def test_a_criterion_without_a_judge_is_refused_at_the_start(toy: Any) -> None:
    tasks = TaskSet([Task(id="t", prompt="p", rubric=Rubric(criteria=(Criterion(id="c", text="is kind"),)))])
    with pytest.raises(InputError, match="needs a judge"):
        Harness.from_config(toy.config(), tasks=tasks)
    with pytest.raises(InputError, match="neither an agent"):
        Harness.from_config(toy.config(), tasks=toy.tasks, evolver=object())


# ---- doses


def _plain(task_id: str, reward: float, n: int = 4) -> list[Rollout]:
    return [
        Rollout(id=f"{task_id}{i}", task_id=task_id, group_id="g", step=1, completion="", reward=reward)
        for i in range(n)
    ]


def test_dose_falls_with_unguided_success_and_a_hint_nobody_needs_is_idle(toy: Any) -> None:
    item = GuidanceItem(id="h", kind="partial_answer", scope=Scope(tasks=("hard-1", "hard-2", "hard-3")), dose=0.5)
    state = candidate(HarnessState(), GuidanceAdd(item=item))
    book = DoseBook(toy.tasks, drop_at=0.6)
    assert book.doses(state) == {}
    book.observe([*_plain("hard-1", 0.3), *_plain("ok-1", 0.9)], state)
    assert book.doses(state) == {"hard-1": pytest.approx(0.25)}  # half way to 0.6: half the dose; ok-1 has no hint
    guided = Rollout(id="x", task_id="hard-2", group_id="g", step=1, completion="", reward=1.0, guidance_id="h")
    book.observe([guided], state)
    assert "hard-2" not in book.doses(state)  # guided success says nothing about unguided success
    book.observe(_plain("hard-1", 1.0, 100), state)
    assert book.doses(state)["hard-1"] == 0.0
    assert book.idle(state, 8) == []  # most of its tasks were not seen unguided yet
    book.observe(_plain("hard-2", 0.9), state)
    assert book.doses(state)["hard-3"] == 0.0  # unseen, so it takes the mean of the two others
    assert book.idle(state, 8) == ["h"]
    again = DoseBook(toy.tasks, drop_at=0.6)
    again.load_state_dict(json.loads(json.dumps(book.state_dict())))
    assert again.doses(state) == book.doses(state)


def test_an_idle_hint_is_removed_without_a_probe(toy: Any) -> None:
    class Learned(toy.Policy):  # type: ignore[misc]  # the class comes from a fixture
        """From step 6 on the hard tasks need no hint."""

        learned = False

        def _answers(self, prompt: str, n: int, rng: Any) -> Any:
            return super()._answers(prompt.replace("hard", "easy") if self.learned else prompt, n, rng)

    policy = Learned()
    with toy.harness(updates={"every": 20}, train={"group_size": 8}) as harness:
        toy.train(harness, 6, policy)
        assert harness.state.guidance
        policy.learned = True
        (outcome,) = toy.train(harness, 26, policy, start=6)
        removed = [d for d in outcome.accepted if d["edit"].get("op") == "remove"]
        assert len(removed) == 1
        assert removed[0]["figures"]["rollouts"] == 0
        assert harness.state.guidance == ()


# ---- what one update hands to the next


class _Says:
    """An evolver and proposer that always say the same."""

    def __init__(self, *edits: Any) -> None:
        self.edits = edits

    def attribute(self, situation: Any) -> list[Attribution]:
        return [Attribution(kind="blind", interface="rubric", reason="r", statistic=0.7, interval=(0.6, 0.8))]

    def propose(self, situation: Any, attributions: Any, *, refused: Any, limit: int) -> list[Proposal]:
        gone = {r.edit.key for r in refused}
        return [Proposal(edit=e, attribution=attributions[0]) for e in self.edits if e.key not in gone]


def test_a_harmful_edit_is_not_tested_twice_while_the_failure_is_the_same(toy: Any) -> None:
    # the reward is left with the shortcut alone on tasks that have it
    harmful = RubricComposite(scope=Scope(domains=("ok",)), multipliers={"fact": 0.05, "long": 8.0})
    agent = _Says(harmful)
    with toy.harness(evolver=agent, proposer=agent, gate={"min_pairs": 10}) as harness:
        first, second = toy.train(harness, 12)
    assert [d["status"] for d in first.decisions] == ["rejected"]
    assert [d["status"] for d in second.decisions] == ["vetoed"]
    assert "repeat: turned down for" in second.decisions[0]["reason"]


def test_an_undecided_hint_goes_on_with_the_evidence_it_has(toy: Any) -> None:
    tasks = TaskSet([t for t in toy.tasks if t.domain != "easy"])  # nothing for the sampler, the hint has all probes
    with toy.harness(gate={"max_rollouts_per_update": 200}, reference={"label_budget": 1.0}, tasks=tasks) as harness:
        first, second = toy.train(harness, 12)
    hint = next(d for d in first.decisions if d["interface"] == "guidance")
    again = next(d for d in second.decisions if d["interface"] == "guidance")
    assert hint["status"] == "inconclusive"
    assert 0 < hint["figures"]["pairs"] < 24
    assert again["edit"] == hint["edit"]
    assert again["status"] == "accepted"
    assert again["figures"]["pairs"] >= 24
    assert again["figures"]["rollouts"] <= 200  # the earlier pairs were not bought again


def test_what_an_accepted_edit_did_is_remembered_at_the_next_update(toy: Any) -> None:
    with toy.harness() as harness:
        toy.train(harness, 12)
        effects = harness.memory.records(kind="effect")
        edits = harness.memory.records(kind="edit")
        failures = harness.memory.records(kind="failure")
    assert {r.update for r in effects} == {2}
    assert {r.key for r in effects} <= {r.key for r in edits}
    assert "helped" in {r.outcome for r in effects}
    assert failures
    assert not any("E =" in r.text or "lift" in r.text for r in edits)  # no figure of the test half


def test_without_a_reference_a_criterion_that_says_nothing_is_retired(toy: Any) -> None:
    def with_silent(task: Task) -> Task:
        silent = Criterion.model_validate(
            {
                "id": f"{task.id}-any",
                "text": "any word",
                "category": "any",
                "route": {"kind": "check", "name": "toy.long", "params": {"words": 1}},
            }
        )
        return task.model_copy(update={"rubric": Rubric(criteria=(*task.rubric.criteria, silent))})

    tasks = TaskSet([with_silent(t) for t in toy.tasks])
    with toy.harness(reference=None, tasks=tasks) as harness:
        outcomes = toy.train(harness, 12)
    retired = [d for o in outcomes for d in o.accepted if d["interface"] == "rubric"]
    assert [d["edit"]["family"] for d in retired] == ["any"]
    assert retired[0]["figures"]["margin"] < 0  # non-inferiority: d is 0 for a criterion that says nothing
    assert harness.counts()["labels"] == 0
