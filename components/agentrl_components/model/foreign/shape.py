"""The sizes of a model of transformers, from its configuration, and how long its sequences are."""

from __future__ import annotations

from typing import Any

from torch import nn

from agentrl_components.model.architecture import Architecture, Rope


def shape_of(model: Any) -> Architecture:
    """The sizes that the configuration of a `PreTrainedModel` states. What only our decoder reads
    has its default."""
    config = model.config
    text = config.get_text_config()
    heads = getattr(text, "num_attention_heads", None) or 1
    hidden = text.hidden_size
    kv_heads = getattr(text, "num_key_value_heads", None) or heads
    if getattr(text, "multi_query", False) and not getattr(text, "new_decoder_architecture", False):
        kv_heads = 1  # Falcon's and GPT-BigCode's name for one key head
    return Architecture(
        family=config.model_type,
        vocabulary=text.vocab_size,
        hidden=hidden,
        intermediate=getattr(text, "intermediate_size", None) or 4 * hidden,
        layers=text.num_hidden_layers,
        heads=heads,
        kv_heads=kv_heads,
        head_width=getattr(text, "head_dim", None) or hidden // heads,
        eps=1e-6,
        rope=Rope(),
        tied=bool(getattr(config, "tie_word_embeddings", False)),
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        normed=False,
        positions=_positions(text),
        bounded=_has_position_table(model) or _rotates_by_longest(text),
        latent=_latent(text),
        partly_cached=_partly_cached(text),
    )


def _latent(text: Any) -> int | None:
    """`Architecture.latent`: the compressed keys and values, the rotated key that the heads share,
    and the key of an index of tokens."""
    rank: int | None = getattr(text, "kv_lora_rank", None)
    if rank is None or text.model_type == "minicpm3":  # vLLM caches keys and values of MiniCPM3
        return None
    return rank + int(text.qk_rope_head_dim) + (getattr(text, "index_head_dim", None) or 0)


def _partly_cached(text: Any) -> bool:
    """`Architecture.partly_cached`."""
    types = getattr(text, "layer_types", None)
    if types is None:
        return bool(getattr(text, "sliding_window", None))
    return any(one not in ("full_attention", "hybrid") for one in types)


def _positions(text: Any) -> int | None:
    """`Architecture.positions`."""
    stated: int | None = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    before: int | None = rope.get("original_max_position_embeddings") or stated
    if before is not None and _rotates_by_longest(text):
        return before
    if stated is None or before is None or rope.get("rope_type") not in ("linear", "yarn"):
        return stated
    # With these the field often has the length before scaling.
    return max(stated, int(before * (rope.get("factor") or 1)))


def _rotates_by_longest(text: Any) -> bool:
    """Whether rotary frequencies depend on the longest sequence of a pass once it is longer than
    what the model was first trained with. The log-probabilities of an episode would depend on
    those that are packed with it, and differ from vLLM's."""
    rope = getattr(text, "rope_parameters", None) or {}
    return rope.get("rope_type") in ("longrope", "dynamic")


def _has_position_table(model: Any) -> bool:
    """Whether the model looks positions up in a table, such as a weight of each position."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    weights = {
        name: part.num_embeddings - getattr(part, "offset", 0)
        for name, part in model.named_modules()
        if isinstance(part, nn.Embedding)
    }
    tables = weights | {name: len(one) for name, one in model.named_buffers() if one.dim() == 2}
    leaves = ((name.rpartition(".")[2], rows) for name, rows in tables.items())
    return any(rows == positions and ("pos" in leaf or leaf == "wpe") for leaf, rows in leaves)
