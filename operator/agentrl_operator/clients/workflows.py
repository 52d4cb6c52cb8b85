"""Argo Workflows, as far as the operator reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentrl_operator.errors import QUOTA_USED_UP

_ENDED = ("Succeeded", "Failed", "Error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """The Argo Workflow of a KFP run."""

    phase: str
    """Such as Running or Succeeded; empty for one that Argo has not started."""
    refusal: str = ""
    """Why Kubernetes does not create one of its pods: a quota is used up. Argo puts that on the
    node of the pod and goes on asking; after other refusals the Workflow fails. Empty: there is no
    such pod."""

    @property
    def ended(self) -> bool:
        """Whether none of its pods works any more."""
        return self.phase in _ENDED


def read(body: Mapping[str, Any]) -> Workflow:
    """The Workflow of this object. In one whose nodes Argo has compressed, for their number, no
    refusal is found."""
    status = body.get("status") or {}
    pending = (
        node.get("message") or ""
        for node in (status.get("nodes") or {}).values()
        if (node.get("type"), node.get("phase")) == ("Pod", "Pending")
    )
    refusals = (message for message in pending if QUOTA_USED_UP in message)
    return Workflow(phase=status.get("phase") or "", refusal=next(refusals, ""))
