"""Ranks in processes of their own, and the addresses on which these listen."""

from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

from agentrl_components.sharded.process_group import MeetingPoint, join_group


@dataclass(frozen=True)
class Found:
    """What a rank found."""

    total: float
    """The sum of the ranks' numbers, 1 and 2."""
    hosts: set[str]
    """The addresses on which its process listens."""


def on_two_ranks(host: str, out: Path) -> list[Found]:
    """What two ranks find that meet at an address of this machine."""
    meeting = MeetingPoint(host)
    spawn(_run, (meeting.address, out), nprocs=2)
    return [torch.load(out / str(rank), weights_only=False) for rank in range(2)]


def _run(rank: int, address: str, out: Path) -> None:
    join_group("gloo", address, rank, 2)
    number = torch.tensor([1.0 + rank])
    dist.all_reduce(number)
    connections = psutil.Process().net_connections()
    hosts = {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    torch.save(Found(number.item(), hosts), out / str(rank))
    dist.destroy_process_group()
