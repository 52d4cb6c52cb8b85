"""A sampler on Ray: an engine and the environments, with weights that are handed over to it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.model.load import open_decoder, read_weights
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.sharded.bucket import Bucket
from agentrl_components.sharded.model import DTYPES
from agentrl_components.spec import RunSpec, Samplers
from agentrl_components.trajectory.record import Trajectory
from agentrl_components.workers.player import Player
from agentrl_components.workers.pool import keep_freed_memory


class Sampler:
    """Plays shares of episodes. Merged adapters are part of the weights, which are then float32."""

    def __init__(self, spec: RunSpec, model: ModelFolder, device: str) -> None:
        keep_freed_memory()
        if device == "cpu":
            torch.set_num_threads(1)  # as in `workers.worker`
        folder = model.open(spec)
        samplers = spec.compute.samplers or Samplers()
        dtype = "float32" if spec.model.lora is not None else spec.model.dtype
        options = VllmOptions(
            device="cuda" if device == "cuda" else "cpu",
            dtype=dtype,
            context=spec.model.context,
            replies=samplers.max_batch,
            memory_share=samplers.memory_share,
            tensor_parallel=samplers.tensor_parallel,
        )
        self._decoder = None
        if spec.rollout.engine == "torch":
            self._decoder = open_decoder(
                folder, DTYPES[dtype], torch.device(device), spec.model.implementation
            )
            decoder = self._decoder
            self._parameters = {decoder.saved_name(n): p for n, p in decoder.named_parameters()}
        self._folder = folder
        self._player = Player(spec, folder, options, self._decoder)
        self._weights: dict[str, Tensor] = {}
        """Weights for vLLM, which takes all of them at once."""

    @torch.no_grad()
    def load(self, bucket: Bucket) -> int:
        """Take some of the weights of the version that is played next. Returns their bytes."""
        for name, tensor in bucket.tensors():
            if self._decoder is None:
                self._weights[name] = tensor
            elif name in self._parameters:
                self._parameters[name].copy_(tensor)
        return bucket.content.nbytes

    def play(self, jobs: Sequence[Job], rules: Rules, version: int) -> list[Trajectory]:
        """The trajectories of `jobs`, as `Samplers.play` has them."""
        return self._player.play(jobs, rules, version, self._take_weights)

    def _take_weights(self) -> dict[str, Tensor]:
        """The weights that were handed over, or those of the model folder if none were. They are
        not kept: vLLM has a copy from now on."""
        taken, self._weights = self._weights, {}
        return taken or read_weights(self._folder)
