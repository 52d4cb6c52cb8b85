"""A rank of the sharded update as a Ray actor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import ray

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.hand_over.nccl_sender import (
    SamplersClient,
    Sender,
    open_sender,
)
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.sharded.rank import Rank, RankSetup
from agentrl_components.workers.pool import keep_freed_memory


class RankActor(Rank):
    """`Rank`, and the exchange of checkpoint files with the driver, which may be on another
    machine. `node` is the driver's machine: there, files are exchanged in a folder."""

    def __init__(self, setup: RankSetup, model: ModelFolder) -> None:
        keep_freed_memory()
        super().__init__(replace(setup, folder=model.open(setup.spec)))
        self._sender: Sender | None = None

    def take_over(self) -> None:
        """Serve another driver, which opens the models again. Its call comes when those of the last
        one have ended. Raises `WorkersLostError` if the ranks have not met."""
        if not self.joined:
            raise WorkersLostError("the ranks have not met")
        self.drop_models()

    def meeting_point(self) -> str:
        """An address at which the ranks can meet."""
        return self.free_address(ray.util.get_node_ip_address())

    def open_nccl(self, address: str, client: SamplersClient) -> None:
        """Form the process group of a hand-over from GPU to GPU, in the place of an earlier one."""
        if self._sender is not None:
            self._sender.close()
        self._sender = open_sender(self, self._setup.rank, address, client)

    def send_nccl(self, version: int) -> int:
        """Send all weights to the samplers. Returns their bytes."""
        assert self._sender is not None
        return self._sender.send(version)

    def write_files(self, folder: Path, node: str) -> dict[str, bytes | None]:
        """Write this rank's part of a checkpoint. Returns the content of its files by path under
        `folder`; None if the driver finds the file there."""
        shared = ray.get_runtime_context().get_node_id() == node
        if shared:
            return {self._place(p): None for ps in self.write(folder).values() for p in ps}
        with TemporaryDirectory(prefix="agentrl-") as own:
            written = self.write(Path(own))
            return {self._place(p): p.read_bytes() for ps in written.values() for p in ps}

    def read_files(
        self, folder: Path, node: str, contents: dict[str, bytes] | None, *, reference: bool
    ) -> None:
        """Load what all ranks wrote: from `folder` on the driver's machine, elsewhere from
        `contents` by path under it. `reference`: as the reference policy."""
        read = self.read_reference if reference else self.read
        if ray.get_runtime_context().get_node_id() == node:
            read(folder)
            return
        with TemporaryDirectory(prefix="agentrl-") as own:
            for name, content in (contents or {}).items():
                path = Path(own) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            read(Path(own))

    @staticmethod
    def _place(path: Path) -> str:
        return f"{path.parent.name}/{path.name}"
