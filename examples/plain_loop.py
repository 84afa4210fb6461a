"""A training loop written by hand around a policy that is a table: `python examples/plain_loop.py`, a few seconds."""

import numpy as np

from harness_agents import CallablePolicy, Capabilities, Criterion, Harness, Rollout, Rubric, Task, TaskSet
from rl_core.judge.checks import register
from rl_core.rollout import advantages
from rl_core.rubric import CheckRoute

NOUNS = [kind + end for kind in ("cat", "dog", "fish", "bird", "horse", "snail") for end in ("", "s", "let", "ling")]
WORDS, GROUPS, SIZE, NO_HINTS = np.array([*NOUNS, "great", "very"]), 16, 8, Capabilities(logprobs=False)
TABLE = {noun: np.where(noun == WORDS, 1.5, 0.0) for noun in NOUNS}  # prompt -> logits of its words
CONFIG = {"memory": {"embedding": "hashing"}, "reference": {"label_budget": 0.1, "first_groups": 96}}
register("plain.says")(lambda completion, task, word: word in completion.split())


def criterion(noun, family, word, weight):
    route = CheckRoute(name="plain.says", params={"word": word})
    return Criterion(id=f"{noun}-{family}", category=family, text=f"says {word}", weight=weight, route=route)


def chances(prompt):
    return np.exp(TABLE[prompt]) / np.exp(TABLE[prompt]).sum()


def gold(task, completions):  # what is really wanted: it diagnoses and tests, it is never the training reward
    return [0.7 * (task.id in c.split()) + 0.3 * ("great" not in c.split()) for c in completions]


def generate(prompts, n, seed):  # three words an answer
    rng = np.random.default_rng(seed)
    return [[" ".join(rng.choice(WORDS, 3, p=chances(p))) for _ in range(n)] for p in prompts]


def main(steps=60, run_dir=None):
    rubrics = {n: Rubric(criteria=(criterion(n, "answer", n, 1), criterion(n, "praise", "great", 2))) for n in NOUNS}
    tasks = TaskSet([Task(id=n, prompt=n, rubric=rubrics[n]) for n in NOUNS])  # "great" is a shortcut that pays double
    policy, ref = CallablePolicy(generate), type("Gold", (), {"name": "gold", "values": staticmethod(gold)})
    with Harness.from_config(CONFIG, tasks=tasks, reference=ref, run_dir=run_dir, capabilities=NO_HINTS) as harness:
        harness.plan(steps * GROUPS * SIZE)  # the label budget may borrow from rollouts to come
        for step in range(steps):
            drawn, now = harness.draw(GROUPS, step), harness.state.version
            prompts = [row[0].generate_with for row in harness.guide(drawn, SIZE, step)]
            texts = [[c.text for c in row] for row in policy.generate(prompts, n=SIZE, seed=step)]
            scored = harness.score(drawn, texts, now)
            for g, task in enumerate(drawn):
                group, pairs = f"{step}-{g}", enumerate(zip(texts[g], scored[g], strict=True))
                rows = [Rollout(f"{group}-{i}", task.id, group, step, t, 0, now, **s._asdict()) for i, (t, s) in pairs]
                harness.observe(rows)
                for text, advantage in zip(texts[g], advantages([r.reward for r in rows]), strict=True):
                    said = (WORDS[:, None] == text.split()).sum(1) - 3 * chances(task.id)
                    TABLE[task.id] += 0.03 * advantage * said  # policy gradient of a softmax
            if harness.due(step + 1):
                print(harness.checkpoint(step + 1, policy).summary())
        return np.mean([gold(t, generate([t.id], 50, seed=1)[0]) for t in tasks]), harness.state.version


if __name__ == "__main__":
    print("gold after training: {:.2f} (it was 0.57), state v{}".format(*main()))
