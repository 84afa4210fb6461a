"""A stock TRL GRPO script with a harness attached. Lines marked `# +` are all that the harness adds.

    python examples/trl_grpo.py --steps 20

Runs offline in under a minute on one core: a tiny random Llama, a word tokenizer built in memory, twelve tasks
whose criteria are deterministic checks, and the rule-based agents. Put your own model, tasks and harness.yaml in.
"""

from __future__ import annotations

import argparse

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

from harness_agents import Criterion, Harness, Rubric, Task, TaskSet, attach  # +
from rl_core.adapters.trl import RubricReward, harness_dataset  # +
from rl_core.judge.checks import register
from rl_core.rubric import CheckRoute

COLOURS = ["red", "green", "blue", "white", "black", "brown"]
ANIMALS = ["cat", "dog", "horse", "bird", "fish", "snail"]
FILLER = ["the", "a", "very", "nice", "great", "thing"]


@register("example.names")
def names(completion: str, task: Task, word: str) -> bool:
    return word in completion.split()


@register("example.at_most")
def at_most(completion: str, task: Task, words: int) -> bool:
    return len(completion.split()) <= words


def build_tasks() -> TaskSet:
    """Name a colour or an animal, in few words; ``praise`` pays for a shortcut."""
    tasks = []
    for domain, words in (("colours", COLOURS), ("animals", ANIMALS)):
        for word in words:
            criteria = (
                Criterion(
                    id="names",
                    text=f"names {word}",
                    weight=3,
                    route=CheckRoute(name="example.names", params={"word": word}),
                ),
                Criterion(
                    id="short", text="at most five words", route=CheckRoute(name="example.at_most", params={"words": 5})
                ),
                Criterion(
                    id="praise", text="says great", route=CheckRoute(name="example.names", params={"word": "great"})
                ),
            )
            tasks.append(Task(id=word, prompt=f"say {word}", domain=domain, rubric=Rubric(criteria=criteria)))
    return TaskSet(tasks)


def build_model() -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    words = ["<pad>", "<end>", "<unk>", "say", *COLOURS, *ANIMALS, *FILLER]
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", padding_side="left"
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config), tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", default="runs/trl_grpo", help="folder for TRL's output")
    options = parser.parse_args()

    set_seed(0)
    model, tokenizer = build_model()
    settings = {"updates": {"first_step": 5, "every": 10}, "train": {"steps": options.steps}}  # + or a YAML file
    harness = Harness.from_config(settings, tasks=build_tasks())  # +
    args = GRPOConfig(
        output_dir=options.out,
        max_steps=options.steps,
        per_device_train_batch_size=48,
        num_generations=8,
        gradient_accumulation_steps=1,
        max_completion_length=8,
        learning_rate=3e-3,
        report_to="none",
        logging_steps=5,
        save_strategy="no",
        bf16=False,
        gradient_checkpointing=False,
    )
    trainer = GRPOTrainer(
        model=model,
        args=args,
        processing_class=tokenizer,
        reward_funcs=RubricReward(harness),  # +
        train_dataset=harness_dataset(harness),  # +
    )
    attach(trainer, harness)  # +
    trainer.train()
    print(harness.counts())  # +
    harness.close()  # +
    trainer.accelerator.end_training()


if __name__ == "__main__":
    main()
