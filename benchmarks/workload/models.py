"""Models for benchmarks: Qwen2 architecture with random weights, and a small BPE tokenizer.

Nothing is downloaded. Both sides of a comparison load the same folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + (m['content'] or '')"
    " + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SENTENCES = (
    "go north",
    "go south",
    "go east",
    "go west",
    "take key",
    "open door",
    "look",
    "inventory",
    "You are in a room. There is a key here.",
    "assistant user system observation reward",
    "0 1 2 3 4 5 6 7 8 9",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Size of a model. The feed-forward block is twice as wide as the residual stream."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int = 2


SIZES = {
    size.name: size
    for size in (
        Size(name="0.36M", hidden=128, layers=2, heads=4),
        Size(name="2.45M", hidden=256, layers=4, heads=4),
        Size(name="24M", hidden=512, layers=11, heads=8),
    )
}


def make(size: Size, folder: Path, *, context: int = 4096, seed: int = 0) -> int:
    """Save the model to `folder` in transformers' layout. Returns its number of parameters."""
    tokenizer = trained_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(  # type: ignore[no-untyped-call]
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=size.hidden,
            intermediate_size=2 * size.hidden,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            num_key_value_heads=size.kv_heads,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def trained_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE over a handful of sentences."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=504,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES * 50, trainer)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<pad>", bos_token=None
    )
    fast.chat_template = CHATML
    return fast
