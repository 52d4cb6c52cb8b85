"""Open a model of transformers: with its weights, without them, or its sizes alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from agentrl_components.errors import ArchitectureError, ModelError, model_errors
from agentrl_components.model.architecture import Architecture, Counted, check_causal
from agentrl_components.model.foreign.model import ForeignModel, parameter_count


def open_foreign(folder: Path, dtype: torch.dtype, device: torch.device) -> ForeignModel:
    """The model of `folder` with its weights, in evaluation mode, computed by transformers.

    Raises:
        ArchitectureError: it is not a causal language model that transformers knows.
        ModelError: its weights do not fit config.json or cannot be read.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    attention = _attention(_config(folder))
    disable_progress_bar()  # type: ignore[no-untyped-call]
    auto: Any = AutoModelForCausalLM
    with model_errors(ModelError, f"{folder}: transformers cannot open its model"):
        model, found = auto.from_pretrained(
            folder,
            dtype=dtype,
            output_loading_info=True,
            trust_remote_code=False,
            **attention,
        )
    missing = sorted(map(str, found["missing_keys"]))
    wrong = sorted(str(one) for one in found.get("mismatched_keys", ()))
    if missing or wrong:
        raise ModelError(
            f"{folder}: weights do not fit config.json; missing {missing[:3]}, of another shape "
            f"{wrong[:3]}"
        )
    return ForeignModel(model).to(device).eval()


def describe_foreign(folder: Path) -> ForeignModel:
    """The model of `folder` with its parameters on the meta device and its buffers in memory.
    Raises `ArchitectureError` as `open_foreign` does."""
    from accelerate import init_empty_weights
    from transformers import AutoModelForCausalLM

    config = _config(folder)
    auto: Any = AutoModelForCausalLM
    failed = f"{folder / 'config.json'}: transformers cannot build its model"
    with model_errors(ArchitectureError, failed):
        with init_empty_weights(include_buffers=False):
            model = auto.from_config(
                config, dtype=torch.float32, trust_remote_code=False, **_attention(config)
            )
        model.tie_weights()
    return ForeignModel(model).eval()


def counted(folder: Path) -> Architecture:
    """The sizes of the model of `folder` and its number of parameters, from config.json alone.
    Raises `ArchitectureError` as `open_foreign` does."""
    model = describe_foreign(folder)
    embedding = model.body.get_input_embeddings()  # type: ignore[operator]
    return replace(
        model.shape,
        counted=Counted(
            total=parameter_count(model),
            embedding=parameter_count(embedding),
            block=max(map(parameter_count, model.blocks())),
            largest=max(weight.numel() for weight in model.parameters()),
            linear=tuple(
                (name.rpartition(".")[2], *sorted(part.weight.shape))
                for name, part in model.named_modules()
                if isinstance(getattr(part, "weight", None), Tensor)
                and part.weight.dim() == 2
                and not isinstance(part, nn.Embedding)
            ),
        ),
    )


def unread_by_transformers(folder: Path) -> tuple[str, ...]:
    """Regular expressions of names that files of the folder's architecture may hold and
    transformers does not read. Raises `ArchitectureError` as `open_foreign` does."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    model: Any = MODEL_FOR_CAUSAL_LM_MAPPING[type(_config(folder))]
    return tuple(model._keys_to_ignore_on_load_unexpected or ())


def _attention(config: Any) -> dict[str, str]:
    """The argument that selects the attention of a model whose scores are capped, as Gemma 2's.
    transformers' default, `sdpa`, leaves the cap out."""
    capped = getattr(config.get_text_config(), "attn_logit_softcapping", None)
    return {} if capped is None else {"attn_implementation": "eager"}


def _config(folder: Path) -> Any:
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
    )

    with model_errors(ArchitectureError, f"{folder / 'config.json'}: transformers cannot read it"):
        # By default transformers asks on the terminal whether to execute code of the folder.
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    # Encoders such as BERT have a causal form too, which config.json then says.
    encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_decoder
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or encoder or config.is_encoder_decoder:
        raise ArchitectureError(
            f"{folder / 'config.json'}: model type {config.model_type!r} is not a causal language "
            "model that transformers knows; use one that AutoModelForCausalLM opens"
        )
    check_causal(folder / "config.json", getattr(config, "is_causal", True))
    return config
