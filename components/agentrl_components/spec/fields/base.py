"""What every part of a manifest shares: strict, frozen, camelCase outside and snake_case inside."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Part(BaseModel):
    """A piece of a manifest. An unknown field is an error; the text under a field is its doc."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        validate_default=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )
