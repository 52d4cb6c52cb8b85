from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
from site_browser import SiteBrowser

from agentrl_envs.environments.web_sites import SITES, running_sites
from agentrl_envs.environments.web_sites.sessions import COOKIE
from agentrl_envs.environments.web_sites.state import seeded

PRODUCT = next(iter(seeded(0).shop.products.values()))


def test_two_contexts_with_one_login_do_not_see_each_others_changes(web):
    one, two = web.browser(), web.browser()
    one.open(f"{web.sites['shopping']}/product/{PRODUCT.slug}")
    one.click("Add to cart")
    two.open(f"{web.sites['shopping']}/cart")
    assert one.page.texts[f"#quantity-{PRODUCT.slug}"] == "1"
    assert two.page.texts["#cart"] == "The cart is empty."


def test_sixty_four_sessions_at_once_see_only_their_own_changes(web):
    products = list(seeded(0).shop.products.values())

    def cart_of(index: int) -> list[str]:
        with httpx.Client(verify=False) as client:  # reads no certificates: that is slow
            browser = SiteBrowser(web.sites, client, web.login)
            for product in products[index % 48 : index % 48 + 2]:
                browser.open(f"{web.sites['shopping']}/product/{product.slug}")
                browser.click("Add to cart")
            return [name for name in browser.page.texts if name.startswith("#quantity-")]

    with ThreadPoolExecutor(16) as threads:
        carts = list(threads.map(cart_of, range(64)))
    assert carts == [
        [f"#quantity-{product.slug}" for product in products[index % 48 : index % 48 + 2]]
        for index in range(64)
    ]


def test_a_login_leaves_no_state_in_the_storage_state(web):
    assert sorted(web.login) == [
        "gitlab_login",
        "reddit_login",
        "shopping_admin_login",
        "shopping_login",
    ]


def test_a_price_that_is_changed_in_the_administration_is_the_shops_price(web):
    browser = web.browser()
    browser.open(f"{web.sites['shopping_admin']}/products/{PRODUCT.slug}")
    browser.fill("Price", "123")
    browser.click("Save")
    browser.open(f"{web.sites['shopping']}/product/{PRODUCT.slug}")
    assert browser.page.texts["#price"] == "$123"


def test_a_page_that_needs_an_account_leads_there_after_the_login(web):
    browser = SiteBrowser(web.sites, web.client)
    browser.open(f"{web.sites['shopping']}/orders")
    assert "/login?next=/orders" in browser.url
    browser.fill("Username", "nora berg")
    browser.fill("Password", "wrong")
    browser.click("Sign in")
    assert browser.status == 401
    browser.fill("Username", "nora berg")
    browser.fill("Password", "shop-password")
    browser.click("Sign in")
    assert browser.url == f"{web.sites['shopping']}/orders"


def test_another_customers_order_is_not_shown(web):
    others = [o.number for o in seeded(0).shop.orders.values() if o.customer != "nora berg"]
    browser = web.browser()
    browser.open(f"{web.sites['shopping']}/orders/{others[0]}")
    assert browser.status == 404


def test_text_of_a_user_is_shown_as_text(web):
    browser = web.browser()
    browser.open(f"{web.sites['reddit']}/post/101")
    browser.fill("Comment", "<script>alert(1)</script>")
    browser.click("Send comment")
    assert "<script>alert(1)</script>" in browser.page.texts["#comments"]


def test_a_form_that_is_filled_in_wrongly_changes_nothing(web):
    browser = web.browser()
    browser.open(f"{web.sites['shopping']}/product/{PRODUCT.slug}")
    browser.fill("Quantity", "many")
    browser.click("Add to cart")
    assert browser.status == 400
    browser.open(f"{web.sites['shopping']}/cart")
    assert browser.page.texts["#cart"] == "The cart is empty."


def test_a_session_whose_state_was_dropped_gets_503():
    with running_sites(seed=0, capacity=1) as sites, httpx.Client() as client:
        one, two = SiteBrowser(sites, client), SiteBrowser(sites, client)
        for browser in (one, two):
            browser.open(f"{sites['map']}/place/{next(iter(seeded(0).town.places))}")
            browser.click("Save place")
        one.open(f"{sites['map']}/saved")
        two.open(f"{sites['map']}/saved")
    assert COOKIE in one.cookies
    assert (one.status, two.status) == (503, 200)


def test_every_page_that_links_lead_to_answers_and_closes_its_elements(web):
    browser, seen = web.browser(), set()
    todo = [f"{web.sites[site]}/" for site in SITES]
    while todo:
        url = todo.pop()
        if url in seen:
            continue
        seen.add(url)
        browser.open(url)
        assert browser.status == 200, url
        assert browser.page.texts["h1"], url
        todo += [str(httpx.URL(url).join(href)) for _, href in browser.page.links]
    assert len(seen) > 300
