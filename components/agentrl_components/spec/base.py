"""Base class of every object in a manifest."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class SpecModel(BaseModel):
    """An object in a manifest: immutable, camelCase in YAML, snake_case in Python.

    Unknown fields are errors. The docstring below a field is its description in the CRD and in
    docs/manifest.md."""

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
