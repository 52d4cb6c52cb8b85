"""Compute: processes, devices and pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.fields.base import SpecModel
from agentrl_components.spec.fields.storage import EnvironmentVariable

Quantity = Annotated[
    str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$", max_length=20)
]
"""A Kubernetes resource quantity: 500m, 2, 4Gi."""
_FACTORS = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} | {
    f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGT", start=1)
}


def quantity_value(quantity: str) -> float:
    """The number that a quantity stands for: 512.0 for 0.5Ki."""
    number = quantity.rstrip("mkKMGTi")
    return float(number) * _FACTORS.get(quantity[len(number) :], 1.0)


ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)
]
"""The name of a Kubernetes object."""
Label = Annotated[str, StringConstraints(min_length=1, max_length=317)]


class Toleration(SpecModel):
    """A toleration of the stages' pods, as in a Kubernetes pod spec."""

    key: Label | None = None
    """Key of the taint. None: every key, with `operator: Exists`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """How `value` is compared."""
    value: str | None = Field(default=None, max_length=63)
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. None: every effect."""


class SecretVariable(SpecModel):
    """An environment variable whose value comes from a Secret in the run's namespace."""

    name: EnvironmentVariable
    """Name of the variable."""
    secret: ObjectName
    """Name of the Secret."""
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
    """Key in the Secret."""


class Compute(SpecModel):
    """Processes and devices. Fields after `placement` only apply on Kubernetes."""

    workers: int = Field(default=0, ge=0, le=256)
    """Worker processes for rollout and update, one thread each on CPU. 0: one per core, at most
    two. Results do not depend on it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: a GPU if one is available."""
    placement: Literal["colocated", "disaggregated"] = "colocated"
    """`colocated`: rollout and update alternate in one pod and share its device. `disaggregated`:
    one pod each; they exchange data through the object store. Results do not depend on it."""
    image: str | None = Field(default=None, min_length=1, max_length=512)
    """Container image of the stages. None: the image that the operator was installed with."""
    cpu: Quantity = "1"
    """CPU request of a stage's pod."""
    memory: Quantity = "2Gi"
    """Memory request and limit of a stage's pod."""
    gpus: int = Field(default=0, ge=0, le=1)
    """GPUs (`nvidia.com/gpu`) of each of the rollout and update pods. More than one is not
    supported yet."""
    node_selector: dict[str, str] = Field(default_factory=dict, max_length=16)
    """Node labels that the pods require."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=16)
    """Tolerations of the pods."""
    queue: ObjectName | None = None
    """Kueue LocalQueue that admits the run as a whole or each of its pods, as `kueue.admission` of
    the Helm chart says. None: no queue."""
    service_account: ObjectName | None = None
    """Service account of the stages' pods. None: the one that Kubeflow Pipelines assigns."""
    secret_env: tuple[SecretVariable, ...] = Field(default=(), max_length=32)
    """Environment variables of the stages from Secrets, such as a model hub token."""
    retries: int = Field(default=3, ge=0, le=20)
    """How often a failed pod of a stage is restarted before the phase counts as failed."""
