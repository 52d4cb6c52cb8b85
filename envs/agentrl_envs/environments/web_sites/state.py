"""The content of all sites: the seeded original, and the copies that sessions change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.content.code_host import CodeHost, generate_code_host
from agentrl_envs.environments.web_sites.content.forum import Forum, generate_forum
from agentrl_envs.environments.web_sites.content.map import Town, generate_town
from agentrl_envs.environments.web_sites.content.shop import Shop, generate_shop
from agentrl_envs.environments.web_sites.content.wiki import Article, generate_wiki


@dataclass(slots=True, kw_only=True)
class State:
    """What the sites show to one session."""

    shop: Shop
    forum: Forum
    code_host: CodeHost
    town: Town
    wiki: Mapping[str, Article]
    """Keyed by slug."""

    def copy(self) -> State:
        """A copy whose changes do not reach this one. It takes microseconds: records are shared."""
        return State(
            shop=self.shop.copy(),
            forum=self.forum.copy(),
            code_host=self.code_host.copy(),
            town=self.town.copy(),
            wiki=self.wiki,
        )


@cache
def seeded(seed: int) -> State:
    """The original content of a seed, the same on every machine. Do not change it: `copy` first."""
    town = generate_town(Random(f"map {seed}"))
    return State(
        shop=generate_shop(Random(f"shop {seed}"), ACCOUNTS["shopping"].username),
        forum=generate_forum(Random(f"forum {seed}")),
        code_host=generate_code_host(Random(f"code {seed}")),
        town=town,
        wiki=generate_wiki(Random(f"wiki {seed}"), town),
    )
