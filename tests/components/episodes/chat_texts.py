"""Conversations as a chat template renders them, and as a dialogue appends them."""

from __future__ import annotations

from transformers import PreTrainedTokenizerFast

from agentrl_components.dialogue.chat import ChatDialogue

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def rendered(tokenizer: PreTrainedTokenizerFast, *texts: str, **options: object) -> list[int]:
    """The chat template applied to instructions, then to alternating observations and replies."""
    roles = ["system", *["user", "assistant"] * len(texts)]
    messages = [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)]
    ids: list[int] = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False, **options
    )
    return ids


def conversation(dialogue: ChatDialogue, *texts: str) -> list[int]:
    """The same conversation, built by appending; each reply ends with the stop token."""
    instructions, observation, *rest = texts
    ids = dialogue.opening(instructions, observation)
    for reply, next_observation in zip(rest[::2], rest[1::2], strict=True):
        reply_ids = [*dialogue.encode_action(reply), dialogue.stop[0]]
        ids += reply_ids + dialogue.following(reply_ids, next_observation)
    return ids


TEXTS = ("Find it.", "You are in a room.", "go north", "a key\n\nhere", "take key", "look")
