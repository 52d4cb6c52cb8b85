"""What the work runs on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.fields.base import Part
from agentrl_components.spec.fields.storage import EnvironmentVariable

Quantity = Annotated[
    str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$", max_length=20)
]
"""An amount as Kubernetes writes it: 500m, 2, 4Gi."""
ObjectName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)
]
"""The name of an object of Kubernetes."""
Label = Annotated[str, StringConstraints(min_length=1, max_length=317)]


class Toleration(Part):
    """A taint that the stages' pods put up with."""

    key: Label | None = None
    """Of the taint. None: every key, with `operator: Exists`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """How `value` is compared."""
    value: str | None = Field(default=None, max_length=63)
    """Of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """None: every effect."""


class SecretVariable(Part):
    """A variable whose value is in a Secret of the run's namespace."""

    name: EnvironmentVariable
    """Of the variable."""
    secret: ObjectName
    """Of the Secret."""
    key: Annotated[str, StringConstraints(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
    """In the Secret."""


class Compute(Part):
    """Processes and devices; from `placement` on, what only matters on Kubernetes."""

    workers: int = Field(default=0, ge=0, le=256)
    """Processes that play and differentiate side by side, one thread each on CPU. 0: one per core,
    at most two. Results do not depend on it."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one."""
    placement: Literal["colocated", "disaggregated"] = "colocated"
    """colocated: rollout and update take turns in one pod and share its device. disaggregated: a
    pod each, which meet in the object store. Results do not depend on it."""
    image: str | None = Field(default=None, min_length=1, max_length=512)
    """Of the stages. None: the one that the operator was installed with."""
    cpu: Quantity = "1"
    """Cores that a stage's pod asks for."""
    memory: Quantity = "2Gi"
    """Memory that a stage's pod asks for, and may not exceed."""
    gpus: int = Field(default=0, ge=0, le=64)
    """Devices of rollout's and update's pods each (`nvidia.com/gpu`)."""
    node_selector: dict[str, str] = Field(default_factory=dict, max_length=16)
    """Labels that a node must have."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=16)
    """Taints that a node may have."""
    queue: ObjectName | None = None
    """Kueue's LocalQueue that admits the run as a whole, or each of its pods: the chart's
    `kueue.admission` says which. None: no queue."""
    service_account: ObjectName | None = None
    """Of the stages' pods. None: the one that Kubeflow Pipelines gives them."""
    secret_env: tuple[SecretVariable, ...] = Field(default=(), max_length=32)
    """Variables of the stages from Secrets, such as a token for a model hub."""
    retries: int = Field(default=3, ge=0, le=20)
    """Times that a stage whose pod failed is started again before its phase counts as failed."""
