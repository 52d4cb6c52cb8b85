"""The console that all commands print with."""

from __future__ import annotations

from collections.abc import Iterable

from rich import console
from rich.segment import Segment

from agentrl_envs.output.printable import clean


class Console(console.Console):  # noqa: TID251
    """A console of rich that prints no control characters of the texts that it is given.

    rich itself removes five of them from texts, and lets escape sequences through. Its own, for
    colours and for the cursor, are not part of a text and remain."""

    def render(
        self,
        renderable: console.RenderableType,
        options: console.ConsoleOptions | None = None,
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=clean(segment.text))
