"""agent-sandbox in memory: Sandboxes, and whether their pods are ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl_operator.testing.memory_kueue import Children


class MemoryAgentSandbox:
    """`AgentSandbox` in memory, over the objects of a `MemoryCluster`."""

    def __init__(self, children: Children, check: Callable[[], None]) -> None:
        self.installed = True
        self.ready = True
        """Whether the pods of all Sandboxes are ready."""
        self._children = children
        self._check = check

    async def list_sandboxes(self, namespace: str, uid: str) -> Sequence[Mapping[str, Any]] | None:
        self._check()
        if not self.installed:
            return None
        ready = {"type": "Ready", "status": "True" if self.ready else "False"}
        return [
            body | {"status": {"conditions": [ready]}}
            for body in self.sandboxes()
            if body["metadata"]["ownerReferences"][0]["uid"] == uid
        ]

    async def delete_sandbox(self, namespace: str, name: str) -> None:
        self._check()
        self._children.pop(("Sandbox", namespace, name), None)

    async def delete_sandboxes(self, namespace: str, uid: str) -> None:
        self._check()
        for body in self.sandboxes():
            metadata = body["metadata"]
            if metadata["ownerReferences"][0]["uid"] == uid:
                del self._children["Sandbox", namespace, metadata["name"]]

    def sandboxes(self) -> list[dict[str, Any]]:
        """All Sandboxes."""
        return [body for (kind, _, _), body in self._children.items() if kind == "Sandbox"]
