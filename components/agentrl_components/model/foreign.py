"""Models that transformers computes: every causal language model it knows.

Training pads each episode of a pack on the right. In a causal model no token sees the padding after
it, so no mask is needed. Logits are those of transformers, with the scaling or capping that some
architectures apply to them.

Legend: N packed tokens, S tokens whose hidden states are asked for, B episodes, T tokens of the
longest episode, E hidden width, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from agentrl_components.errors import ArchitectureError, ModelError, model_errors
from agentrl_components.model.architecture import Architecture, Counted, Rope
from agentrl_components.model.causal_model import Attend, CausalModel
from agentrl_components.model.packed_attention import PackedCausal


class ForeignModel(CausalModel):
    """Implements `CausalModel` with a model of transformers, whose parts it takes over under their
    names."""

    def __init__(self, model: Any) -> None:
        """`model` is a `PreTrainedModel` with a language-model head."""
        from transformers.pytorch_utils import Conv1D

        super().__init__()
        for name, part in model.named_children():
            self.add_module(name, part)
        self.shape = replace(shape_of(model.config), bounded=_has_position_table(model))
        self.config = model.config
        self.body_name = model.base_model_prefix
        if self.body_name not in self._modules:
            raise ArchitectureError(
                f"model type {model.config.model_type!r}: has no part {self.body_name!r} before "
                "its language-model head"
            )
        # The head is the whole model, with hidden states in place of its body.
        given = _Given(self.body)
        head = copy.copy(model)
        head._modules = {**model._modules, self.body_name: given}
        self._head: tuple[Any, _Given] = (head, given)  # a tuple, so that it is not a submodule
        self._saved_names: dict[str, str] = {}
        self._ties = _ties(self)
        self.tied_names = frozenset(name for name, _ in self._ties)
        self.transposed = frozenset(
            f"{name}.weight" for name, part in self.named_modules() if isinstance(part, Conv1D)
        )
        for number, block in enumerate(self.blocks()):
            block.forward = _recomputed(block.forward, self, number)
        self._try_head()

    @property
    def body(self) -> nn.Module:
        """The model without its head."""
        return self.get_submodule(self.body_name)

    def forward(
        self, ids_N: Tensor, positions_N: Tensor, attend: Attend, rows_S: Tensor | None = None
    ) -> Tensor:
        """As `CausalModel.forward`. Raises `TypeError` for an attention other than `PackedCausal`:
        sampling calls the body with a cache of transformers."""
        if not isinstance(attend, PackedCausal):
            raise TypeError("a model of transformers computes packed episodes only")
        found = self.body(input_ids=attend.pad_tokens(ids_N), use_cache=False)
        hidden_NE = attend.unpad(found.last_hidden_state)
        return hidden_NE if rows_S is None else hidden_NE.index_select(0, rows_S)

    def logits(self, x_NE: Tensor) -> Tensor:
        head, given = self._head
        given.states = x_NE[None]
        try:
            logits_NV: Tensor = head(inputs_embeds=x_NE[None], use_cache=False).logits[0]
        finally:
            given.states = None
        return logits_NV

    @torch.no_grad()
    def _try_head(self) -> None:
        """Raise `ArchitectureError` if the head cannot be computed without the body."""
        weight = getattr(self._head[0].get_output_embeddings(), "weight", None)
        if weight is None or weight.dim() != 2:
            return
        family = self.config.model_type
        failed = f"model type {family!r}: its language-model head cannot be computed"
        with model_errors(ArchitectureError, failed):
            self.logits(weight.new_zeros(1, weight.shape[1]))

    def blocks(self) -> Iterable[nn.Module]:
        lists = [part for part in self.modules() if isinstance(part, nn.ModuleList)]
        blocks: nn.ModuleList | tuple[()] = max(lists, key=_parameters, default=())
        if not blocks:
            raise ArchitectureError(f"model type {self.config.model_type!r}: it has no layers")
        return blocks

    def saved(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        from transformers.core_model_loading import revert_weight_conversion

        found: dict[str, Tensor] = revert_weight_conversion(self._head[0], weights)
        return found

    def saved_name(self, name: str) -> str:
        if name not in self._saved_names:
            found = list(self.saved({name: torch.empty(0)}))
            if len(found) != 1:
                raise ArchitectureError(
                    f"model type {self.config.model_type!r}: {name} is saved in another form, so "
                    "this model cannot be trained on Ray, nor with an algorithm that has a critic"
                )
            self._saved_names[name] = found[0]
        return self._saved_names[name]

    @torch.no_grad()
    def allocate(self, device: torch.device) -> None:
        kept = {name: buffer.clone() for name, buffer in self.named_buffers()}
        self.to_empty(device=device)
        for name, buffer in self.named_buffers():
            buffer.copy_(kept[name])
        self.tie()

    def tie(self) -> None:
        """Share again the weights that are tied."""
        for name, source in self._ties:
            place, _, leaf = name.rpartition(".")
            self.get_submodule(place)._parameters[leaf] = self.get_parameter(source)


class _Given(nn.Module):
    """Stands for the body of a model, and for a body in it (the decoder of OPT): returns hidden
    states that are there already. A head may read other attributes of the body, too."""

    def __init__(self, body: nn.Module, states: Tensor | None = None) -> None:
        super().__init__()
        self.states = states
        self._stands_for = (body,)  # a tuple, so that it is not a submodule

    def __getattr__(self, name: str) -> Any:
        from transformers import PreTrainedModel

        (body,) = self.__dict__["_stands_for"]
        found = getattr(body, name)
        return _Given(found, self.states) if isinstance(found, PreTrainedModel) else found

    def forward(self, *_: object, **__: object) -> _Output:
        assert self.states is not None
        return _Output(self.states)


class _Output:
    """The output of a body that has hidden states alone; anything else of it is None."""

    def __init__(self, states: Tensor) -> None:
        self.last_hidden_state = states

    def __getitem__(self, index: int) -> Tensor:
        return (self.last_hidden_state,)[index]

    def __getattr__(self, name: str) -> None:
        return None


def open_foreign(folder: Path, dtype: torch.dtype, device: torch.device) -> ForeignModel:
    """The model of `folder` with its weights, in evaluation mode, computed by transformers.

    Raises:
        ArchitectureError: it is not a causal language model that transformers knows.
        ModelError: its weights do not fit config.json or cannot be read.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    _config(folder)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    auto: Any = AutoModelForCausalLM
    with model_errors(ModelError, f"{folder}: transformers cannot open its model"):
        model, found = auto.from_pretrained(folder, dtype=dtype, output_loading_info=True)
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
            model = auto.from_config(config, dtype=torch.float32)
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
            total=_parameters(model),
            embedding=_parameters(embedding),
            block=max(map(_parameters, model.blocks())),
            linear=tuple(
                (name.rpartition(".")[2], *sorted(part.weight.shape))
                for name, part in model.named_modules()
                if isinstance(getattr(part, "weight", None), Tensor)
                and part.weight.dim() == 2
                and not isinstance(part, nn.Embedding)
            ),
        ),
    )


def shape_of(config: Any) -> Architecture:
    """The sizes that a configuration of transformers states. What only our decoder reads has its
    default."""
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
    )


def _positions(text: Any) -> int | None:
    """`Architecture.positions`."""
    stated: int | None = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    if stated is None or rope.get("rope_type") not in ("linear", "dynamic", "yarn"):
        return stated
    # With these the field often has the length before scaling.
    before = rope.get("original_max_position_embeddings") or stated
    return max(stated, int(before * (rope.get("factor") or 1)))


def _has_position_table(model: Any) -> bool:
    """Whether the model looks positions up in a table, such as a weight of each position."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    weights = {
        name: part.num_embeddings - getattr(part, "offset", 0)
        for name, part in model.named_modules()
        if isinstance(part, nn.Embedding)
    }
    tables = weights | {name: len(one) for name, one in model.named_buffers() if one.dim() == 2}
    return any(
        rows == positions and ("pos" in leaf or leaf == "wpe")
        for leaf, rows in ((name.rpartition(".")[2], rows) for name, rows in tables.items())
    )


def _config(folder: Path) -> Any:
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
    )

    with model_errors(ArchitectureError, f"{folder / 'config.json'}: transformers cannot read it"):
        config = AutoConfig.from_pretrained(folder)
    # Encoders such as BERT have a causal form too, which config.json then says.
    encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not config.is_decoder
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or encoder or config.is_encoder_decoder:
        raise ArchitectureError(
            f"{folder / 'config.json'}: model type {config.model_type!r} is not a causal language "
            "model that transformers knows; use one that AutoModelForCausalLM opens"
        )
    return config


def _ties(module: nn.Module) -> list[tuple[str, str]]:
    """Names of parameters that are the same object as an earlier one, with that one's name."""
    first: dict[int, str] = {}
    ties = []
    for name, parameter in module.named_parameters(remove_duplicate=False):
        known = first.setdefault(id(parameter), name)
        if known != name:
            ties.append((name, known))
    return ties


def _parameters(part: nn.Module) -> int:
    return sum(parameter.numel() for parameter in part.parameters())


def _recomputed(forward: Callable[..., Any], model: CausalModel, number: int) -> Callable[..., Any]:
    """The `forward` of block `number`, which recomputes its activations as `model.recomputed`
    says."""

    def run(*inputs: Any, **named: Any) -> Any:
        if number < model.recomputed and torch.is_grad_enabled():
            return checkpoint(forward, *inputs, use_reentrant=False, **named)
        return forward(*inputs, **named)

    return run
