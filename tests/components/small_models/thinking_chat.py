"""A tokenizer with a token per byte whose chat template always asks for thoughts, and a model."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

THINKS = (
    "{%- for m in messages -%}"
    "{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' -}}"
    "{%- endfor -%}"
    "{{- '<|im_start|>assistant\n<think>\n' if add_generation_prompt -}}"
)
"""A template that has no option and always asks for thoughts, as of Qwen3-Thinking."""


def thinking_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = Tokenizer(models.BPE({byte: i for i, byte in enumerate(alphabet)}, []))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=model,
        eos_token="<|im_end|>",
        extra_special_tokens=["<|im_start|>"],
        name_or_path="org/thinking",
    )
    tokenizer.chat_template = THINKS
    return tokenizer


def save_thinking_model(folder: Path) -> None:
    """Save a Qwen2 with random weights and this tokenizer to `folder`."""
    tokenizer = thinking_tokenizer()
    tokenizer.save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=len(tokenizer),
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=1024,
                bos_token_id=None,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=None,
            )
        ).save_pretrained(folder)
