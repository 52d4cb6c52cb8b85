"""Processes of this machine that work together, each as a rank."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.spawn import spawn

from agentrl_components.sharded.process_group import MeetingPoint


def on_ranks(count: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work(rank, address, *given)` returns in each of `count` new processes; their process
    group can meet at `address`. Raises torch's `ProcessException` if one fails, after it has ended
    the others."""
    meeting = MeetingPoint("127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="agentrl-ranks-") as folder:
        results = Path(folder)
        spawn(_run, (results, work, meeting.address, given), nprocs=count)  # type: ignore[no-untyped-call]
        return [torch.load(_result(results, rank), weights_only=False) for rank in range(count)]


def _run(
    rank: int, results: Path, work: Callable[..., Any], address: str, given: tuple[Any, ...]
) -> None:
    torch.save(work(rank, address, *given), _result(results, rank))


def _result(results: Path, rank: int) -> Path:
    return results / f"{rank}.pt"
