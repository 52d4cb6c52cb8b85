"""What the operator asks of Kubernetes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from agentrl_operator.api.resource import Resource
from agentrl_operator.clients.kueue import Kueue
from agentrl_operator.clients.pods import Pod
from agentrl_operator.manifests.environment_server import Manifest


class Cluster(Protocol):
    """`KubernetesApi` is the real one. Every method may raise `KubernetesError`."""

    @property
    def kueue(self) -> Kueue:
        """Kueue's objects in it."""
        ...

    async def hold(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put our finalizer on a resource; the resource as it is then."""
        ...

    async def release(self, body: Mapping[str, Any]) -> None:
        """Take our finalizer off."""
        ...

    async def tell(self, resource: Resource, status: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Merge into a resource's status; the resource as it is then. None: it is gone."""
        ...

    async def record(
        self, resource: Resource, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Make an Event about a resource."""
        ...

    async def create(self, manifest: Manifest) -> bool:
        """Make an object, unless there is one of its name; whether it was made."""
        ...

    async def apply(self, manifest: Manifest) -> None:
        """Make a Deployment, or bring it up to date."""
        ...

    async def remove_deployment(self, namespace: str, name: str) -> None:
        """Delete a Deployment, if it is there."""
        ...

    async def remove_resource(self, resource: Resource) -> None:
        """Delete an AgentRLRun, if it is there."""
        ...

    async def remove_workflow(self, namespace: str, run_id: str) -> None:
        """Delete the Workflows of a KFP run."""
        ...

    async def workflows(self, namespace: str, run_id: str) -> Sequence[str]:
        """The phases of a KFP run's Workflows: Running, Succeeded ... or nothing yet."""
        ...

    async def pods(self, namespace: str, label: str, values: Collection[str]) -> Sequence[Pod]:
        """The pods of which a label has one of these values, but for those that succeeded."""
        ...

    def runs(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        """Every AgentRLRun there is. None: in every namespace."""
        ...

    def deployments(self, namespace: str | None) -> AsyncIterator[Mapping[str, Any]]:
        """Every Deployment that the operator made. None: in every namespace."""
        ...

    async def answers(self, namespace: str | None) -> None:
        """Return when Kubernetes answers a question about runs."""
        ...
