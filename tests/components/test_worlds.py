import asyncio

import pytest

from agentrl_components.worlds import servers
from agentrl_envs.errors import SessionError


def test_each_server_behind_a_name_has_an_address_of_its_own():
    found = asyncio.run(servers("http://localhost:8080/base"))
    assert "http://127.0.0.1:8080/base" in found
    assert len(found) == len(set(found))


def test_a_name_that_leads_nowhere_yet_may_do_so_later():
    with pytest.raises(SessionError, match=r"nowhere\.invalid has no address"):
        asyncio.run(servers("http://nowhere.invalid:8080"))
