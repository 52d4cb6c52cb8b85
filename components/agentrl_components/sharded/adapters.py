"""Adapters that were handed over without the base weights (LoRA), and the merged weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from torch import Tensor

from agentrl_components.model import lora
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.sharded.model import DTYPES
from agentrl_components.sharded.weight_files import WeightFiles
from agentrl_components.spec import RunSpec


class AdapterMerge:
    """Merges adapters into the base weights, which are read from the model folder layer by layer:
    they never change, and a second copy of them in memory would be as large as the model."""

    def __init__(self, folder: Path, spec: RunSpec, decoder: CausalModel) -> None:
        """`decoder` is the model of the folder. Raises `ModelError` if a file of the folder cannot
        be read."""
        assert spec.model.lora is not None
        self._files = WeightFiles(folder)
        self._dtype = DTYPES[spec.model.dtype]
        self._scaling = spec.model.lora.alpha / spec.model.lora.rank
        self._transposed = {decoder.saved_name(name) for name in decoder.transposed}
        self._waiting: dict[str, Tensor] = {}
        """Adapters whose partner has not arrived, by name."""

    def merged(self, adapters: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """The weights whose adapters are complete now, as `Rank.full_weights` computes them."""
        for name, tensor in adapters:
            self._waiting[name] = tensor
            names = name.replace(".lora_B.", ".lora_A."), name.replace(".lora_A.", ".lora_B.")
            if all(one in self._waiting for one in names):
                a, b = (self._waiting.pop(one) for one in names)
                weight = f"{name.partition('.lora_')[0]}.weight"
                base = self._files.rows(weight, slice(None)).to(self._dtype)
                transposed = weight in self._transposed
                change = lora.product(a, b, self._scaling, transposed=transposed)
                yield weight, base.float() + change
