"""What the learner needs of the processes that hold the model.

The learner selects examples and an objective. An implementation packs the examples, balances the
packs over its processes or ranks, and owns weights, gradients and optimizer state.
`workers.trainers.PoolTrainers` runs on worker processes of one machine. An implementation whose
ranks hold shards of the parameters has to give the same interface only.

Legend: S sampled tokens of an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.storage.files import Files, StoredFile
from agentrl_components.update.objectives import ModelName, Objective, Sums
from agentrl_components.update.packing import Example

Column = NDArray[np.float32]
"""One number per sampled token of an example [S]."""


class Shards(Protocol):
    """Files of a checkpoint that ranks on several machines write to the store and read from it."""

    def write(self, prefix: str) -> dict[str, StoredFile]:
        """Write master weights and optimizer state under `prefix`. Returns the files by name."""
        ...

    def covers(self, name: str) -> bool:
        """Whether this process need not read this file of a checkpoint: the ranks do, or nobody."""
        ...

    def read(self, files: Mapping[str, StoredFile], *, reference: bool) -> None:
        """Load what `write` wrote, from all files of a checkpoint that `covers` accepts;
        `reference`: the policy in it, as the reference policy. Raises `DamagedError` if a file is
        missing or damaged, and then nothing was loaded."""
        ...


class Trainers(Protocol):
    """Differentiates objectives and takes optimizer steps.

    The policy always exists; the critic exists if the algorithm needs one."""

    shards: Shards | None
    """None: the files of a checkpoint pass through this process, by `state` and `restore`."""

    def differentiate(self, objective: Objective, examples: Sequence[Example]) -> Sums:
        """Set the gradient of `objective.model` to that of `objective`, summed over `examples`.

        Returns the objective's sums over all sampled tokens. The result must not depend on the
        number of processes."""
        ...

    def step(self, model: ModelName, learning_rate: float) -> float:
        """Clip the gradient, take an optimizer step, and make the new weights visible to later
        calls. Returns the gradient's norm before clipping; if it is not finite, nothing changes."""
        ...

    def clear_moments(self, model: ModelName) -> None:
        """Reset the optimizer's moments."""
        ...

    def logprobs(self, examples: Sequence[Example], *, reference: bool = False) -> list[Column]:
        """Log-probabilities [S] of each example's sampled tokens, in nats, under the policy or
        under the reference policy."""
        ...

    def values(self, examples: Sequence[Example]) -> list[Column]:
        """The critic's values [S] before each example's sampled tokens."""
        ...

    def set_start(self) -> None:
        """Take the current policy as the start of reinforcement learning: it becomes the reference
        policy, and the critic's trunk if there is a critic. Until the first call both are the model
        as it was opened."""
        ...

    def restore_reference(self, files: Mapping[str, bytes | Path]) -> None:
        """Make the policy that is saved in `files` the reference policy."""
        ...

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """The policy's weights on the CPU, named as transformers names them, adapters merged. What
        is not asked for yet need not be in memory."""
        ...

    def state(self, spool: Path | None = None) -> Files:
        """Master weights and optimizer state, as files of a checkpoint: in the folder `spool`, or
        in memory without one."""
        ...

    def restore(self, files: Mapping[str, bytes | Path]) -> None:
        """Load what `state` returned."""
        ...
