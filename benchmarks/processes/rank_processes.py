"""Processes of this machine that work together, each as a rank."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.spawn import spawn


def on_ranks(count: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work(rank, address, *given)` returns in each of `count` new processes; `address` is
    free for their process group. Raises torch's `ProcessException` if one fails, after it has
    ended the others."""
    with tempfile.TemporaryDirectory(prefix="agentrl-ranks-") as folder:
        results = Path(folder)
        spawn(_run, (results, work, free_address(), given), nprocs=count)  # type: ignore[no-untyped-call]
        return [torch.load(_result(results, rank), weights_only=False) for rank in range(count)]


def free_address() -> str:
    """An address of this machine with a port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def _run(
    rank: int, results: Path, work: Callable[..., Any], address: str, given: tuple[Any, ...]
) -> None:
    torch.save(work(rank, address, *given), _result(results, rank))


def _result(results: Path, rank: int) -> Path:
    return results / f"{rank}.pt"
