"""A decoder or critic whose parameters are divided over the ranks of a process group.

Every rank reads its own rows of the model folder's files, so no process holds the whole model.
Master weights are float32. With `model.dtype: bfloat16` layers are computed in bfloat16, and
gradients are summed over packs and ranks in float32. With LoRA, the frozen weights are kept in the
model's type. `divided`: FSDP2 gathers the weights layer by layer; otherwise the only rank computes
with `CopiedWeights`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from agentrl_components.compilers import compiler
from agentrl_components.errors import ModelError
from agentrl_components.model import lora
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import chosen_implementation
from agentrl_components.model.shape import read_native
from agentrl_components.model.value_model import Critic
from agentrl_components.schedule.seeds import derive
from agentrl_components.sharded.rows import local_rows, rows_of
from agentrl_components.sharded.weight_files import WeightFiles
from agentrl_components.spec import RunSpec

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def describe(folder: Path, spec: RunSpec) -> CausalModel:
    """The decoder of the folder on the meta device, without weights. Raises `ModelError` if its
    config.json is not that of a model, or the model cannot compute episodes of the context."""
    decoder: CausalModel
    if chosen_implementation(folder, spec.model.implementation) == "transformers":
        from agentrl_components.model.foreign.open import describe_foreign

        decoder = describe_foreign(folder)
    else:
        with torch.device("meta"):
            decoder = Decoder(read_native(folder))
    decoder.shape.check_context(spec.model.context)
    return decoder


def open_policy(
    decoder: CausalModel, folder: Path, spec: RunSpec, mesh: DeviceMesh, *, divided: bool
) -> CausalModel:
    """The sharded policy, made of what `describe` returned, with adapters if the manifest asks for
    LoRA. Raises `ModelError` if the folder's weights are missing or do not fit config.json."""
    if spec.model.lora is not None:
        for parameter in decoder.parameters():  # buffers keep their precision
            parameter.data = parameter.data.to(DTYPES[spec.model.dtype])
        lora.add(decoder, spec.model.lora, spec.seed)
        for parameter in decoder.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
    if divided:
        _divide(decoder, spec, mesh)
    else:
        hold_whole(decoder, mesh)
    decoder.allocate(torch.device(mesh.device_type))
    load_rows(decoder, WeightFiles(folder), mesh, spec.seed)
    _finish(decoder, spec)
    return decoder


def open_critic(folder: Path, spec: RunSpec, mesh: DeviceMesh, *, divided: bool) -> Critic:
    """The sharded critic: the folder's decoder, and a head whose estimates are 0."""
    trunk = describe(folder, spec)
    with torch.device("meta"):
        critic = Critic(trunk)
    if divided:
        _divide(critic.decoder, spec, mesh)
        fully_shard(critic.head, mesh=mesh, mp_policy=_precision(spec))
    else:
        hold_whole(critic, mesh)
    critic.decoder.allocate(torch.device(mesh.device_type))
    critic.head.to_empty(device=mesh.device_type)
    for parameter in critic.head.parameters():
        local_rows(parameter).zero_()
    load_rows(critic.decoder, WeightFiles(folder), mesh, spec.seed)
    _finish(critic.decoder, spec)
    return critic


@torch.no_grad()
def load_rows(decoder: CausalModel, files: WeightFiles, mesh: DeviceMesh, seed: int) -> None:
    """Read this rank's rows of every weight, and the buffers. Adapters are not in the files and are
    drawn."""
    parameters, buffers = dict(decoder.named_parameters()), decoder.saved_buffers()
    names = {
        name: decoder.saved_name(name.replace(".base_layer.", "."))
        for name in [*parameters, *buffers]
        if ".lora_" not in name
    }
    held = parameters | buffers
    shapes = {stored: tuple(held[name].shape) for name, stored in names.items()}
    files.check(shapes, decoder.is_unread)
    for name, parameter in parameters.items():
        rows = rows_of(parameter.shape[0], mesh.get_local_rank(), mesh.size())
        if name in names:
            local_rows(parameter).copy_(files.rows(names[name], rows))
        else:
            local_rows(parameter).copy_(_adapter(name, parameter.shape, seed)[rows])
    for name, buffer in buffers.items():
        buffer.copy_(files.whole(names[name]))


def _adapter(name: str, shape: Iterable[int], seed: int) -> Tensor:
    """The initial weights of an adapter: uniform for A, as peft draws it, and 0 for B. A function
    of the name, so that they do not depend on the number of ranks."""
    full = torch.zeros(tuple(shape))
    if ".lora_A." in name:
        bound = full.shape[1] ** -0.5
        generator = torch.Generator().manual_seed(derive(seed, "adapters", name))
        full.uniform_(-bound, bound, generator=generator)
    return full


def _precision(spec: RunSpec) -> MixedPrecisionPolicy:
    if spec.model.dtype == "float32":
        return MixedPrecisionPolicy()
    dtype = DTYPES[spec.model.dtype]
    return MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)


def _divide(decoder: CausalModel, spec: RunSpec, mesh: DeviceMesh) -> None:
    """Divide each layer by itself, and the rest of the decoder together."""
    precision = _precision(spec)
    for layer in decoder.blocks():
        fully_shard(layer, mesh=mesh, mp_policy=precision)
    fully_shard(decoder, mesh=mesh, mp_policy=precision)


def hold_whole(module: nn.Module, mesh: DeviceMesh) -> None:
    """Replace each parameter by a `DTensor` whose rows are all on the only rank of `mesh`."""
    found: dict[nn.Parameter, nn.Parameter] = {}
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False, remove_duplicate=False):
            if parameter not in found:
                rows = DTensor.from_local(parameter.detach(), mesh, [Shard(0)], run_check=False)
                found[parameter] = nn.Parameter(rows, requires_grad=parameter.requires_grad)
            owner._parameters[name] = found[parameter]


def _finish(decoder: CausalModel, spec: RunSpec) -> None:
    """Set how the decoder is computed. Raises `ModelError` if it cannot be compiled."""
    if spec.update.compile:
        if compiler(decoder.device.type) is None:
            raise ModelError(
                "update.compile: no compiler is installed on the trainers' machines; install g++, "
                "or set it to false"
            )
        decoder.compile_parts()
    decoder.eval()
