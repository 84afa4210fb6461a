"""The rule-based twins: they run with no language model, and are the baseline that one must beat."""

from __future__ import annotations

from harness_agents.agents.rules.critic import RulesCritic
from harness_agents.agents.rules.evolver import RulesEvolver
from harness_agents.agents.rules.proposer import RulesProposer

__all__ = ["RulesCritic", "RulesEvolver", "RulesProposer"]
