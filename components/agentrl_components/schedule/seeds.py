"""Random seeds as pure functions of what they are used for.

A seed is a hash of the run's seed and of names and indices, so nothing depends on execution order,
and no two uses share a stream.
"""

from __future__ import annotations

import hashlib


def derive(seed: int, *path: str | int) -> int:
    """63 bits from a run's seed and a path such as ("turn", iteration, task, sample, turn)."""
    text = "/".join([str(seed), *map(str, path)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1
