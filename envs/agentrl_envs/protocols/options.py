"""Options of connections to servers of other projects, by protocol. Imports no client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

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


class OpenEnvOptions(BaseModel):
    """Options of `protocol: openenv`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )

    train: str = "0-9999"
    """Seeds of the training tasks, such as 0-30,140-180."""
    heldout: str = "1000000-1000099"
    """Seeds of the held-out tasks, none of them in train."""
    action_field: str | None = None
    """The field of an action that takes the reply. None: its only text field."""
    observation_field: str | None = None
    """The field of an observation that is shown. None: its only text field."""
    full_score: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The sum of an episode's rewards that is a score of 1, and a success."""
    instructions: str = ""
    """System prompt; OpenEnv's servers have none."""


OPTIONS: dict[str, type[BaseModel]] = {"agentgym": AgentGymOptions, "openenv": OpenEnvOptions}
"""The options of a connection, by protocol."""


def option_errors(protocol: str, options: Mapping[str, Any]) -> list[str]:
    """One line per error in the options of a protocol: option, reason, fix."""
    try:
        OPTIONS[protocol].model_validate(dict(options))
    except ValidationError as error:
        lines = []
        for each in error.errors(include_url=False):
            name = ".".join(map(str, each["loc"])) or "options"
            fields = OPTIONS[protocol].model_fields
            known = ", ".join(field.alias or key for key, field in fields.items())
            reason = each["msg"].lower()
            if each["type"] == "extra_forbidden":
                reason = f"protocol {protocol} has no such option; use one of {known}"
            lines.append(f"{name}: {reason}")
        return lines
    return []
