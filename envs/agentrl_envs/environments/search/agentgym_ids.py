"""AgentGym's item ids of deep search: rows of the data sets, one after another.

Upstream joined the files of FlashRAG: of each data set its test set (or development set, where the
answers of the test set are not published), and the training sets of NQ and HotpotQA. An id is a row
of one of these files, in the published order.
"""

from __future__ import annotations

from agentrl_envs.env import Split
from agentrl_envs.environments.search.options import Dataset

_ROWS: tuple[tuple[Split, Dataset, int], ...] = (
    ("heldout", "nq", 3_610),
    ("heldout", "triviaqa", 11_313),
    ("heldout", "popqa", 14_267),
    ("heldout", "hotpotqa", 7_405),
    ("heldout", "2wikimultihopqa", 12_576),
    ("heldout", "musique", 2_417),
    ("heldout", "bamboogle", 125),
    ("train", "nq", 79_168),
    ("train", "hotpotqa", 90_447),
)
"""Split, data set and number of rows, in the order of the ids."""


def _starts() -> dict[tuple[Split, Dataset], range]:
    found, start = {}, 0
    for split, dataset, rows in _ROWS:
        found[split, dataset] = range(start, start + rows)
        start += rows
    return found


RANGES = _starts()
"""The ids of each file."""


def row_of(item: int) -> tuple[Split, Dataset, int]:
    """Split, data set and row, from 0, of an id. Raises `ValueError` for an unknown one."""
    for (split, dataset), ids in RANGES.items():
        if item in ids:
            return split, dataset, item - ids.start
    last = max(ids.stop for ids in RANGES.values()) - 1
    raise ValueError(f"AgentGym has the ids 0 to {last}; got {item}")
