"""What there is, asked rather than watched: a watch that fell silent then costs minutes, not a
run."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_operator.clients.protocols import Cluster
from agentrl_operator.controller import watches
from agentrl_operator.controller.controller import Controller


@dataclass(frozen=True, slots=True, kw_only=True)
class Relist:
    """Of what a controller should know. Every method may raise `KubernetesError`."""

    controller: Controller
    cluster: Cluster
    namespaces: tuple[str, ...] = ()
    """Where to look. None given: everywhere."""

    async def answered(self) -> None:
        """Return when Kubernetes answers a question about runs."""
        await self.cluster.ping(self._places[0])

    async def runs(self) -> None:
        """Tell the controller which runs there are, and which are no more."""
        before, there = self.controller.keys(), set()
        for place in self._places:
            async for body in self.cluster.list_runs(place):
                there.add((body["metadata"]["namespace"], body["metadata"]["name"]))
                self.controller.seen(body)
        for key in before - there:
            self.controller.gone(*key)

    async def servers(self) -> None:
        """Tell the controller which Deployments there are, and which are no more."""
        before, there = self.controller.servers(), set()
        for place in self._places:
            async for body in self.cluster.list_deployments(place):
                there.add(watches.servers_seen(self.controller, body))
        for uid, name in before - there:
            self.controller.servers_seen(uid, name, None)

    @property
    def _places(self) -> tuple[str | None, ...]:
        return self.namespaces or (None,)
