"""Parts of the pods of a run: images, labels, tolerations, variables and volumes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import StringConstraints

from agentrl_components.spec.base import SpecModel
from agentrl_components.spec.fields.storage import EnvironmentVariable

IMAGE = r"^[a-zA-Z0-9][-a-zA-Z0-9._/:@\[\]]*$"
Image = Annotated[str, StringConstraints(pattern=IMAGE, max_length=512)]
"""A container image, as in `registry:5000/team/agentrl:1` or with `@sha256:...`."""
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}([.]{_DNS_LABEL})*"
"""A DNS subdomain as in Kubernetes (RFC 1123), whose labels have no limits of their own. Valid
for pydantic (Rust regex), the API server (RE2) and Python."""
ObjectName = Annotated[str, StringConstraints(pattern=rf"^{_SUBDOMAIN}$", max_length=253)]
"""The name of a Kubernetes object."""
QueueName = Annotated[str, StringConstraints(pattern=rf"^{_SUBDOMAIN}$", max_length=63)]
"""The name of a Kubernetes object that is also the value of a label."""
_KEY_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY = rf"^({_SUBDOMAIN}/)?{_KEY_NAME}$"
LONGEST_KEY = 253
"""Bound on a key with its prefix. Kubernetes has this bound for the prefix, which a pattern cannot
express beside its form."""
LabelKey = Annotated[str, StringConstraints(pattern=LABEL_KEY, max_length=LONGEST_KEY)]
"""The key of a label or of a taint."""
_ANNOTATION_KEY = rf"^({_SUBDOMAIN.replace('a-z', 'A-Za-z')}/)?{_KEY_NAME}$"
AnnotationKey = Annotated[str, StringConstraints(pattern=_ANNOTATION_KEY, max_length=LONGEST_KEY)]
"""The key of an annotation: its prefix may have capital letters."""
LabelValue = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
]
"""The value of a label or of a taint."""


class Toleration(SpecModel):
    """A toleration of the stages' pods, as in a Kubernetes pod spec."""

    key: LabelKey | None = None
    """Key of the taint. None: every key, with `operator: Exists`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """How `value` is compared."""
    value: LabelValue | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. None: every effect."""


class Variable(SpecModel):
    """An environment variable with a value that everybody may read who reads the manifest."""

    name: EnvironmentVariable
    """Name of the variable."""
    value: Annotated[str, StringConstraints(max_length=1024)]
    """Its value."""


class SecretVariable(SpecModel):
    """An environment variable whose value comes from a Secret in the run's namespace."""

    name: EnvironmentVariable
    """Name of the variable."""
    secret: ObjectName
    """Name of the Secret."""
    key: Annotated[
        str, StringConstraints(pattern=r"^[.]?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", max_length=253)
    ]
    """Key in the Secret."""


VolumeName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)
]
"""The name of a volume of pods: without dots."""


class Volume(SpecModel):
    """A PersistentVolumeClaim in the run's namespace that pods mount, such as one with models."""

    claim: VolumeName
    """Name of the claim. If pods on several nodes mount it, its access mode has to allow that."""
    path: Annotated[
        str, StringConstraints(pattern=r"^(/[-._a-zA-Z0-9]*[-_a-zA-Z0-9])+$", max_length=256)
    ]
    """Where pods mount it, as in `model.source: file:///models/qwen` for the path `/models`."""
