"""Refusals after or before measuring: hints nobody could learn, edits that change nothing, groups of two sizes."""

from types import SimpleNamespace

import pytest

from harness_agents.agents.rules.critic import _no_change
from harness_agents.measure import Measured, _guard_learnable
from rl_core.adapters.trl import agree
from rl_core.edits import RubricRetire, SamplerEdit, Scope
from rl_core.errors import InputError
from rl_core.microworld.world import World
from rl_core.state import HarnessState


def measured(lift: float) -> Measured:
    return Measured("accepted", "accepted", "accepted: ...", {"lift_candidate": lift})


@pytest.mark.parametrize(
    ("lift", "hinted", "status"),
    [
        (0.1, [(1.0, -2.0), (0.0, -9.0)], "accepted"),  # only the successes count
        (0.1, [(1.0, -9.0), (0.0, -2.0)], "vetoed"),
        (0.1, [], "vetoed"),  # no log-probs: what a hint teaches is unknown
        (-0.002, [(1.0, -2.0)], "rejected"),  # less harm is no lift
    ],
)
def test_a_hint_must_be_learnable_and_lift(lift, hinted, status):
    out = measured(lift)
    _guard_learnable(out, hinted, -4.0)
    assert out.status == status


def test_edits_that_change_nothing_are_told():
    s = SimpleNamespace(state=HarnessState(), tasks=World(1).tasks)
    assert _no_change(s, RubricRetire(family="nothing of that name")) == "changes nothing"
    assert _no_change(s, RubricRetire(scope=Scope(domains=("nowhere",)), family="facts")) == "changes nothing"
    assert _no_change(s, SamplerEdit(rules=((Scope(), 2.0),))) == "changes nothing"
    assert _no_change(s, RubricRetire(family="tone")) is None
    assert _no_change(s, SamplerEdit(rules=((Scope(domains=("medical",)), 0.5),))) is None


def test_attach_wants_one_group_size_and_plans_the_labels():
    planned = []
    harness = SimpleNamespace(config=SimpleNamespace(train=SimpleNamespace(group_size=8)), plan=planned.append)
    trainer = SimpleNamespace(num_generations=8, args=SimpleNamespace(max_steps=10, generation_batch_size=64))
    agree(trainer, harness)
    assert planned == [640]
    trainer.num_generations = 4
    with pytest.raises(InputError, match="num_generations 4"):
        agree(trainer, harness)
