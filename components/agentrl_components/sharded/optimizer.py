"""AdamW on the rows that a rank holds, with clipping by the norm over all ranks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.adamw import adamw

from agentrl_components.sharded.rows import local_rows, with_rows
from agentrl_components.spec import Update
from agentrl_components.update.adamw import BETA1, EPSILON

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Rows of parameters that are updated alike."""

    decayed: bool
    weights: list[Tensor]
    gradients: list[Tensor]
    first_moments: list[Tensor]
    second_moments: list[Tensor]


class ShardedOptimizer:
    """AdamW (arXiv 1711.05101) over the trainable parameters of a sharded module.

    Master weights, gradients and both moments are float32 and divided over the ranks: 16 bytes a
    parameter together."""

    def __init__(self, module: nn.Module, update: Update) -> None:
        self._named = {n: p for n, p in module.named_parameters() if p.requires_grad}
        self._update = update
        self._moments: dict[str, dict[str, Tensor]] = {}
        """This rank's rows of both moments by name of the moment and of the parameter."""
        self.steps = 0
        """Steps since the moments were last cleared."""

    @property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        """The trainable parameters by name."""
        return self._named

    def clear_gradients(self) -> None:
        """Drop all gradients."""
        for parameter in self._named.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self, learning_rate: float) -> float:
        """Clip the gradient's norm and update the weights. Returns the norm before clipping. If it
        is not finite, or there are no gradients, because no rank had examples, nothing is updated.
        A collective call."""
        gradients = {n: local_rows(p.grad) for n, p in self._named.items() if p.grad is not None}
        groups = self._groups(gradients)  # before the norm, which waits for the device
        norm = global_norm(gradients.values())
        if gradients and math.isfinite(norm):
            scale = self._update.max_grad_norm / (norm + 1e-6)
            if scale < 1:
                torch._foreach_mul_(list(gradients.values()), scale)
            self._apply(groups, learning_rate)
        self.clear_gradients()
        return norm

    def clear_moments(self) -> None:
        """Reset the moments."""
        self._moments, self.steps = {}, 0

    def tensors(self, *, moments: bool) -> dict[str, Tensor]:
        """The sharded tensors of a checkpoint, as views: master weights and, with `moments`, the
        optimizer's state."""
        out: dict[str, Tensor] = {f"weight.{n}": p.detach() for n, p in self._named.items()}
        if moments:
            self._allocate()
            for moment, rows in self._moments.items():
                out |= {f"{moment}.{n}": with_rows(rows[n], p) for n, p in self._named.items()}
        return out

    def weight_rows(self) -> Iterator[tuple[str, Tensor]]:
        """This rank's rows of the master weights by name."""
        for name, parameter in self._named.items():
            yield name, local_rows(parameter)

    def _allocate(self) -> None:
        if not self._moments:
            self._moments = {
                moment: {n: torch.zeros_like(local_rows(p)) for n, p in self._named.items()}
                for moment in MOMENTS
            }

    def _groups(self, gradients: Mapping[str, Tensor]) -> list[_Group]:
        """The parameters with weight decay, and norms and biases, which have none."""
        if gradients:
            self._allocate()
        groups = []
        for decayed in (True, False):
            names = [
                n
                for n in gradients
                if (self._named[n].dim() >= 2) is decayed and gradients[n].numel()
            ]
            if names:
                group = _Group(
                    decayed=decayed,
                    weights=[local_rows(self._named[n]) for n in names],
                    gradients=[gradients[n] for n in names],
                    first_moments=[self._moments["exp_avg"][n] for n in names],
                    second_moments=[self._moments["exp_avg_sq"][n] for n in names],
                )
                groups.append(group)
        return groups

    def _apply(self, groups: Iterable[_Group], learning_rate: float) -> None:
        for group in groups:
            count = len(group.weights)
            steps = torch.full((count,), float(self.steps), device=group.weights[0].device)
            adamw(
                group.weights,
                group.gradients,
                group.first_moments,
                group.second_moments,
                [],
                list(steps.unbind()),
                fused=True,
                amsgrad=False,
                beta1=BETA1,
                beta2=self._update.beta2,
                lr=learning_rate,
                weight_decay=self._update.weight_decay if group.decayed else 0.0,
                eps=EPSILON,
                maximize=False,
            )
        self.steps += 1


def global_norm(gradients: Iterable[Tensor]) -> float:
    """The Euclidean norm of gradients whose rows are divided over the ranks. A collective call."""
    squares: list[float] = []
    if found := list(gradients):
        norms = torch._foreach_norm(found, 2, dtype=torch.float64)
        # Copied from the device at once: a copy for each would wait for the device each time.
        squares = torch.stack(norms).square().tolist()
    total = torch.tensor(sum(squares), dtype=torch.float64)
    if dist.get_world_size() > 1:
        on = total if dist.get_backend() == "gloo" else total.cuda()
        dist.all_reduce(on)
        total = on.cpu()
    return float(total.sqrt())
