"""The pages of each site."""

from agentrl_envs.environments.web_sites.pages import (
    code_host,
    forum,
    map,
    shop,
    shop_admin,
    wiki,
)

ALL_SITES = (
    shop.SITE,
    shop_admin.SITE,
    forum.SITE,
    code_host.SITE,
    map.SITE,
    wiki.SITE,
)
