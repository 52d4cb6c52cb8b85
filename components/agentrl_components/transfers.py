"""Copies of arrays to the device of a model."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array as a tensor on a device. The copy is from pinned memory, so that it does not wait
    for work that was queued on the GPU before."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
