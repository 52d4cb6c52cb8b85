"""A small site, for tests with a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from web_pages import Site, running_site


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running_site() as running:
        yield running
