"""Two ranks in processes of their own, whose weights change between two hand-overs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from learner_bench import spec
from torch.multiprocessing.spawn import spawn

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.sharded.process_group import MeetingPoint
from agentrl_components.sharded.rank import Rank, RankSetup
from agentrl_components.sharded.rows import local_rows, rows_of

LIMIT = 64
"""Bytes of a message: a few changes."""


@dataclass(frozen=True)
class Found:
    """What a rank found."""

    before: dict[str, torch.Tensor]
    after: dict[str, torch.Tensor]
    pay: bool
    changes: list[WeightChange]


def on_two_ranks(
    folder: Path, values: Mapping[str, Mapping[int, float]], out: Path
) -> tuple[Found, Found]:
    """The weights in bfloat16 before and after some entries were set to `values`, by the name of
    the parameter and their index in it, and the changes that each rank sends."""
    meeting = MeetingPoint("127.0.0.1")
    spawn(_run, (folder, values, meeting.address, out), nprocs=2)
    first, second = (torch.load(out / str(rank), weights_only=False) for rank in range(2))
    return first, second


def _setup(folder: Path, rank: int) -> RankSetup:
    settings = spec(model={"dtype": "bfloat16"})
    return RankSetup(spec=settings, folder=folder, device="cpu", rank=rank, ranks=2)


def _run(
    number: int,
    folder: Path,
    values: Mapping[str, Mapping[int, float]],
    address: str,
    out: Path,
) -> None:
    rank = Rank(_setup(folder, number))
    rank.join(address)
    rank.open_models()
    before = dict(rank.full_weights())
    rank.changes.remember()
    for name, parameter in rank.policy.named_parameters():
        rows = rows_of(parameter.shape[0], number, 2)
        width = parameter.numel() // parameter.shape[0]
        for index, value in values.get(name, {}).items():
            if rows.start <= index // width < rows.stop:
                local_rows(parameter).view(-1)[index - rows.start * width] = value
    pay = rank.changes.find()
    parts = rank.changes.gathered(LIMIT) if pay else ()
    changes = [change for part in parts for change in part]
    found = Found(before, dict(rank.full_weights()), pay, changes)
    torch.save(found, out / str(number))
    rank.leave()
