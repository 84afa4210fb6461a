"""A training loop written by hand around a policy that is a table: `python examples/plain_loop.py`, a few seconds."""

import numpy as np

from harness_agents import CallablePolicy, Capabilities, Criterion, Harness, Rubric, Rollout, Task, TaskSet
from rl_core.judge.checks import register
from rl_core.rollout import advantages
from rl_core.rubric import CheckRoute

NOUNS = [kind + end for kind in ("cat", "dog", "fish", "bird", "horse", "snail") for end in ("", "s", "let", "ling")]
WORDS, GROUPS, SIZE = [*NOUNS, "great", "very"], 16, 8
TABLE = {noun: np.where(np.array(WORDS) == noun, 1.5, 0.0) for noun in NOUNS}  # prompt -> logits of its words


@register("plain.says")
def says(completion, task, word):
    return word in completion.split()


def criterion(noun, family, word, weight):
    route = CheckRoute(name="plain.says", params={"word": word})
    return Criterion(id=f"{noun}-{family}", category=family, text=f"says {word}", weight=weight, route=route)


class Gold:  # the reference: what is really wanted; it diagnoses and tests, it is never the training reward
    name = "gold"

    def values(self, task, completions):
        return [0.7 * (task.id in c.split()) + 0.3 * ("great" not in c.split()) for c in completions]


def chances(prompt):
    z = np.exp(TABLE[prompt] - TABLE[prompt].max())
    return z / z.sum()


def generate(prompts, n, seed):  # three words an answer
    rng = np.random.default_rng(seed)
    return [[" ".join(rng.choice(WORDS, 3, p=chances(p))) for _ in range(n)] for p in prompts]


def main(steps=60, run_dir=None):
    rubrics = {n: Rubric(criteria=(criterion(n, "answer", n, 1), criterion(n, "praise", "great", 2))) for n in NOUNS}
    tasks = TaskSet([Task(id=n, prompt=n, rubric=rubrics[n]) for n in NOUNS])  # "great" is a shortcut that pays double
    config = {"train": {"steps": steps}, "memory": {"embedding": "hashing"}, "reference": {"label_budget": 0.1}}
    policy, can = CallablePolicy(generate), Capabilities(logprobs=False)  # without log-probs no hints are proposed
    with Harness.from_config(config, tasks=tasks, reference=Gold(), run_dir=run_dir, capabilities=can) as harness:
        for step in range(steps):
            drawn = harness.draw(GROUPS, step)
            prompts = [row[0].generate_with for row in harness.guide(drawn, SIZE, step)]
            answers = policy.generate(prompts, n=SIZE, seed=step)
            scored = harness.score(drawn, [[c.text for c in row] for row in answers], harness.state.version)
            for g, task in enumerate(drawn):
                rows = [Rollout(f"{step}-{g}-{i}", task.id, f"{step}-{g}", step, c.text, verdicts=s.verdicts, tokens=3,
                                reward=s.reward, harness_version=harness.state.version)
                        for i, (c, s) in enumerate(zip(answers[g], scored[g], strict=True))]
                harness.observe(rows)
                for row, advantage in zip(rows, advantages([r.reward for r in rows]), strict=True):  # policy gradient
                    said = np.bincount([WORDS.index(w) for w in row.completion.split()], minlength=len(WORDS))
                    TABLE[task.id] += 0.05 * advantage * (said - 3 * chances(task.id))
            if harness.due(step + 1):
                print(harness.checkpoint(step + 1, policy).summary())
        return float(np.mean([Gold().values(t, generate([t.id], 50, seed=1)[0]) for t in tasks])), harness.state


if __name__ == "__main__":
    print("gold after training: {:.2f}, state v{.version}".format(*main()))
