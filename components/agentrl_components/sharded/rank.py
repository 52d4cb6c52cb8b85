"""One rank of the sharded update: a process with its rows of the policy and the critic.

Every method but the constructor and `listen` is a collective call: all ranks have to make the
same calls in the same order.

Legend: S sampled tokens.
"""

from __future__ import annotations

import gc
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from agentrl_components.model import lora
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.value_model import Critic
from agentrl_components.schedule.seeds import derive
from agentrl_components.sharded import checkpoint
from agentrl_components.sharded.hand_over.bucket import Bucket, buckets
from agentrl_components.sharded.hand_over.changes import WeightChanges
from agentrl_components.sharded.hand_over.gathering import gathered_adapters, gathered_weights
from agentrl_components.sharded.model import DTYPES, describe, open_critic, open_policy
from agentrl_components.sharded.optimizer import ShardedOptimizer
from agentrl_components.sharded.passes.pass_weights import pass_weights
from agentrl_components.sharded.passes.recomputation import PassRoom, copies_fit
from agentrl_components.sharded.process_group import MeetingPoint, join_group
from agentrl_components.sharded.rounds import Share
from agentrl_components.sharded.rows import local_rows, rows_of
from agentrl_components.spec import RunSpec
from agentrl_components.update.logprobs import score, states
from agentrl_components.update.objectives import ModelName, Objective, PackSums, Sums, accumulate
from agentrl_components.update.packing import Pack

POLICY: Final = "policy"
CRITIC: Final = "critic"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSetup:
    """What a rank is created from."""

    spec: RunSpec
    folder: Path
    """The model folder, in transformers' layout."""
    device: str
    rank: int
    ranks: int
    divided: bool = False
    """Whether FSDP2 gathers the weights of the only rank too, even if it can hold copies of all."""


class Rank:
    """Computes gradients of its packs and updates its rows of the weights."""

    def __init__(self, setup: RankSetup) -> None:
        self._setup, self.spec = setup, setup.spec
        self.joined = False
        """Whether the rank is part of a process group."""
        self._meeting: MeetingPoint | None = None
        if setup.device == "cpu":
            torch.set_num_threads(1)  # as in `workers.worker`

    def listen(self, host: str) -> str:
        """Listen on an address of this machine, at which the ranks meet. Returns it with its port.
        Not a collective call: one rank makes it."""
        self._meeting = MeetingPoint(host)
        return self._meeting.address

    def join(self, address: str) -> None:
        """Join the process group."""
        setup = self._setup
        if setup.device == "cuda":
            # Otherwise the mesh chooses a device by the number of the rank.
            torch.cuda.init()  # type: ignore[no-untyped-call]
        backend = "nccl" if setup.device == "cuda" else "gloo"
        join_group(backend, address, setup.rank, setup.ranks)
        self._mesh = init_device_mesh(setup.device, (setup.ranks,))
        self.joined = True

    def open_models(self) -> None:
        """Open the models as they are in the model folder, without moments."""
        setup, spec = self._setup, self._setup.spec
        described, dtype = describe(setup.folder, spec), DTYPES[spec.model.dtype]
        fits = setup.ranks == 1 and copies_fit(described, spec, torch.device(setup.device))
        divided = setup.divided or not fits
        self.policy = open_policy(described, setup.folder, spec, self._mesh, divided=divided)
        self._optimizers = {POLICY: ShardedOptimizer(self.policy, spec.update)}
        self._weights = {POLICY: pass_weights(self.policy, dtype)}
        self.changes = WeightChanges(self.policy, dtype)
        self.critic: Critic | None = None
        if spec.algorithm.traits.needs_critic:
            self.critic = open_critic(setup.folder, spec, self._mesh, divided=divided)
            self._optimizers[CRITIC] = ShardedOptimizer(self.critic, spec.update)
            self._weights[CRITIC] = pass_weights(self.critic, dtype)
        self._reference: dict[str, Tensor] | None = None
        """This rank's rows of the reference policy's trainable weights."""
        if spec.algorithm.kl.coefficient > 0:
            self._reference = self._copy_of_policy()
        critics = [] if self.critic is None else [self.critic.decoder]
        self.room = PassRoom([self.policy, *critics], spec)

    def wait_for_device(self) -> None:
        """Wait until the device has done what it was given. NCCL's collective calls return before:
        a rank that does not wait counts as ready while it waits for the others, and the time limit
        of a call begins with those that were called long before it."""
        if self._setup.device == "cuda":
            torch.cuda.synchronize()

    def rest(self) -> None:
        """Give back the device memory that passes and optimizer steps took. Weights, moments and
        the reference policy stay. Not a collective call."""
        self.wait_for_device()
        if self._setup.device == "cuda":
            torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()

    def drop_models(self) -> None:
        """Free the memory of the models. `open_models` opens them again."""
        for name in ("policy", "critic", "changes", "_optimizers", "_weights", "_reference"):
            self.__dict__.pop(name, None)
        gc.collect()  # modules of FSDP refer to each other

    def leave(self) -> None:
        """Leave the process group."""
        self.joined = False
        dist.destroy_process_group()
        self._meeting = None

    def differentiate(self, objective: Objective, share: Share) -> Sums:
        """Set the gradients of `objective.model` to the sum over the packs of all ranks. Returns
        the sums of this rank's packs."""
        module: nn.Module = self.policy
        decoder = self.policy
        if objective.model == CRITIC:
            assert self.critic is not None
            module, decoder = self.critic, self.critic.decoder
        self._optimizers[objective.model].clear_gradients()
        drops = self._setup.spec.model.lora is not None and self._setup.spec.model.lora.dropout > 0
        found: list[PackSums] = []
        weights = self._weights[objective.model]
        with weights.loaded():
            passes = weights.passes(share.packs, together=self.room.exchanges_once)
            for number, pack in enumerate(passes):
                counts = number < share.counted
                if drops:
                    self._drop(pack)
                self.room.fit(decoder, pack.lengths, pack.free if module is decoder else 0)
                loss, sums = objective(module, pack)  # type: ignore[arg-type]
                # FSDP averages gradients over the ranks; the sum is wanted.
                scaled = loss * (self._setup.ranks if counts else 0)
                scaled.backward()  # type: ignore[no-untyped-call]
                if counts:
                    found.append(sums)
        if drops:
            lora.set_dropout(self.policy, False)
        total: Sums = {}
        for sums in found:  # read when no pack has to wait for it
            accumulate(total, sums)
        return total

    def step(self, model: ModelName, learning_rate: float) -> float:
        """As `Trainers.step`."""
        return self._optimizers[model].step(learning_rate)

    def clear_moments(self, model: ModelName) -> None:
        """As `Trainers.clear_moments`."""
        self._optimizers[model].clear_moments()

    @torch.no_grad()
    def logprobs(self, share: Share, reference: bool) -> list[Tensor]:
        """Log-probabilities [S] of the sampled tokens of each counted pack."""
        chunk = self._setup.spec.update.logits_chunk
        with self._reference_loaded() if reference else nullcontext():
            policy = self.policy
            return self._scores(share, POLICY, policy, lambda p: score(policy, p, chunk)[0])

    @torch.no_grad()
    def values(self, share: Share) -> list[Tensor]:
        """The critic's values [S] at the sampled tokens of each counted pack."""
        critic = self.critic
        assert critic is not None
        decoder = critic.decoder
        return self._scores(share, CRITIC, decoder, lambda p: critic.value(states(decoder, p)))

    @torch.no_grad()
    def set_start(self) -> None:
        """As `Trainers.set_start`."""
        if self._reference is not None:
            self._reference = self._copy_of_policy()
        if self.critic is not None:
            decoder = self.critic.decoder
            trunk = {decoder.saved_name(n): p for n, p in decoder.named_parameters()}
            for name, tensor in self.full_weights():
                if name in trunk:  # buffers are those of the model folder
                    rows = rows_of(len(tensor), self._setup.rank, self._setup.ranks)
                    local_rows(trunk[name]).copy_(tensor[rows])
            self.wait_for_device()

    def write(self, folder: Path) -> dict[str, list[Path]]:
        """Write the state of every model to a folder of its own in `folder`. Returns the files that
        this rank wrote, by model."""
        return {n: checkpoint.write(o, folder / n) for n, o in self._optimizers.items()}

    def read(self, folder: Path) -> None:
        """Load what all ranks wrote to `folder`."""
        for name, optimizer in self._optimizers.items():
            checkpoint.read(optimizer, folder / name)

    @torch.no_grad()
    def read_reference(self, folder: Path) -> None:
        """Make the policy that was written to `folder` the reference policy."""
        if self._reference is None:
            return
        now = self._copy_of_policy(torch.float32)
        checkpoint.read_weights(dict(self._optimizers[POLICY].parameters), folder / POLICY)
        self._reference = self._copy_of_policy()
        self._load_rows(now)

    @torch.no_grad()
    def buckets(self, limit: int, *, adapters: bool = False) -> Iterator[Bucket]:
        """The policy's weights, named as transformers names them, with adapters merged; or the
        `adapters` alone, named as peft names them. Gathered weight by weight; only the first rank
        yields them."""
        gathered = gathered_adapters(self.policy) if adapters else self.full_weights()
        if self._setup.rank == 0:
            yield from buckets(((name, tensor.cpu()) for name, tensor in gathered), limit)
        for _ in gathered:  # the other ranks take part in gathering
            self.wait_for_device()

    def full_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Each weight of the policy, as in `gathering.gathered_weights`."""
        return gathered_weights(self.policy, DTYPES[self._setup.spec.model.dtype])

    def meta_weights(self) -> dict[str, Tensor]:
        """What `full_weights` yields without LoRA, on the meta device."""
        dtype = DTYPES[self._setup.spec.model.dtype]
        types = {name: (p.shape, dtype) for name, p in self.policy.named_parameters()}
        types |= {name: (b.shape, b.dtype) for name, b in self.policy.saved_buffers().items()}
        return {
            self.policy.saved_name(name): torch.empty(shape, dtype=kind, device="meta")
            for name, (shape, kind) in types.items()
        }

    def _scores(
        self,
        share: Share,
        model: ModelName,
        decoder: CausalModel,
        of: Callable[[Pack], Tensor],
    ) -> list[Tensor]:
        computed = []
        with self._weights[model].loaded():
            for pack in share.packs:
                self.room.fit(decoder, pack.lengths, pack.free if model == POLICY else 0)
                computed.append(of(pack))
        # Copied when no pack has to wait for it; all, so that the device has done its part.
        return [one.cpu() for one in computed][: share.counted]

    def _copy_of_policy(self, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """Rows of the trainable weights, in the type they are computed in."""
        dtype = dtype or DTYPES[self._setup.spec.model.dtype]
        rows = self._optimizers[POLICY].weight_rows()
        return {name: part.to(dtype, copy=True) for name, part in rows}

    @contextmanager
    def _reference_loaded(self) -> Iterator[None]:
        """Put the reference policy's weights in the place of the policy's for the block."""
        assert self._reference is not None  # the objective has a KL penalty
        now = self._copy_of_policy(torch.float32)
        self._load_rows(self._reference)
        try:
            yield
        finally:
            self._load_rows(now)

    def _load_rows(self, rows: Mapping[str, Tensor]) -> None:
        for name, own in self._optimizers[POLICY].weight_rows():
            own.copy_(rows[name])

    def _drop(self, pack: Pack) -> None:
        """Turn dropout on. The dropout mask depends on the run's seed and the pack alone."""
        lora.set_dropout(self.policy, True)
        seed = derive(self._setup.spec.seed, "dropout", 0, zlib.crc32(pack.ids_N.tobytes()))
        torch.manual_seed(seed)
