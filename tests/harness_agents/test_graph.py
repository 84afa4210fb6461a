"""The update graph on real LangGraph: routes, replaced nodes, narrow input and output, bounded re-proposal."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from harness_agents.agents.protocols import Attribution, Proposal, Reading
from harness_agents.graph import NODES, build_graph, draw_mermaid
from rl_core.edits import RubricReweight, SamplerEdit, Scope
from rl_core.errors import InputError


def test_mermaid_names_every_node_and_route() -> None:
    text = draw_mermaid()
    for name in NODES:
        assert f"{name}({name})" in text
    for route in ("healthy", "asked once more", "next proposal", "nothing accepted", "accepted"):
        assert route in text


def test_unknown_node_is_refused(toy: Any) -> None:
    with pytest.raises(InputError, match="no node 'critic'"):
        toy.harness(nodes={"critic": lambda state: {}})


def test_a_node_can_be_replaced(toy: Any) -> None:
    seen: list[int] = []

    def diagnose(state: dict[str, Any]) -> dict[str, Any]:
        seen.append(state["update"])
        return {"healthy": True}

    with toy.harness(nodes={"diagnose": diagnose}) as harness:
        (outcome,) = toy.train(harness, 6)
    assert seen == [1]
    assert outcome.healthy
    assert outcome.decisions == []


class _Fixed:
    """Agents that say what they are told, and keep what they were asked."""

    def __init__(self, *rounds: list[Any], veto: str | None = None) -> None:
        self.rounds, self.veto = rounds, veto
        self.refused: list[Any] = []
        self.read_keys: list[str] = []

    def attribute(self, situation: Any) -> list[Attribution]:
        return [Attribution(kind="dead_high", interface="sampler", reason="r", statistic=0.9, interval=(0.8, 1.0))]

    def propose(self, situation: Any, attributions: Any, *, refused: Any, limit: int) -> list[Proposal]:
        self.refused.append(list(refused))
        at = min(len(self.refused), len(self.rounds)) - 1
        return [Proposal(edit=e, attribution=attributions[0]) for e in self.rounds[at]][:limit]

    def read(self, situation: Any, proposal: Proposal, past: Any) -> Reading:
        self.read_keys.append(proposal.edit.key)
        return Reading(veto=self.veto)


def edit(factor: float) -> SamplerEdit:
    return SamplerEdit(rules=((Scope(domains=("easy",)), factor),))


def test_one_re_proposal_with_the_critics_reasons_and_no_more(toy: Any) -> None:
    agents = _Fixed([edit(0.5)], [edit(0.25)], [edit(0.2)], veto="leak: something")
    with toy.harness(evolver=agents, proposer=agents, critic=agents) as harness:
        (outcome,) = toy.train(harness, 6)
        ledger = harness._services.ledger.entries
    assert len(agents.refused) == 2
    assert agents.refused[0] == []
    assert [(r.edit, r.status, r.why) for r in agents.refused[1]] == [(edit(0.5), "vetoed", "veto: leak")]
    assert [e.status for e in ledger] == ["vetoed", "vetoed"]
    assert outcome.probe_rollouts == 0  # a veto costs no probe
    assert harness.state.version == 0


def test_the_same_edit_again_is_not_read_twice(toy: Any) -> None:
    agents = _Fixed([edit(0.5), edit(0.5)], [edit(0.5)], veto="no")
    with toy.harness(evolver=agents, proposer=agents, critic=agents) as harness:
        toy.train(harness, 6)
    assert agents.read_keys == [edit(0.5).key]


def test_tests_and_edits_are_bounded(toy: Any) -> None:
    many = [RubricReweight(family="long", multiplier=m) for m in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)]
    agents = _Fixed(many)
    with toy.harness(evolver=agents, proposer=agents, critic=agents, updates={"max_edits": 2, "max_tests": 4}) as h:
        (outcome,) = toy.train(h, 6)
    assert 1 <= len(outcome.accepted) <= 2
    assert len(outcome.decisions) <= 4


def test_accepted_edits_are_stacked_on_one_another(toy: Any) -> None:
    first, second = RubricReweight(family="long", multiplier=0.0), edit(0.125)
    seen: list[Any] = []

    class Watching(_Fixed):
        def read(self, situation: Any, proposal: Proposal, past: Any) -> Reading:
            seen.append(situation.state)
            return Reading()

    agents = Watching([first, second])
    with toy.harness(evolver=agents, proposer=agents, critic=agents) as harness:
        (outcome,) = toy.train(harness, 6)
        assert [d["status"] for d in outcome.decisions] == ["accepted", "accepted"]
        assert seen[0].rubric == ()
        assert len(seen[1].rubric) == 1  # the second was read and measured on top of the first
        assert harness.state.version == 1
        assert len(harness.state.rubric) == len(harness.state.sampler.rules) == 1


def test_the_graph_is_a_node_of_another_graph_without_doubling_anything(toy: Any) -> None:
    from langgraph.graph import END, START, StateGraph

    class Outer(TypedDict, total=False):
        update: int
        step: int
        decisions: list[dict[str, Any]]
        notes: list[str]

    with toy.harness() as harness:
        toy.train(harness, 5)
        toy.step(harness, toy.Policy(), 5)
        services = harness._services
        services.run = harness._new_run(1, 6, toy.Policy())
        outer: Any = StateGraph(Outer)
        outer.add_node("update", build_graph(services).compile())
        outer.add_edge(START, "update")
        outer.add_edge("update", END)
        result = outer.compile().invoke({"update": 1, "step": 6, "notes": ["mine"]}, {"recursion_limit": 60})
    assert len(result["decisions"]) == len({d["description"] for d in result["decisions"]}) >= 1
    assert result["step"] == 6


def test_checkpoints_hold_plain_json_only(toy: Any, tmp_path: Any) -> None:
    with toy.harness(tmp_path / "run") as harness:
        toy.train(harness, 6)
        values = harness._graph.get_state(harness._thread(1)).values

    def plain(x: Any) -> bool:
        if isinstance(x, dict):
            return all(isinstance(k, str) and plain(v) for k, v in x.items())
        return all(map(plain, x)) if isinstance(x, list) else x is None or type(x) in (str, int, float, bool)

    assert values["decisions"]
    assert [k for k, v in values.items() if not plain(v)] == []
