"""One harness update as a LangGraph state machine. Node names are public: replace any of them by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from harness_agents.nodes import UpdateNodes
from harness_agents.services import Services
from harness_agents.state import UpdateInput, UpdateOutput, UpdateState
from rl_core.errors import InputError

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

NODES = ("collect", "diagnose", "recall", "evolve", "propose", "critique", "approve", "apply", "remember")


def build_graph(
    services: Services, *, nodes: Mapping[str, Callable[..., Any]] | None = None
) -> StateGraph[UpdateState, None, UpdateInput, UpdateOutput]:
    """The uncompiled graph: collect, diagnose, recall, evolve, propose, critique, approve, apply, remember.

    A healthy report goes straight to ``remember``. ``critique`` tests one proposal a visit, so
    that a kill loses at most one test; when nothing was accepted it may ask ``propose`` once more.
    ``nodes`` replaces nodes by name. Compile it with a checkpointer of your own choice; input is
    ``{"update", "step"}``, and ``services.run`` must be set. Raises InputError for an unknown name.
    """
    from langgraph.graph import END, START, StateGraph

    own = UpdateNodes(services)
    table: dict[str, Callable[..., Any]] = {name: getattr(own, name) for name in NODES}
    for name, node in (nodes or {}).items():
        if name not in table:
            raise InputError(f"no node {name!r}", field="nodes", mend="name one of: " + ", ".join(NODES))
        table[name] = node
    graph: StateGraph[UpdateState, None, UpdateInput, UpdateOutput] = StateGraph(
        UpdateState, input_schema=UpdateInput, output_schema=UpdateOutput
    )
    for name, node in table.items():
        graph.add_node(name, node)
    graph.add_edge(START, "collect")
    graph.add_edge("collect", "diagnose")
    graph.add_conditional_edges("diagnose", own.after_diagnose, {"something fails": "recall", "healthy": "remember"})
    graph.add_edge("recall", "evolve")
    graph.add_edge("evolve", "propose")
    graph.add_edge("propose", "critique")
    graph.add_conditional_edges(
        "critique",
        own.after_critique,
        {
            "next proposal": "critique",
            "asked once more": "propose",
            "accepted": "approve",
            "nothing accepted": "remember",
        },
    )
    graph.add_conditional_edges("approve", own.after_approve, {"yes": "apply", "no": "remember"})
    graph.add_edge("apply", "remember")
    graph.add_edge("remember", END)
    return graph


def recursion_limit(services: Services) -> int:
    """Steps that a sound update can need, and a few more: a routing bug must not burn a budget."""
    return 2 * len(NODES) + 2 * services.config.updates.max_tests + 4


def draw_mermaid() -> str:
    """The graph as mermaid text."""
    # drawing calls no node, so no services are needed
    return build_graph(cast(Services, None)).compile().get_graph().draw_mermaid()
