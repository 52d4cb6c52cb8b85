"""Options of the `textcraft` environment."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Recipes = Literal["minecraft", "synthetic"]
Text = Literal["agentgym", "terse"]

DEEPEST: dict[Recipes, int] = {"minecraft": 4, "synthetic": 5}
"""Largest goal depth of each kind of recipes."""


class TextCraftOptions(BaseModel):
    """Options of the `textcraft` environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    recipes: Recipes = "minecraft"
    """Minecraft's recipes, or recipe trees generated for every task over a small set of items."""
    depths: Annotated[tuple[int, ...], Field(min_length=1, max_length=5)] = (1, 2, 3, 4)
    """Depths of the goals: length of the longest chain of crafts. minecraft 1-4, synthetic 1-5.
    Synthetic tasks have equal shares; Minecraft's are as frequent as the goals of a depth."""
    distractors: Annotated[int, Field(ge=1, le=30)] = 10
    """Number of listed recipes that the goal does not need."""
    text: Text = "agentgym"
    """AgentGym's commands and wording, or a small closed vocabulary for small models."""
    heldout: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Number of held-out tasks."""
    turn_limit: Annotated[int, Field(ge=1, le=10_000)] = 200
    """Turns after which the environment truncates an episode."""
    world: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """Seed of the synthetic recipe trees and of Minecraft's distractors."""
    raw_items: Annotated[int, Field(ge=2, le=24)] = 12
    """Synthetic: number of raw items."""
    made_items: Annotated[int, Field(ge=2, le=32)] = 20
    """Synthetic: number of craftable items; at least distractors + depth."""
    ingredients: Annotated[int, Field(ge=1, le=4)] = 2
    """Synthetic: maximum number of ingredients of a recipe."""
    most: Annotated[int, Field(ge=1, le=4)] = 2
    """Synthetic: maximum count of one ingredient, and of a recipe's product."""

    compat: Literal["none", "agentgym"] = "none"
    """`agentgym` plays AgentGym's game, for comparison with published results: its messages, its
    prompt form (user, assistant, user), and any recipe of Minecraft whether shown or not."""
    ids: Literal["content", "agentgym"] = "content"
    """`agentgym` holds out 100 tasks with the depths of AgentGym's test set: 31, 41, 25 and 3 of
    depth 1 to 4. Ignores `heldout`."""

    @model_validator(mode="after")
    def _published(self) -> TextCraftOptions:
        if "agentgym" in (self.compat, self.ids) and self.recipes != "minecraft":
            raise ValueError("recipes: AgentGym's are Minecraft's; set minecraft")
        if self.compat == "agentgym" and self.text != "agentgym":
            raise ValueError("compat: agentgym has AgentGym's words only; set text to agentgym")
        return self

    @model_validator(mode="after")
    def _fits(self) -> TextCraftOptions:
        deepest = DEEPEST[self.recipes]
        if len(set(self.depths)) < len(self.depths) or not all(
            1 <= depth <= deepest for depth in self.depths
        ):
            raise ValueError(
                f"depths: {self.recipes} recipes have the depths 1 to {deepest}, each named once;"
                f" got {list(self.depths)}"
            )
        needed = self.distractors + max(self.depths)
        if self.recipes == "synthetic" and self.made_items < needed:
            raise ValueError(
                f"made_items: {self.distractors} distractors and a goal of depth"
                f" {max(self.depths)} need at least {needed}; got {self.made_items}"
            )
        if self.recipes == "synthetic" and self.raw_items < self.ingredients:
            raise ValueError(
                f"raw_items: a recipe of {self.ingredients} ingredients needs as many;"
                f" got {self.raw_items}"
            )
        return self

    def of_depth(self, depth: int, heldout: int) -> TextCraftOptions:
        """The same options with goals of one depth, and that many held-out tasks."""
        changes = {"depths": (depth,), "heldout": heldout, "ids": "content"}
        return self.model_copy(update=changes)
