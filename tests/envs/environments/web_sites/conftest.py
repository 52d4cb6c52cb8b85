from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import httpx
import pytest
from site_browser import SiteBrowser, log_in

from agentrl_envs.environments.web_sites import running_sites


class Web(NamedTuple):
    """The running sites, and the storage state of their accounts."""

    sites: Mapping[str, str]
    client: httpx.Client
    login: Mapping[str, str]

    def browser(self) -> SiteBrowser:
        """A new context, signed in to every site."""
        return SiteBrowser(self.sites, self.client, self.login)


@pytest.fixture(scope="session")
def web() -> Iterator[Web]:
    with running_sites(seed=0) as sites, httpx.Client() as client:
        yield Web(sites, client, log_in(sites, client))
