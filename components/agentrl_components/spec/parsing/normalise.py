"""The changes that the API server makes to a manifest before it validates it."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel


def normalised(kind: Any, value: Any) -> Any:
    """`value` of the type `kind` as the API server reads it: without nulls in fields that may not
    be null, which then have their defaults, and with whole numbers such as `1.0` as integers."""
    if get_origin(kind) is Annotated:
        return normalised(get_args(kind)[0], value)
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        return normalised(kind, value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if get_origin(kind) is tuple and isinstance(value, list):
        return [normalised(get_args(kind)[0], item) for item in value]
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, dict):
        kinds = {str(field.alias): field.annotation for field in kind.model_fields.values()}
        return {
            name: normalised(kinds[name], inner) if name in kinds else inner
            for name, inner in value.items()
            if inner is not None or name not in kinds or _nullable(kinds[name])
        }
    return value


def _nullable(kind: Any) -> bool:
    if get_origin(kind) is Annotated:
        return _nullable(get_args(kind)[0])
    return NoneType in get_args(kind)
