"""Options of connections to servers of other projects, by protocol. Imports no client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrl_envs.protocols.agentgym_families import FAMILIES


class AgentGymOptions(BaseModel):
    """Options of `protocol: agentgym`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: str | None = Field(default=None, json_schema_extra={"enum": list(FAMILIES)})
    """Which of AgentGym's servers it is. None: the server is asked, which works for babyai,
    textcraft, sciworld, alfworld and maze."""
    train: str | None = None
    """Numbers (AgentGym's data_idx) of the training tasks, such as 0-30,140-180. None: the
    published ones, which babyai and textcraft have."""
    heldout: str | None = None
    """Numbers of the held-out tasks, none of them in train."""
    instructions: str | None = None
    """System prompt. None: a short one. AgentGym's own prompts are part of its client."""


OPTIONS: dict[str, type[BaseModel]] = {"agentgym": AgentGymOptions}
"""The options of a connection, by protocol."""


def option_errors(protocol: str, options: Mapping[str, Any]) -> list[str]:
    """One line per error in the options of a protocol: option, reason, fix."""
    try:
        OPTIONS[protocol].model_validate(dict(options))
    except ValidationError as error:
        lines = []
        for each in error.errors(include_url=False):
            name = ".".join(map(str, each["loc"])) or "options"
            known = ", ".join(OPTIONS[protocol].model_fields)
            reason = each["msg"].lower()
            if each["type"] == "extra_forbidden":
                reason = f"protocol {protocol} has no such option; use one of {known}"
            lines.append(f"{name}: {reason}")
        return lines
    return []
