"""Quantities of Kubernetes resources: their types in the manifest, and their values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated

from pydantic import StringConstraints

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"
MEMORY = r"^([1-9][0-9]*(\.[0-9]+)?|0\.[0-9]*[1-9][0-9]*)(k|Ki|M|Mi|G|Gi|T|Ti)?$"

Quantity = Annotated[str, StringConstraints(pattern=QUANTITY, max_length=20)]
"""A Kubernetes resource quantity: 500m, 2, 4Gi."""
Memory = Annotated[str, StringConstraints(pattern=MEMORY, max_length=20)]
"""A quantity of bytes above 0: 512Mi, 4Gi."""

_FACTORS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGT", start=1)
}


def quantity_value(quantity: str) -> float:
    """The number that a quantity stands for: 512.0 for 0.5Ki."""
    number, suffix = _parts(quantity)
    return float(number) * _FACTORS.get(suffix, 1.0)


def multiplied(quantity: str, factor: int) -> str:
    """The quantity for `factor` times as much, with the same suffix: 3.0Gi for 1.5Gi and 2."""
    number, suffix = _parts(quantity)
    return f"{Decimal(number) * factor}{suffix}"


def added(quantity: str, other: str) -> str:
    """The quantity for both together: 3Gi for 1Gi and 2Gi, and 1500m for 1 and 500m."""
    (number, suffix), (more, its) = _parts(quantity), _parts(other)
    if suffix == its:
        return f"{Decimal(number) + Decimal(more)}{suffix}"
    return f"{round((quantity_value(quantity) + quantity_value(other)) * 1000)}m"


def _parts(quantity: str) -> tuple[str, str]:
    """The number and the suffix of a quantity."""
    number = quantity.rstrip("mkKMGTi")
    return number, quantity[len(number) :]


def whole_cpus(quantity: str) -> int:
    """CPUs that a Ray node in a pod with this request has: Ray counts whole ones, at least one."""
    return max(1, math.ceil(quantity_value(quantity)))
