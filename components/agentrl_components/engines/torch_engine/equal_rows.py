"""Rows of a forward pass that would compute the same numbers.

The episodes of a group begin with the same tokens, and have the same tokens as long as they take
the same actions. A pass computes such rows once. Late in the training of `examples/babyai.yaml` a
fifth of the tokens is left to compute.

Legend: B rows, R distinct rows, C rows that repeat an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentrl_components.engines.torch_engine.reply import Session


class EqualRows:
    """Which rows of a pass have the same tokens, cached and new."""

    def __init__(self, fresh: Sequence[Sequence[int]], sessions: Sequence[Session]) -> None:
        """Group equal rows, and mark the sessions whose tokens are equal after this pass too."""
        distinct: dict[tuple[object, tuple[int, ...]], int] = {}
        rows_B: list[int] = []
        firsts_R: list[int] = []
        repeats_C: list[int] = []
        for row, (ids, session) in enumerate(zip(fresh, sessions, strict=True)):
            number = distinct.setdefault((session.history, tuple(ids)), len(distinct))
            (firsts_R if number == len(firsts_R) else repeats_C).append(row)
            rows_B.append(number)
        histories = [object() for _ in firsts_R]
        for number, session in zip(rows_B, sessions, strict=True):
            session.history = histories[number]
        self.firsts_R = np.array(firsts_R)
        """The first row of each set of equal ones."""
        self.rows_B = np.array(rows_B)
        """The set of each row."""
        self.repeats_C = np.array(repeats_C, dtype=np.int64)
        """The rows that are equal to an earlier one."""
