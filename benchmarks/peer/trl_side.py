"""TRL's side of the comparison, executed by the Python that has TRL: rollouts and updates.

    python trl_side.py MODEL_FOLDER THREADS

Reads one JSON request per line from standard input and writes one answer per line to standard
output. The timed code is TRL's own: `GRPOTrainer._generate` with `environment_factory` (its
built-in multi-turn path), and `GRPOTrainer.training_step` with the optimizer's step on a batch in
TRL's layout.

A model with random weights does not write tool calls, so `parse_response` of the tokenizer treats
every reply as one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    TRL_EXPERIMENTAL_SILENCE="1",
    TOKENIZERS_PARALLELISM="false",
    HF_HUB_DISABLE_TELEMETRY="1",
)

import accelerate
import datasets
import torch
import transformers
import trl
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + (m['content'] or '') }}"
    "{% if m.get('tool_calls') %}{% for c in m['tool_calls'] %}"
    "{{ c['function']['name'] + ' ' + (c['function']['arguments'] | tojson) }}"
    "{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML template that renders tool calls, as TRL requires."""

LATENCY = {"s": 0.0}
STEPS = {"taken": 0}


class Tokenizer(PreTrainedTokenizerFast):
    """Tokenizer that parses every reply as a call of the tool `act`."""

    response_schema = {"type": "object"}  # noqa: RUF012

    def parse_response(self, ids: Any, *_: Any, **__: Any) -> dict[str, Any]:
        text = self.decode(ids, skip_special_tokens=True)
        call = {"name": "act", "arguments": {"action": text}}
        calls = [{"type": "function", "function": call}]
        return {"role": "assistant", "content": text, "tool_calls": calls}


class EnvironmentPool:
    """The environment of workload/room.py with the interface of TRL's `environment_factory`."""

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, **_: Any) -> str:
        self.steps = 0
        return "You are in room 0."

    def act(self, action: str) -> str:
        """
        Act in the room.

        Args:
            action: The action text.

        Returns:
            The observation.
        """
        if LATENCY["s"]:
            time.sleep(LATENCY["s"])
        self.steps += 1
        STEPS["taken"] += 1
        return f"You are in room {self.steps}. There is a key here."


def trainer(
    folder: str,
    *,
    batch: int,
    group: int,
    turns: int,
    turn_tokens: int,
    accumulation: int,
    env: bool,
) -> GRPOTrainer:
    """TRL's trainer on the CPU, with default settings except for sizes."""
    tokenizer = Tokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    config = GRPOConfig(
        output_dir="out",
        use_cpu=True,
        bf16=False,
        fp16=False,
        per_device_train_batch_size=batch,
        gradient_accumulation_steps=accumulation,
        num_generations=group,
        learning_rate=1e-4,
        max_completion_length=turns * (turn_tokens + 60),
        generation_kwargs={"max_new_tokens": turn_tokens},
        max_tool_calling_iterations=max(1, turns - 1),
        beta=0.0,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        gradient_checkpointing=False,
        dataloader_num_workers=0,
    )
    prompts = [[{"role": "user", "content": f"go north {i % 7}"}] for i in range(512)]
    extra: dict[str, Any] = {"environment_factory": EnvironmentPool} if env else {}
    return GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        args=config,
        train_dataset=datasets.Dataset.from_dict({"prompt": prompts}),
        reward_funcs=lambda completion_ids, **_: [float(len(ids)) for ids in completion_ids],
        processing_class=tokenizer,
        **extra,
    )


class Rollouts:
    """Rollout phases. Only `_generate` is timed; resets, scoring and padding are excluded."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._trainers: dict[tuple[int, ...], GRPOTrainer] = {}
        self.lengths: list[int] = []
        """Prompt tokens of each episode of the last phase."""
        self.masks: list[list[bool]] = []
        """For each token after the prompt, whether the agent sampled it."""

    def play(
        self, rollouts: int, group: int, turns: int, turn_tokens: int, latency_ms: float
    ) -> dict[str, float]:
        key = (rollouts, group, turns, turn_tokens)
        if key not in self._trainers:
            self._trainers[key] = trainer(
                self._folder,
                batch=rollouts,
                group=group,
                turns=turns,
                turn_tokens=turn_tokens,
                accumulation=1,
                env=True,
            )
        held = self._trainers[key]
        held.model.train()
        LATENCY["s"], STEPS["taken"] = latency_ms / 1e3, 0
        found: dict[str, float] = {}
        generate = GRPOTrainer._generate

        def timed(prompts: Any) -> Any:
            began = time.perf_counter()
            out = generate(held, prompts)
            found["seconds"] = time.perf_counter() - began
            prompt_ids, completions, masks, *_ = out
            self.lengths = [len(ids) for ids in prompt_ids]
            self.masks = [[bool(own) for own in mask] for mask in masks]
            found["sampled"] = sum(sum(mask) for mask in masks)
            found["tokens"] = sum(len(ids) for ids in completions)
            return out

        held._generate = timed
        prompts = [
            {"prompt": [{"role": "user", "content": f"go north {i}"}]}
            for i in range(rollouts // group)
            for _ in range(group)
        ]
        held._generate_and_score_completions(prompts)
        return found | {"env_steps": STEPS["taken"]}


class Updates:
    """Training steps on episodes of given lengths, padded to the longest one as in TRL."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._trainers: dict[int, GRPOTrainer] = {}

    def step(
        self, prompts: list[int], replies: list[list[bool]], advantages: list[float], micro: int
    ) -> dict[str, float]:
        """Take one optimizer step. Returns its seconds.

        Args:
            prompts: Number of prompt tokens of each episode.
            replies: For each token after the prompt, whether the agent sampled it.
            advantages: Advantage of each episode.
            micro: Episodes per micro-batch.
        """
        pieces = -(-len(prompts) // micro)
        if micro not in self._trainers:
            made = trainer(
                self._folder,
                batch=micro,
                group=min(8, micro),
                turns=1,
                turn_tokens=1,
                accumulation=pieces,
                env=False,
            )
            made.create_optimizer_and_scheduler(1000)
            made.current_gradient_accumulation_steps = pieces
            made._prepare_inputs = lambda batch: batch
            self._trainers[micro] = made
        held = self._trainers[micro]
        batches = padded(prompts, replies, advantages, micro, held.model.config.vocab_size)
        began = time.perf_counter()
        for batch in batches:
            held.training_step(held.model, batch, None)
        held.accelerator.clip_grad_norm_(held.model.parameters(), held.args.max_grad_norm)
        held.optimizer.step()
        held.model.zero_grad()
        return {"seconds": time.perf_counter() - began}


def iteration(
    playing: Rollouts, updating: Updates, micros: list[int], **load: Any
) -> dict[str, Any]:
    """A rollout phase, and a training step on its episodes with each number of episodes per
    micro-batch. Returns the rollout's measurements, and the seconds of the steps."""
    played = playing.play(**load)
    signs = [1.0 if row % 2 else -1.0 for row in range(len(playing.masks))]
    steps = {
        str(micro): updating.step(playing.lengths, playing.masks, signs, micro)["seconds"]
        for micro in micros
    }
    return played | {"updates": steps}


def padded(
    prompts: list[int], replies: list[list[bool]], advantages: list[float], micro: int, words: int
) -> list[dict[str, torch.Tensor]]:
    """Micro-batches of random tokens. Prompts are padded on the left and completions on the right,
    to the longest of the whole batch; `words` is the size of the vocabulary."""
    rows, before, after = len(prompts), max(prompts), max(map(len, replies))
    draw = torch.Generator().manual_seed(0)
    prompt_mask, completion_mask = torch.zeros(rows, before).long(), torch.zeros(rows, after).long()
    tool_mask = torch.ones(rows, after).long()
    for row, (prompt, sampled) in enumerate(zip(prompts, replies, strict=True)):
        prompt_mask[row, before - prompt :] = 1
        completion_mask[row, : len(sampled)] = 1
        tool_mask[row, : len(sampled)] = torch.tensor(sampled).long()
    whole = {
        "prompt_ids": torch.randint(4, words, (rows, before), generator=draw),
        "prompt_mask": prompt_mask,
        "completion_ids": torch.randint(4, words, (rows, after), generator=draw),
        "completion_mask": completion_mask,
        "advantages": torch.tensor(advantages),
        "tool_mask": tool_mask,
    }
    trained = (completion_mask * tool_mask).sum()
    return [
        {name: value[start : start + micro] for name, value in whole.items()}
        | {"num_items_in_batch": trained}
        for start in range(0, rows, micro)
    ]


def main() -> None:
    """Answer requests until standard input ends."""
    folder, threads = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(threads)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to standard error, which is the log
    rollouts, updates = Rollouts(folder), Updates(folder)
    for line in sys.stdin:
        question = json.loads(line)
        match question.pop("do"):
            case "versions":
                parts = (trl, transformers, torch, accelerate, datasets)
                answer: dict[str, Any] = {part.__name__: part.__version__ for part in parts}
            case "rollout":
                answer = rollouts.play(**question)
            case "update":
                answer = updates.step(**question)
            case "iteration":
                answer = iteration(rollouts, updates, **question)
            case other:
                raise ValueError(f"unknown request: {other}")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
