"""A rank of the sharded update as a Ray actor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import ray
import torch

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.checkpoints.rank_store import RankStore, rank_files
from agentrl_components.ray_workers.hand_over.nccl_client import SamplersClient
from agentrl_components.ray_workers.hand_over.nccl_sender import Sender, open_sender
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.nodes.address import ReservedPort
from agentrl_components.ray_workers.nodes.installed_code import check_code
from agentrl_components.ray_workers.resources import SharedGpu, assigned_gpus, use_assigned_gpus
from agentrl_components.sharded.hand_over.bucket import ChangeBucket, change_bucket
from agentrl_components.sharded.hand_over.shared_memory import SharedBucket, SharedBuckets
from agentrl_components.sharded.rank import Rank, RankSetup
from agentrl_components.storage.files import StoredFile
from agentrl_components.storage.scratch import ScratchFolder
from agentrl_components.workers.memory import set_up_memory


class RankActor(Rank):
    """`Rank`, and the exchange of checkpoint files: with the store, or with the driver, which may
    be on another machine. `node` is the driver's machine: there, files are exchanged in a
    folder."""

    def __init__(self, setup: RankSetup, model: ModelFolder) -> None:
        use_assigned_gpus()
        set_up_memory()
        super().__init__(setup)
        self._model = model
        self._sender: Sender | None = None
        self._nccl_port: ReservedPort | None = None
        self._shared: SharedBuckets | None = None
        """The weights of the hand-over under way, in memory that a sampler reads."""
        self._store = RankStore(setup.spec.storage)

    def open_folder(self, code: str) -> None:
        """Open the model folder on this machine. Comes before `open_models`. It is not part of the
        constructor, whose errors Ray reports as the death of the actor. Raises `ModelError`, and
        `SpecError` if `code`, which the driver runs, is not installed on this machine."""
        check_code(code)
        self._setup = replace(self._setup, folder=self._model.open(self.spec))

    def whereabouts(self) -> tuple[str, bool]:
        """This machine, and whether the store of the run can be opened on it."""
        return ray.get_runtime_context().get_node_id(), self._store.opens

    def take_over(self) -> None:
        """Serve another driver, which opens the models again. Its call comes when those of the last
        one have ended. Raises `WorkersLostError` if the ranks have not met."""
        if not self.joined:
            raise WorkersLostError("the ranks have not met")
        self.wait_for_device()
        self.drop_models()

    def open_meeting(self) -> str:
        """As `listen`, on this machine's address in the cluster."""
        return self.listen(ray.util.get_node_ip_address())

    def find_changes(self) -> bool:
        """As `WeightChanges.find`."""
        return self.changes.find()

    def change_buckets(self, limit: int) -> Iterator[ChangeBucket]:
        """The changes that `find_changes` found. Only the first rank yields them."""
        for part in self.changes.gathered(limit):
            yield change_bucket(part)
        self.wait_for_device()

    def remember_weights(self) -> None:
        """Keep the weights: all samplers have been given them."""
        self.changes.remember()

    def reserve_nccl_address(self) -> str:
        """An address at which vLLM, in this process, can listen in `open_nccl`."""
        self._nccl_port = ReservedPort(ray.util.get_node_ip_address())
        return self._nccl_port.address

    def open_nccl(self, address: str, client: SamplersClient) -> None:
        """Form the process group of a hand-over from GPU to GPU, in the place of an earlier one."""
        if self._sender is not None:
            self._sender.close()
        try:
            self._sender = open_sender(self, self._setup.rank, address, client)
        finally:
            if self._nccl_port is not None:
                self._nccl_port.release()

    def send_nccl(self, version: int, since: int | None) -> int:
        """Send all weights to the samplers, or the changes `since` a version, which `find_changes`
        found. Returns their bytes."""
        assert self._sender is not None
        return self._sender.send(version, since)

    def shared_gpu(self) -> SharedGpu:
        """The GPU of this rank."""
        node = ray.get_runtime_context().get_node_id()
        return SharedGpu(rank=self._setup.rank, node=node, number=",".join(assigned_gpus()))

    def start_sharing(self, limit: int) -> None:
        """Begin to put all weights into memory that a sampler of the same device reads, in buckets
        of at most `limit` bytes or of one weight."""
        self._shared = SharedBuckets(self.full_weights(), limit)

    @torch.no_grad()
    def share(self, readers: Collection[int]) -> SharedBucket | None:
        """The next bucket, in memory if this rank is one of `readers`; None: there are no other
        weights. A collective call: all ranks gather the same weights."""
        assert self._shared is not None
        return self._shared.fill(read=self._setup.rank in readers)

    def stop_sharing(self) -> None:
        """Free the memory of the buckets, which the sampler does not read any more."""
        self._shared = None
        self.rest()

    def put_files(self, prefix: str) -> dict[str, StoredFile]:
        """Write this rank's part of a checkpoint to the store, under `prefix`. Returns its files by
        path under it."""
        return self._store.write(self, prefix)

    def fetch_files(self, files: Mapping[str, StoredFile], whole: Collection[str]) -> Path:
        """Fetch files of a checkpoint from the store, by path; of those that are not in `whole`
        their headers alone. Returns their folder, until `drop_files`."""
        return self._store.fetch(files, whole)

    def drop_files(self) -> None:
        """Remove what was fetched."""
        self._store.drop()

    def write_files(self, folder: Path, node: str) -> dict[str, bytes | None]:
        """Write this rank's part of a checkpoint. Returns the content of its files by path under
        `folder`; None if the driver finds the file there."""
        if ray.get_runtime_context().get_node_id() == node:
            return dict.fromkeys(rank_files(self, folder))
        with ScratchFolder() as own:
            return {name: path.read_bytes() for name, path in rank_files(self, own).items()}

    def read_files(
        self, folder: Path, node: str, contents: dict[str, bytes], *, reference: bool
    ) -> None:
        """Load what all ranks wrote: from `folder` on the driver's machine, elsewhere from
        `contents` by path under it. `reference`: as the reference policy."""
        if ray.get_runtime_context().get_node_id() == node:
            self.read_folder(folder, reference=reference)
            return
        with ScratchFolder() as own:
            for name, content in contents.items():
                path = own / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self.read_folder(own, reference=reference)

    def read_folder(self, folder: Path, *, reference: bool) -> None:
        """Load what all ranks wrote from a folder of this machine."""
        if reference:
            self.read_reference(folder)
        else:
            self.read(folder)
