"""Options of SciWorld."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from agentrl_envs.environments.sciworld.catalogue import BY_NAME, GROUPS, ITEMS, STARTER


class SciWorldOptions(BaseModel):
    """Tasks, text form, rules and the JVMs that play them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tasks: tuple[str, ...] = Field(
        default=STARTER,
        min_length=1,
        description="ScienceWorld tasks, dealt in turn: names (`boil`), or the groups `starter` "
        "(6 short tasks) and `agentgym` (23).",
    )
    text: Literal["terse", "agentgym"] = Field(
        default="terse",
        description="`terse`: a closed vocabulary and a bounded list of actions, for models "
        "trained from scratch; the reply is the action. `agentgym`: ScienceWorld's English and "
        "ReAct replies.",
    )
    compat: Literal["none", "agentgym"] = Field(
        default="none",
        description="`agentgym` plays AgentGym's game, for comparison with published results: its "
        "prompt form (user, assistant, user), and a reply without an action is played as an empty "
        "one, which can take time. Requires `text: agentgym`.",
    )
    reward: Literal["score", "goal"] = Field(
        default="score",
        description="`score`: the change of ScienceWorld's score, which counts sub-goals. `goal`: "
        "1 for the full score and else 0, for tasks in which sub-goals make it safest not to try: "
        "a wrong focus costs what they earned.",
    )
    items: tuple[int, ...] = Field(
        default=(),
        description="AgentGym's item ids that are the held-out tasks, in this order, instead of "
        "the package's test variations of `tasks`. None of them is dealt for training.",
    )
    step_limit: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Moves in ScienceWorld's count after which an episode is truncated. A wait "
        "counts 10 moves.",
    )
    jvms: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Java processes at most. One is started before the first session, another when "
        "the others have 16 worlds each.",
    )
    worlds: int = Field(
        default=64,
        ge=1,
        le=1024,
        description="Sessions in one Java process at most; it may use 256 MB and 14 MB a session. "
        "Further sessions are refused until one closes.",
    )

    @field_validator("tasks")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in GROUPS and name not in BY_NAME:
                known = ", ".join([*GROUPS, *BY_NAME])
                raise ValueError(f"no task is called {name!r}; choose among {known}")
        return tuple(dict.fromkeys(each for name in names for each in GROUPS.get(name, (name,))))

    @field_validator("items")
    @classmethod
    def _in_range(cls, items: tuple[int, ...]) -> tuple[int, ...]:
        if wrong := [item for item in items if not 0 <= item < ITEMS]:
            raise ValueError(f"there is no item {wrong[0]}; items are 0 to {ITEMS - 1}")
        if len(set(items)) < len(items):
            raise ValueError("an item is given twice")
        return items

    @model_validator(mode="after")
    def _published_words(self) -> SciWorldOptions:
        if self.compat == "agentgym" and self.text != "agentgym":
            raise ValueError("compat: agentgym has AgentGym's words only; set text to agentgym")
        return self
