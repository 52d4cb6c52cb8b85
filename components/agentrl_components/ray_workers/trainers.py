"""Trainers whose ranks are Ray actors that hold the model in shards.

Legend: S sampled tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from agentrl_components.errors import StoreError
from agentrl_components.ray_workers.calls.opening import OpeningNotes
from agentrl_components.ray_workers.calls.results import call_all, results
from agentrl_components.ray_workers.checkpoints.store_shards import FOLDERS, StoreShards
from agentrl_components.ray_workers.hand_over.rank_source import RankSource
from agentrl_components.ray_workers.lifetimes import Lifetime, WithDriver
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.nodes.installed_code import installed_code
from agentrl_components.ray_workers.placement import AnyNode, Placement
from agentrl_components.ray_workers.resources import Reservations, SharedGpu
from agentrl_components.sharded.rank import RankSetup
from agentrl_components.sharded.rounds import Share, deal
from agentrl_components.spec import RunSpec
from agentrl_components.storage import keys
from agentrl_components.storage.files import Files
from agentrl_components.storage.scratch import ScratchFolder
from agentrl_components.update.objectives import ModelName, Objective, Sums, accumulate
from agentrl_components.update.packing import Example
from agentrl_components.update.trainers import Column, Shards


class RayTrainers:
    """Implements `update.trainers.Trainers` on ranks of FSDP2.

    Packs depend on the examples and the number of ranks, and gradients are sums over all packs, so
    the number of ranks changes results only by the rounding of sums in another order. For a given
    number of ranks they are the same bit for bit on CPUs."""

    shards: Shards | None

    def __init__(
        self,
        spec: RunSpec,
        model: ModelFolder,
        reserved: Reservations,
        device: str,
        lifetime: Lifetime | None = None,
        placement: Placement | None = None,
    ) -> None:
        """Start the ranks, or take over all of them from an earlier driver. They end with this
        driver unless `lifetime` says otherwise. `open` waits for them."""
        import ray

        from agentrl_components.ray_workers.rank_actor import RankActor

        self._spec, self._ranks = spec, reserved.trainers.count
        self.take_gpus: Callable[[], None] = lambda: None
        """Called before the ranks compute: samplers that use the same GPUs have to sleep then."""
        self._node = ray.get_runtime_context().get_node_id()
        lifetime, placement = lifetime or WithDriver(), placement or AnyNode()
        names = [f"trainer-{rank}" for rank in range(self._ranks)]
        self._actors = [one for one in lifetime.take_over(names, all_or_none=True) if one]
        self.taken_over = len(self._actors)
        """Ranks that an earlier driver had left."""
        actor, options = ray.remote(RankActor), reserved.trainer.options()
        self._actors = self._actors or [
            actor.options(**options, **lifetime.options(name), **placement.trainer(rank)).remote(
                RankSetup(
                    spec=spec, folder=model.path, device=device, rank=rank, ranks=self._ranks
                ),
                model,
            )
            for rank, name in enumerate(names)
        ]
        self.source = RankSource(self._actors)
        """The weights, for hand-overs to samplers."""

    def open(self, note: Callable[[str], None] = lambda _: None) -> Self:
        """Wait until each rank has its shard of the model in the folder. `note` is told how many
        have, if that takes minutes. Ends the ranks and raises `ModelError` if the model cannot be
        opened, `SpecError` if a machine has another AgentRL, and `WorkersLostError` if a rank
        dies."""
        with ExitStack() as failed:
            failed.callback(self.close)
            if not self.taken_over:
                # Before `join`, in which they wait for each other for a limited time.
                self._open_all("open_folder", note, installed_code())
                (address,) = call_all(self._actors[:1], "open_meeting")
                self._all("join", address)
            self._open_all("open_models", note)
            self.shards = self._shards()
            failed.pop_all()
        return self

    def differentiate(self, objective: Objective, examples: Sequence[Example]) -> Sums:
        self.take_gpus()
        total: Sums = {}
        for sums in self._each("differentiate", objective, self._deal(examples)):
            accumulate(total, sums)
        return total

    def step(self, model: ModelName, learning_rate: float) -> float:
        norm: float = self._all("step", model, learning_rate)[0]
        return norm

    def clear_moments(self, model: ModelName) -> None:
        self._all("clear_moments", model)

    def logprobs(self, examples: Sequence[Example], *, reference: bool = False) -> list[Column]:
        return self._per_example("logprobs", examples, reference)

    def values(self, examples: Sequence[Example]) -> list[Column]:
        return self._per_example("values", examples)

    def set_start(self) -> None:
        self.take_gpus()
        self._all("set_start")

    def restore_reference(self, files: Mapping[str, bytes | Path]) -> None:
        self._read(files, reference=True)

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        self.take_gpus()
        for part in self.source.buckets():
            yield from results([part])[0].tensors()

    def rest(self) -> None:
        """Give back the device memory that the ranks need while they compute only."""
        self.source.rest()

    def shared_gpus(self) -> list[SharedGpu]:
        """The GPUs of the ranks."""
        return self._all("shared_gpu")

    def state(self, spool: Path | None = None) -> Files:
        if spool is None:
            with ScratchFolder() as own:
                spooled = self.state(own)
                return {name: Path(str(path)).read_bytes() for name, path in spooled.items()}
        files: Files = {}
        folder = spool / keys.TRAINER
        for written in self._all("write_files", folder, self._node):
            for name, content in written.items():
                path = folder / name
                if content is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content)
                files[f"{keys.TRAINER}{name}"] = path
        return files

    def restore(self, files: Mapping[str, bytes | Path]) -> None:
        self._read(files, reference=False)

    def check(self) -> None:
        """Raise `WorkersLostError` if a rank has died."""
        self.source.check()

    def close(self) -> None:
        """End the ranks."""
        import ray

        for actor in self._actors:
            ray.kill(actor)

    def _read(self, files: Mapping[str, bytes | Path], *, reference: bool) -> None:
        """Have every rank load the files of a checkpoint."""
        self.take_gpus()
        ours = {
            name.removeprefix(keys.TRAINER): content
            for name, content in files.items()
            if name.startswith(FOLDERS)
        }
        if not ours:
            raise StoreError(
                "the checkpoint was written without spec.compute.ray, and its optimizer state "
                "cannot be read on Ray; go on without compute.ray, or start a new run from the "
                "checkpoint's folder with model.source"
            )
        with ScratchFolder() as own:
            contents = {}
            for name, content in ours.items():
                path = own / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, Path):
                    path.symlink_to(content.absolute())
                else:
                    path.write_bytes(content)
                if self._elsewhere():
                    contents[name] = path.read_bytes()
            import ray

            given = ray.put(contents) if contents else {}
            self._all("read_files", own, self._node, given, reference=reference)

    def _shards(self) -> Shards | None:
        """The ranks' own access to the store, if they are not all on the driver's machine and each
        can open it."""
        self._nodes, opens = zip(*self._all("whereabouts"), strict=True)
        if all(opens) and self._elsewhere():
            return StoreShards(self._actors, self._nodes)
        return None

    @property
    def pass_the_driver(self) -> bool:
        """Whether checkpoints of ranks on other machines pass through the memory of this
        process."""
        return self.shards is None and self._elsewhere()

    def _elsewhere(self) -> bool:
        """Whether a rank is on another machine."""
        return any(node != self._node for node in self._nodes)

    def _all(self, method: str, *arguments: object, **named: object) -> list[Any]:
        """Call a method of every rank with the same arguments."""
        return call_all(self._actors, method, *arguments, **named)

    def _open_all(self, method: str, note: Callable[[str], None], *arguments: object) -> None:
        """As `_all`, with notes."""
        calls = [getattr(actor, method).remote(*arguments) for actor in self._actors]
        results(calls, OpeningNotes("trainers", self._ranks, note))

    def _each(self, method: str, first: object, shares: Sequence[Share]) -> list[Any]:
        """Call a method of every rank with its share."""
        calls = zip(self._actors, shares, strict=True)
        return results([getattr(actor, method).remote(first, share) for actor, share in calls])

    def _per_example(
        self, method: str, examples: Sequence[Example], *arguments: object
    ) -> list[Column]:
        """What the ranks compute of their packs, cut into one array [S] per example."""
        self.take_gpus()
        shares = self._deal(examples)
        calls = zip(self._actors, shares, strict=True)
        computed = results(
            [getattr(actor, method).remote(share, *arguments) for actor, share in calls]
        )
        out: list[Column] = [np.empty(0, dtype=np.float32)] * len(examples)
        for share, of_share in zip(shares, computed, strict=True):
            for row, amounts_S in zip(share.packs, of_share, strict=False):
                sizes = np.bincount(row.episode_S, minlength=len(row.members))
                parts = np.split(amounts_S.numpy(), np.cumsum(sizes)[:-1])
                for member, part in zip(row.members, parts, strict=True):
                    out[member] = part
        return out

    def _deal(self, examples: Sequence[Example]) -> list[Share]:
        return deal(examples, self._spec.update.micro_batch_tokens, self._ranks)
