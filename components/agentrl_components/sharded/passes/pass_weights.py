"""The weights that passes compute with, made from a rank's rows of the master weights.

Several ranks gather them layer by layer, and add the gradients of all ranks (FSDP2). A rank that is
the only one has all rows. FSDP2 would still copy and cast each parameter twice and each gradient
once, and call Python before and after each layer, which takes as much time of the processor as
small passes themselves (`benchmarks/rank_passes.py`). `CopiedWeights` casts all weights at once,
and adds the gradients after each pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from agentrl_components.sharded.rows import local_rows, with_rows
from agentrl_components.update.packing import Pack

ALIGNMENT = 256
"""Bytes: where torch's allocator lets a tensor begin, and kernels expect one."""


class PassWeights(Protocol):
    """The weights that passes of a module compute with."""

    def loaded(self) -> AbstractContextManager[None]:
        """Within the block, passes compute with the master weights as they were when it began."""
        ...

    def passes(self, packs: Sequence[Pack], *, together: bool) -> Iterator[Pack]:
        """The packs of an update, one after another, for a pass forward and backward each. After
        them, gradients of the master weights are sums over packs and ranks. `together`: ranks
        exchange the gradients of all packs at once, and not those of each pack."""
        ...


def pass_weights(module: nn.Module, dtype: torch.dtype) -> PassWeights:
    """Those of a module that `model.open_policy` or `open_critic` returned."""
    if any(isinstance(part, FSDPModule) for part in module.modules()):
        return GatheredWeights(module)
    return CopiedWeights(module, dtype)


class GatheredWeights:
    """FSDP2 gathers the weights of a layer when a pass comes to it, if they are not there from the
    pass before (`PassRoom.keeps_weights`)."""

    def __init__(self, module: nn.Module) -> None:
        self._parts = [part for part in module.modules() if isinstance(part, FSDPModule)]

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """As `PassWeights.loaded`. Frees what passes have gathered: otherwise later ones would use
        it although an optimizer step has changed the rows."""
        yield
        for part in self._parts:
            part.reshard()

    def passes(self, packs: Sequence[Pack], *, together: bool) -> Iterator[Pack]:
        """As `PassWeights.passes`. FSDP2 exchanges gradients in the backward pass."""
        for number, pack in enumerate(packs, start=1):
            exchanged = not together or number == len(packs)
            for part in self._parts:
                part.set_requires_gradient_sync(exchanged, recurse=False)
            yield pack


class CopiedWeights:
    """All weights of the only rank. Those that are computed in another type than they are kept in
    are copied; the copies take memory within `loaded` only."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        """`module` computes in `dtype`, and has been allocated."""
        rows = {master: local_rows(master) for master in module.parameters()}
        self._sources = [own for own in rows.values() if own.dtype != dtype]
        self._copies = _in_one_storage(self._sources, dtype)
        self._bytes = self._copies[0].untyped_storage().nbytes() if self._copies else 0
        copies = iter(self._copies)
        computed = {
            master: nn.Parameter(
                own if own.dtype == dtype else next(copies), requires_grad=master.requires_grad
            )
            for master, own in rows.items()
        }
        self._trained = [(m, c) for m, c in computed.items() if m.requires_grad]
        self._places = [
            (owner, name, master, computed[master])
            for owner in module.modules()
            for name, master in owner.named_parameters(recurse=False, remove_duplicate=False)
        ]
        """Module, name in it, what is kept and what is computed with, of each parameter."""
        self._free()

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """As `PassWeights.loaded`."""
        self._copy()
        for owner, name, _, computed in self._places:
            owner._parameters[name] = computed
        try:
            yield
        finally:
            for owner, name, master, _ in self._places:
                owner._parameters[name] = master
            self._free()

    def passes(self, packs: Sequence[Pack], *, together: bool) -> Iterator[Pack]:
        """As `PassWeights.passes`."""
        del together  # there is no other rank
        for pack in packs:
            yield pack
            self._add_gradients()

    @torch.no_grad()
    def _add_gradients(self) -> None:
        """Add the gradients of a pass to those of the master weights."""
        sums, more = [], []
        for master, computed in self._trained:
            gradient, computed.grad = computed.grad, None
            if gradient is None:
                continue
            if master.grad is None:
                master.grad = with_rows(gradient.to(master.dtype), master)
            else:
                sums.append(local_rows(master.grad))
                more.append(gradient)
        if sums:
            torch._foreach_add_(sums, more)

    @torch.no_grad()
    def _copy(self) -> None:
        if self._copies:
            self._copies[0].untyped_storage().resize_(self._bytes)
            torch._foreach_copy_(self._copies, self._sources)

    def _free(self) -> None:
        if self._copies:
            self._copies[0].untyped_storage().resize_(0)


def _in_one_storage(tensors: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Tensors of the shapes of `tensors`, in one storage."""
    if not tensors:
        return []
    step = ALIGNMENT // dtype.itemsize
    sizes = [-(-one.numel() // step) * step for one in tensors]
    whole = torch.empty(sum(sizes), dtype=dtype, device=tensors[0].device)
    parts = torch.split(whole, sizes)
    return [part[: one.numel()].view(one.shape) for part, one in zip(parts, tensors, strict=True)]
