"""The one place where the operator catches unexpected errors, so that an error of one run stops
neither the other runs nor a deletion. A deletion goes on without what cannot be read, too."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from agentrl_operator.errors import DependencyError

logger = logging.getLogger(__name__)

Value = TypeVar("Value")


@dataclass(slots=True)
class Caught:
    """What a guard caught."""

    error: Exception | None = None

    def __str__(self) -> str:
        return f"internal error: {self.error!r}"


@contextmanager
def contained(
    subject: str, consequence: str, *, expected: tuple[type[Exception], ...] = ()
) -> Iterator[Caught]:
    """Catch and log every exception of the body but for those that are `expected`. Yields the
    holder of the exception, which is empty if there is none."""
    caught = Caught()
    try:
        yield caught
    except expected:
        raise
    except Exception as error:
        logger.exception("internal error: %s %s", subject, consequence)
        caught.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGuard:
    """Contains the unexpected errors of one run."""

    namespace: str
    name: str
    deleted: bool
    """Whether the run is being deleted: then the finalizer must come off, whatever fails."""

    @contextmanager
    def errors(self, consequence: str) -> Iterator[Caught]:
        """Catch and log every exception of the body."""
        with contained(f"{self.namespace}/{self.name}", consequence) as caught:
            yield caught

    @contextmanager
    def errors_of_deletion(self, consequence: str, *, needed: bool = False) -> Iterator[Caught]:
        """Catch and log unexpected exceptions of the body if the run is being deleted and the body
        is not `needed` for that. Raises all other exceptions, and errors of dependencies, whose
        requests are repeated later."""
        if needed or not self.deleted:
            yield Caught()
            return
        subject = f"{self.namespace}/{self.name}"
        with contained(subject, consequence, expected=(DependencyError,)) as caught:
            yield caught

    async def read(self, request: Awaitable[Value], unread: Value) -> Value:
        """The result of a request. If it fails and the run is being deleted: `unread`."""
        try:
            return await request
        except DependencyError as error:
            if not self.deleted:
                raise
            logger.warning("%s/%s is being deleted: %s", self.namespace, self.name, error)
            return unread
