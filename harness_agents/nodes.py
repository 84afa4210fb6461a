"""The nodes of the update graph. Each takes the state and returns what it changes; a killed node runs again whole."""

from __future__ import annotations

import logging
from typing import Any

from harness_agents.agents.protocols import Attribution, Proposal, Refusal, Situation, agent_notes
from harness_agents.agents.rules.reading import silent_criteria
from harness_agents.carry import base_of, evidence_for, revived
from harness_agents.measure import (
    Measured,
    build_report,
    count_test_groups,
    evidence_entries,
    label_groups,
    measure,
)
from harness_agents.remembering import past_edits, records_of
from harness_agents.services import Services
from harness_agents.state import UpdateState
from rl_core.edits import Edit, describe, parse_edit
from rl_core.probe import Cost
from rl_core.reward_report import RewardReport
from rl_core.run_folder import write_atomic
from rl_core.state import HarnessState, apply, candidate

_LOG = logging.getLogger(__name__)

#: Longest text of memory that agents are shown.
RECALL_CHARS = 4000


class UpdateNodes:
    """The default nodes, bound to the services of one run."""

    def __init__(self, services: Services) -> None:
        self.services = services

    # ---- what failed

    def collect(self, state: UpdateState) -> dict[str, Any]:
        """Buy labels for fresh groups and start the bookkeeping."""
        run = self.services.now
        cost = label_groups(self.services, {}) if run.rollouts else {"rollouts": 0, "labels": 0, "reference_calls": 0}
        run.live = Cost()  # from here on the graph's state holds it
        return {
            "base_version": run.state.version,
            "cost": cost,
            "decisions": [],
            "queue": [],
            "round": 0,
            "asked_again": False,
            "used_pairs": {},
            "carried": {k: dict(v) for k, v in run.carried.items()},
            "new_state": None,
            "report": None,
            "agents": {},
            "notes": [],
        }

    def diagnose(self, state: UpdateState) -> dict[str, Any]:
        """Arithmetic only."""
        run = self.services.now
        if not any(r.phase in ("train", "control") for r in run.rollouts):
            return {"healthy": True, "notes": [*state["notes"], "no rollouts since the last update"]}
        report = build_report(self.services)
        return {"report": report.to_dict(), "healthy": report.healthy and not run.idle_hints}

    def after_diagnose(self, state: UpdateState) -> str:
        return "healthy" if state["healthy"] else "something fails"

    def recall(self, state: UpdateState) -> dict[str, Any]:
        """What memory knows about failures like these; nothing when memory is empty or fails."""
        memory, config = self.services.memory, self.services.config.memory
        if memory is None:
            return {"recall": []}
        alarms = _report(state).alarms
        try:
            found = memory.recall(
                "; ".join(a.text for a in alarms[:3]),
                recent=config.recall_recent,
                near=config.recall_near,
                max_chars=RECALL_CHARS,
            )
        except Exception as e:
            _LOG.warning("memory could not be read: %s", e)
            return {"recall": [], "notes": [*state["notes"], f"memory could not be read ({type(e).__name__})"]}
        return {"recall": [f.line() for f in found]}

    # ---- what to do about it

    def evolve(self, state: UpdateState) -> dict[str, Any]:
        """Attributions, most worthwhile first."""
        found = self.services.evolver.attribute(self._situation(state))
        return {
            "attributions": [a.model_dump(mode="json") for a in found],
            "agents": {**state["agents"], "evolver": agent_notes(self.services.evolver)},
        }

    def propose(self, state: UpdateState) -> dict[str, Any]:
        """Edits to test, bounded by the tests that are left. Repeats and unusable ones are dropped."""
        left = self._tests_left(state)
        attributions = [Attribution.model_validate(a) for a in state["attributions"]]
        back = [d for d in state["decisions"] if d["status"] != "accepted"]
        refused = [Refusal(parse_edit(d["edit"]), d["status"], d["why"]) for d in back]
        made = self.services.proposer.propose(self._situation(state), attributions, refused=refused, limit=left)
        if state["round"] == 0:
            made = revived(state["carried"], attributions, made, self._stacked(state), self.services.tasks)
        seen = {r.edit.key for r in refused}
        queue, notes = [], list(state["notes"])
        for p in made:
            if p.edit.key in seen:
                continue
            seen.add(p.edit.key)
            short = self.services.labels_short(p.edit, state["cost"])
            if short:
                notes.append(f"not tested, {short}: {describe(p.edit)}"[:300])
            else:
                queue.append(p.model_dump(mode="json"))
        return {
            "notes": notes,
            "queue": queue[:left],
            "round": state["round"] + 1,
            "agents": {**state["agents"], "proposer": agent_notes(self.services.proposer)},
        }

    def critique(self, state: UpdateState) -> dict[str, Any]:
        """Read and measure the next proposal, on top of what this update has accepted."""
        if not state["queue"]:
            return {"asked_again": state["asked_again"] or state["round"] > 1}
        proposal = Proposal.model_validate(state["queue"][0])
        rest = state["queue"][1:]
        accepted = [d for d in state["decisions"] if d["status"] == "accepted"]
        current = self._stacked(state)
        situation = self._situation(state, current)
        reading = self.services.critic.read(situation, proposal, past_edits(self.services))
        update: dict[str, Any] = {"agents": {**state["agents"], "critic": agent_notes(self.services.critic)}}
        key = proposal.edit.key
        if reading.veto is not None:
            measured = Measured("vetoed", _veto_class(reading.veto), f"vetoed: {reading.veto}"[:500], {})
        else:
            used = state["used_pairs"]
            family = _lineage(proposal.edit)
            measured = measure(
                self.services,
                proposal.edit,
                current,
                cost=state["cost"],
                accepted_so_far=self._accepted_before() + len(accepted),
                exclude=used.get(family, ()),
                carried=evidence_for(state["carried"], proposal.edit, current),
                silent=silent_criteria(_report(state).overall.criteria),
            )
            cost = dict(state["cost"])
            for name in cost:
                cost[name] += int(measured.figures.get(name) or 0)
            carried = {k: v for k, v in state["carried"].items() if k != key}
            if measured.carry:
                carried[key] = {
                    **measured.carry,
                    "base": base_of(current, proposal.edit),
                    "proposal": proposal.model_dump(mode="json"),
                }
            self.services.now.live = Cost()  # from here on the graph's state holds it
            update |= {
                "cost": cost,
                "carried": carried,
                "used_pairs": {**used, family: [*used.get(family, []), *measured.keys]},
            }
        decision = _decision(proposal, measured)
        done = [*state["decisions"], decision]
        full = sum(d["status"] == "accepted" for d in done) >= self.services.config.updates.max_edits
        _LOG.info("update %d: %s: %s", state["update"], decision["description"], decision["reason"])
        return {**update, "decisions": done, "queue": [] if full else rest}

    def after_critique(self, state: UpdateState) -> str:
        if state["queue"]:
            return "next proposal"
        if any(d["status"] == "accepted" for d in state["decisions"]):
            return "accepted"
        came_back = any(d["status"] in ("rejected", "vetoed") for d in state["decisions"])
        if came_back and state["round"] < 2 and self._tests_left(state) > 0:
            return "asked once more"
        return "nothing accepted"

    # ---- doing it

    def approve(self, state: UpdateState) -> dict[str, Any]:
        """Automatic, or a human's answer to an interrupt. No side effects: it runs again on resume."""
        if self.services.config.approval == "auto":
            return {"approval": {"approved": True, "by": "auto"}}
        from langgraph.types import interrupt

        from harness_agents.approval import question, read_answer

        answer = read_answer(interrupt(question(state)))
        if answer["approved"]:
            return {"approval": answer}
        reason = "vetoed: a human said no" + (f" ({answer['reason']})" if answer["reason"] else "")
        refused = [
            {**d, "status": "vetoed", "why": "human", "reason": reason} if d["status"] == "accepted" else d
            for d in state["decisions"]
        ]
        return {"approval": answer, "decisions": refused}

    def after_approve(self, state: UpdateState) -> str:
        return "yes" if state["approval"]["approved"] else "no"

    def apply(self, state: UpdateState) -> dict[str, Any]:
        """The next state on disk, then its decisions in the ledger; only then may anybody use it."""
        run, folder = self.services.now, self.services.folder
        edits = [parse_edit(d["edit"]) for d in state["decisions"] if d["status"] == "accepted"]
        new = apply(run.state, edits, version=run.next_version, step=state["step"])
        write_atomic(folder.state_file(new.version), new.to_json())
        self._write_ledger(state, new.version)
        return {"new_state": new.model_dump(mode="json")}

    def remember(self, state: UpdateState) -> dict[str, Any]:
        """Decisions to the ledger (where apply has not), and the whole story to memory."""
        new = state.get("new_state")
        if new is None:
            self._write_ledger(state, state["base_version"])
        memory = self.services.memory
        if memory is None:
            return {}
        try:
            memory.remember(records_of(self.services, state))
        except Exception as e:
            _LOG.warning("memory could not be written: %s", e)
            return {"notes": [*state["notes"], f"memory could not be written ({type(e).__name__})"]}
        return {}

    # ---- shared

    def _write_ledger(self, state: UpdateState, version: int) -> None:
        for d in state["decisions"]:
            self.services.ledger.append(
                {
                    "update": state["update"],
                    "step": state["step"],
                    "state_version": version if d["status"] == "accepted" else state["base_version"],
                    **{
                        k: d[k]
                        for k in (
                            "interface",
                            "edit",
                            "status",
                            "figures",
                            "reason",
                            "description",
                            "failure",
                            "prediction",
                        )
                    },
                }
            )

    def _situation(self, state: UpdateState, current: HarnessState | None = None) -> Situation:
        s, run = self.services, self.services.now
        return Situation(
            update=state["update"],
            step=state["step"],
            state=current or self._stacked(state),
            tasks=s.tasks,
            report=_report(state),
            scorer=s.scorer,
            capabilities=s.capabilities,
            has_reference=s.reference is not None,
            group_size=s.config.train.group_size,
            entries=evidence_entries(s),
            test_groups=count_test_groups(s),
            history=s.history(),
            recall=state.get("recall", ()),
            catalogue=s.catalogue,
            idle_hints=run.idle_hints,
            min_domain_groups=s.config.gate.min_pairs,
            may_write_criteria=s.reference is not None or s.config.approval == "human",
        )

    def _stacked(self, state: UpdateState) -> HarnessState:
        """The state in force with this update's accepted edits on top."""
        current = self.services.now.state
        for d in state.get("decisions", ()):
            if d["status"] == "accepted":
                current = candidate(current, parse_edit(d["edit"]))
        return current

    def _tests_left(self, state: UpdateState) -> int:
        tested = sum(1 for d in state["decisions"] if d["status"] != "vetoed")
        return max(int(self.services.config.updates.max_tests) - tested, 0)

    def _accepted_before(self) -> int:
        return sum(e.status == "accepted" for e in self.services.history())


def _report(state: UpdateState) -> RewardReport:
    report = state.get("report")
    if report is None:
        raise RuntimeError("no report: diagnose found no rollouts")
    return RewardReport.from_dict(report)


def _decision(proposal: Proposal, measured: Measured) -> dict[str, Any]:
    a = proposal.attribution
    figures = {**measured.figures, "why": measured.why}
    return {
        "interface": proposal.edit.interface,
        "edit": proposal.edit.model_dump(mode="json"),
        "status": measured.status,
        "why": measured.why,
        "figures": figures,
        "reason": measured.reason,
        "description": describe(proposal.edit),
        "failure": {
            "kind": a.kind,
            "statistic": a.statistic,
            "where": a.where,
            "reason": a.reason,
            "interval": list(a.interval) if a.interval else None,
            "scope": a.scope.model_dump(mode="json"),
        },
        "prediction": proposal.prediction,
    }


def _lineage(edit: Edit) -> str:
    """Edits of one interface (and scope, where they have one) in one update descend from one another."""
    scope = getattr(edit, "scope", None)
    return f"{edit.interface}:{scope.level}:{scope}" if scope is not None else edit.interface


def _veto_class(veto: str) -> str:
    return f"veto: {veto.split(':')[0]}"[:80]
