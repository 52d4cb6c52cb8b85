"""Pages as HTML. Every value is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from agentrl_envs.environments.web_sites.content.words import slug

_TEMPLATES = Environment(
    loader=PackageLoader("agentrl_envs.environments.web_sites"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_TEMPLATES.filters["slug"] = slug


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template of `templates/` with its values. A value that the template needs and that is not
    given is a programming error and raises `jinja2.UndefinedError`."""
    return _TEMPLATES.get_template(template).render(values)
