"""Options of the `babyai` environment."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

STARTER = (
    "BabyAI-PickupDist-v0",
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-OpenDoorColor-v0",
    "BabyAI-UnlockLocal-v0",
    "BabyAI-UnlockPickup-v0",
)
"""Levels that a small model can learn from random weights; the last needs four dependent turns."""

AGENTGYM = (
    "BabyAI-GoToRedBallGrey-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToRedBallNoDists-v0",
    "BabyAI-GoToObjS6-v1",
    "BabyAI-GoToLocalS8N7-v0",
    "BabyAI-GoToObjMazeS7-v0",
    "BabyAI-GoToImpUnlock-v0",
    "BabyAI-GoToSeqS5R2-v0",
    "BabyAI-GoToRedBlueBall-v0",
    "BabyAI-GoToDoor-v0",
    "BabyAI-GoToObjDoor-v0",
    "BabyAI-PickupLoc-v0",
    "BabyAI-PickupDistDebug-v0",
    "BabyAI-PickupAbove-v0",
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-FindObjS7-v0",
    "BabyAI-OneRoomS20-v0",
    "BabyAI-SynthLoc-v0",
)
"""AgentGym's 18 levels. GoToObjS6 is at version 1, which allows fewer steps than version 0."""

GROUPS = {"starter": STARTER, "agentgym": AGENTGYM}
"""Names for groups of levels."""

LEVELS = tuple(dict.fromkeys(STARTER + AGENTGYM))
"""The minigrid ids of all supported levels."""


def short_name(level: str) -> str:
    """`BabyAI-PickupDist-v0` -> `PickupDist`."""
    return level.removeprefix("BabyAI-").rsplit("-v", 1)[0]


_BY_NAME = {short_name(level): level for level in LEVELS}


class BabyAIOptions(BaseModel):
    """Levels, text form and rules."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    levels: tuple[str, ...] = Field(
        default=STARTER,
        min_length=1,
        description="Levels, dealt in equal shares: minigrid ids (`BabyAI-PickupDist-v0`), their "
        "short names (`PickupDist`), or the groups `starter` (5) and `agentgym` (18).",
    )
    text: Literal["terse", "agentgym"] = Field(
        default="terse",
        description="`terse`: a closed vocabulary of some 70 words, for models trained from "
        "scratch; the reply is the action. `agentgym`: AgentGym's English and ReAct replies.",
    )
    compat: Literal["none", "agentgym"] = Field(
        default="none",
        description="`agentgym` plays AgentGym's game, for comparison with published results: its "
        "menu, its paths, its words, its prompt form (user, assistant, user) and its score, which "
        "is minigrid's 1 - 0.9 * steps / max_steps. Requires `text: agentgym`.",
    )
    ids: Literal["content", "agentgym"] = Field(
        default="content",
        description="`agentgym` deals the tasks of AgentGym's data set in the order of their ids: "
        "814 training tasks and 90 held-out ones, with the paper's categories. Ignores `levels`.",
    )

    @field_validator("levels")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        levels: list[str] = []
        for name in names:
            found = GROUPS.get(name) or (_BY_NAME.get(short_name(name)),)
            if found[0] is None:
                known = ", ".join([*GROUPS, *_BY_NAME])
                raise ValueError(f"no level is called {name!r}; choose among {known}")
            levels += [level for level in found if level is not None]
        return tuple(dict.fromkeys(levels))

    @model_validator(mode="after")
    def _published_words(self) -> BabyAIOptions:
        if self.compat == "agentgym" and self.text != "agentgym":
            raise ValueError("compat: agentgym has AgentGym's words only; set text to agentgym")
        return self
