"""Compute: processes, devices and their pods."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.base import SpecModel
from agentrl_components.spec.fields.pods import (
    Image,
    LabelValue,
    ObjectName,
    QueueName,
    SecretVariable,
    Toleration,
    Variable,
    Volume,
)
from agentrl_components.spec.quantities import Memory, Quantity

HOST = r"([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\])"
PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
"""1 to 65535."""
RAY = rf"^(embedded|cluster|{HOST}:{PORT})$"
"""`embedded`, `cluster`, or the address of a Ray cluster. Not `ray://`: Ray Client does not support
calls of actors that stream their results, by which weights are handed over."""


TRAINERS, SAMPLERS = "trainers", "samplers"
"""Names of the worker groups of a run's own Ray cluster (`ray: cluster`), and of the resources that
Ray's nodes in them have one of."""


class Trainers(SpecModel):
    """The ranks that hold the model in shards, each in a process of its own on Ray."""

    count: int = Field(default=1, ge=1, le=1024)
    """Number of ranks. Weights, gradients and optimizer state are divided among them."""
    gpus: int = Field(default=0, ge=0, le=1)
    """GPUs of each rank. 0: ranks compute on the CPU."""
    cpu: Quantity = "1"
    """CPU that each rank reserves on Ray. With `ray: cluster`, its pod requests as much for each
    rank."""
    memory: Memory = "2Gi"
    """Memory that each rank reserves on Ray. With `ray: cluster`, request and limit of its pod for
    each rank."""
    disk: Memory | None = None
    """Disk for temporary files of each rank, with `ray: cluster`: request and limit of its pod's
    `ephemeral-storage`, or the size of a volume (`compute.storageClass`). `agentrl plan` says how
    much is needed. None: no request, and what the node has."""
    per_pod: int = Field(default=1, ge=1, le=64)
    """Ranks in each pod, with `ray: cluster`. Must divide `count`. GPUs of one pod are connected by
    NVLink where the machine has it; between pods gradients go over the network."""


class Samplers(SpecModel):
    """The processes that play episodes on Ray, each with an inference engine and environments."""

    count: int = Field(default=1, ge=1, le=1024)
    """Number of samplers."""
    gpus: int = Field(default=0, ge=0, le=64)
    """GPUs of each sampler: 0, or as many as `tensorParallel`."""
    cpu: Quantity = "1"
    """CPU that a pod requests for each sampler, with `ray: cluster`."""
    memory: Memory = "2Gi"
    """Memory request and limit of a pod for each sampler, with `ray: cluster`."""
    disk: Memory | None = None
    """Disk for temporary files of each sampler, as `trainers.disk`."""
    per_pod: int = Field(default=1, ge=1, le=64)
    """Samplers in each pod, with `ray: cluster`. Must divide `count`."""
    tensor_parallel: int = Field(default=1, ge=1, le=64)
    """Devices over which an engine splits each layer (vLLM only). Must divide the model's heads."""
    memory_share: float = Field(default=0.85, gt=0, le=1)
    """Share of a GPU's memory that an engine may use for weights and cache (vLLM only)."""
    max_batch: int = Field(default=256, ge=1, le=65536)
    """Replies that an engine computes at the same time; more wait (vLLM only)."""
    eager: bool = False
    """Run vLLM on GPUs without CUDA graphs and compilation, where these fail with a model or take
    too much memory. Sampling is slower, and the engine starts sooner."""


class Compute(SpecModel):
    """Processes and devices. Fields after `placement` only apply on Kubernetes."""

    workers: int = Field(default=0, ge=0, le=256)
    """Worker processes for rollout and update, one thread each on CPU. 0: one per core, at most
    two. Results do not depend on it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Without `ray`: what the run computes on. `auto`: a GPU if one is available."""
    ray: Annotated[str, StringConstraints(pattern=RAY, max_length=300)] | None = None
    """Where trainers and samplers run as Ray actors. None: without Ray, in `workers` processes of
    this machine. `embedded`: a Ray that the run starts for itself on its machine. `host:port`: an
    existing Ray cluster, by the address of its head (GCS). `cluster`: one of the run's own on
    Kubernetes, which the operator creates by KubeRay, with pods for trainers and for samplers."""
    trainers: Trainers | None = None
    """Ranks of the update. Needs `ray`. None: the defaults, if `ray` is set."""
    samplers: Samplers | None = None
    """Samplers of the rollout. Needs `ray`. None: the defaults, if `ray` is set."""
    hand_over: Literal["auto", "ray", "nccl"] = "auto"
    """How weights get from trainers to samplers. Needs `ray`. `ray`: bucket by bucket through
    shared memory and the network. `nccl`: from GPU to GPU, by vLLM's weight-transfer engines; not
    with LoRA, whose adapters are small. `auto`: `nccl` where it is possible; with `shareGpus` in
    the memory of the GPU."""
    sparse_hand_over: bool = False
    """Hand over only the entries of weights that changed since the last hand-over, where they are
    few: the network carries less, and trainers keep a copy of the weights, 2 bytes per parameter
    over all ranks. Needs `ray`, `model.dtype: bfloat16`, no LoRA, and with vLLM samplers on GPUs
    and a model without recurrent layers. Results do not depend on it."""
    share_gpus: bool = False
    """Trainers and samplers use the same GPUs in turns: sampler N that of trainer N, with as many
    samplers as trainers. vLLM sleeps while trainers compute, and gets weights in the memory of the
    GPU. Trainers keep weights and moments there, so `samplers.memoryShare` has to leave room for
    them; `agentrl plan` says how much. Needs `ray`, `rollout.engine: vllm`, `rollout.maxStaleness:
    0`, and trainers and samplers with one GPU each."""
    placement: Literal["colocated", "disaggregated"] = "colocated"
    """`colocated`: rollout and update alternate in one pod and share its device. `disaggregated`:
    one pod each; they exchange data through the object store. Results do not depend on it."""
    image: Image | None = None
    """Container image of the stages. None: the image that the operator was installed with."""
    cpu: Quantity = "1"
    """CPU request of a stage's pod."""
    memory: Memory = "2Gi"
    """Memory request and limit of the pod of a stage that holds the model or opens an environment
    without servers (`replicas: 0`)."""
    gpus: int = Field(default=0, ge=0, le=1)
    """GPUs (`nvidia.com/gpu`) of each of the rollout and update pods. More than one is not
    supported yet."""
    node_selector: dict[str, LabelValue] = Field(default_factory=dict, max_length=16)
    """Node labels that the pods require."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=16)
    """Tolerations of the pods."""
    pod_labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=16)
    """Labels of all pods of the run: of stages, of the run's own Ray cluster and of environment
    servers; such as those of a cost report."""
    pod_annotations: dict[str, Annotated[str, StringConstraints(max_length=1024)]] = Field(
        default_factory=dict, max_length=16
    )
    """Annotations of the same pods, such as `karpenter.sh/do-not-disrupt: "true"`."""
    volumes: tuple[Volume, ...] = Field(default=(), max_length=16)
    """Claims that the run's own Ray cluster mounts, and the pods of the stages that hold the model
    or open environments without servers (`replicas: 0`)."""
    storage_class: ObjectName | None = None
    """StorageClass of a volume for the temporary files (`/tmp`) of each pod of trainers and of
    samplers, with `ray: cluster`. The volume has the size `disk`, and is deleted with its pod.
    None: the disk of the node."""
    queue: QueueName | None = None
    """Kueue LocalQueue that admits the run as a whole or each of its pods, as `kueue.admission` of
    the Helm chart says. None: no queue."""
    service_account: ObjectName | None = None
    """Service account of the pods of the stages and of the run's own Ray cluster. None: for stages
    the one that Kubeflow Pipelines assigns, and `default` for Ray."""
    env: tuple[Variable, ...] = Field(default=(), max_length=32)
    """Environment variables of the stages and of Ray's pods, such as `NCCL_SOCKET_IFNAME` or
    `HF_ENDPOINT`. Secrets belong in `secretEnv`. On one machine the run's processes have them too,
    and so have `agentrl eval` and `plan`, unless they were started with other values; the nodes of
    `ray: host:port` do not."""
    secret_env: tuple[SecretVariable, ...] = Field(default=(), max_length=32)
    """Environment variables of the stages from Secrets, such as a model hub token."""
    retries: int = Field(default=3, ge=0, le=20)
    """How often a failed pod of a stage is restarted before the phase counts as failed."""

    def hands_over_by_nccl(self, engine: str, *, lora: bool) -> bool:
        """Whether weights go from GPU to GPU over NCCL. `engine` is `rollout.engine`."""
        trainers, samplers = self.trainers or Trainers(), self.samplers or Samplers()
        gpus = trainers.gpus and samplers.gpus and not self.share_gpus
        return bool(gpus) and engine == "vllm" and not lora and self.hand_over != "ray"

    @property
    def processes(self) -> int:
        """Worker processes of this machine on CPU."""
        return self.workers or min(2, os.cpu_count() or 1)

    @property
    def devices(self) -> int:
        """GPUs of the run: of each stage's pod, or of all Ray actors together."""
        if self.ray is None:
            return self.gpus
        trainers, samplers = self.trainers or Trainers(), self.samplers or Samplers()
        own = 0 if self.share_gpus else samplers.count * samplers.gpus
        return trainers.count * trainers.gpus + own
