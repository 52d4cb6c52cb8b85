"""Tasks in the shop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as pairs

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.content.shop import CATEGORIES, Product
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.tasks.form import Click, Fill, OneSite, SiteTask, base

SITE = "shopping"
BASE = base(SITE)
task = OneSite(SITE).task
STREETS = ("7 mill street", "12 park street", "30 lake street")


def open_listed(state: State) -> Iterator[SiteTask]:
    """One click: a product in the list of its category."""
    for product in state.shop.products.values():
        yield task(
            "shop/open-listed",
            "open the page of the {{product}}",
            {"product": product.name},
            [Click(product.name)],
            start=f"{BASE}/category/{product.category}",
            url=_page(product),
        )


def open_category(state: State) -> Iterator[SiteTask]:
    """Two clicks: from the page of a product to another category."""
    for product, category in pairs(state.shop.products.values(), CATEGORIES):
        if product.category != category:
            yield task(
                "shop/open-category",
                "show the products of {{category}}",
                {"category": category},
                [Click("Home"), Click(category)],
                start=_page(product),
                url=f"{BASE}/category/{category}",
            )


def open_product(state: State) -> Iterator[SiteTask]:
    """Two clicks: category and product."""
    for product in state.shop.products.values():
        yield task(
            "shop/open-product",
            "open the page of the {{product}} in {{category}}",
            {"product": product.name, "category": product.category},
            [Click(product.category), Click(product.name)],
            url=_page(product),
        )


def tell_price(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer."""
    for product in state.shop.products.values():
        yield task(
            "shop/tell-price",
            "what is the price of the {{product}} in {{category}} ?",
            {"product": product.name, "category": product.category},
            [Click(product.category), Click(product.name)],
            answer=f"${product.price}",
        )


def tell_cheapest(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer: the first in the order of prices."""
    for category in CATEGORIES:
        cheapest = min(state.shop.of_category(category), key=lambda each: each.price)
        yield task(
            "shop/tell-cheapest",
            "what is the cheapest product in {{category}} ?",
            {"category": category},
            [Click(category), Click("Sort by price")],
            answer=cheapest.name,
        )


def tell_reviewers(state: State) -> Iterator[SiteTask]:
    """Three moves and an answer: the one reviewer who gave so many stars."""
    for product in state.shop.products.values():
        for stars in range(1, 6):
            authors = [review.author for review in product.reviews if review.stars == stars]
            if len(authors) == 1:
                yield task(
                    "shop/tell-reviewer",
                    "who gave {{stars}} stars to the {{product}} ?",
                    {"stars": str(stars), "product": product.name},
                    [Fill("Search products", product.name), Click("Search"), Click(product.name)],
                    answer=authors[0],
                )


def add_listed(state: State) -> Iterator[SiteTask]:
    """Two clicks: a product of the list, into the cart."""
    for product in state.shop.products.values():
        yield task(
            "shop/add-listed",
            "put the {{product}} into the cart",
            {"product": product.name},
            [Click(product.name), Click("Add to cart")],
            start=f"{BASE}/category/{product.category}",
            program=[(f"{BASE}/cart", f"#quantity-{product.slug}", "exact_match", "1")],
        )


def add_several(state: State) -> Iterator[SiteTask]:
    """Four moves: category, product, quantity, cart."""
    for product, count in pairs(state.shop.products.values(), (2, 3, 4)):
        yield task(
            "shop/add-several",
            "put {{count}} pieces of the {{product}} in {{category}} into the cart",
            {"count": str(count), "product": product.name, "category": product.category},
            [
                Click(product.category),
                Click(product.name),
                Fill("Quantity", str(count)),
                Click("Add to cart"),
            ],
            program=[(f"{BASE}/cart", f"#quantity-{product.slug}", "exact_match", str(count))],
        )


def wish(state: State) -> Iterator[SiteTask]:
    """Three clicks: category, product, wish list. Its page and its content are checked."""
    for product in state.shop.products.values():
        yield task(
            "shop/wish",
            "add the {{product}} in {{category}} to my wish list and show the list",
            {"product": product.name, "category": product.category},
            [Click(product.category), Click(product.name), Click("Add to wish list")],
            url=f"{BASE}/wishlist",
            program=[(f"{BASE}/wishlist", "#products", "must_include", product.name)],
        )


def review(state: State) -> Iterator[SiteTask]:
    """Five moves: category, product, stars, text, send."""
    for product, (stars, text) in pairs(
        state.shop.products.values(), (("5", "very good"), ("1", "very bad"))
    ):
        yield task(
            "shop/review",
            "review the {{product}} in {{category}} with {{stars}} stars and the text {{text}}",
            {
                "product": product.name,
                "category": product.category,
                "stars": stars,
                "text": text,
            },
            [
                Click(product.category),
                Click(product.name),
                Click(stars),
                Fill("Review", text),
                Click("Send review"),
            ],
            program=[
                (
                    _page(product),
                    "#reviews",
                    "must_include",
                    f"{ACCOUNTS[SITE].username}: {stars} stars, {text}",
                )
            ],
        )


def order(state: State) -> Iterator[SiteTask]:
    """Six moves: category, product, cart, check out, address, order."""
    number = max(state.shop.orders) + 1
    for product, street in pairs(state.shop.products.values(), STREETS):
        page = f"{BASE}/orders/{number}"
        yield task(
            "shop/order",
            "order the {{product}} in {{category}} to {{address}}",
            {"product": product.name, "category": product.category, "address": street},
            [
                Click(product.category),
                Click(product.name),
                Click("Add to cart"),
                Click("Check out"),
                Fill("Address", street),
                Click("Place order"),
            ],
            program=[
                (page, "#lines", "exact_match", f"1 {product.name}"),
                (page, "#address", "exact_match", street),
            ],
        )


def tell_order(state: State) -> Iterator[SiteTask]:
    """Two clicks and an answer about an own order."""
    user = ACCOUNTS[SITE].username
    for each in state.shop.orders.values():
        if each.customer == user:
            yield task(
                "shop/tell-order-address",
                "where was my order {{number}} sent ?",
                {"number": str(each.number)},
                [Click("My orders"), Click(f"Order {each.number}")],
                answer=each.address,
            )


def _page(product: Product) -> str:
    return f"{BASE}/product/{product.slug}"


TEMPLATES = (
    open_listed,
    open_category,
    open_product,
    tell_price,
    tell_cheapest,
    tell_reviewers,
    add_listed,
    add_several,
    wish,
    review,
    order,
    tell_order,
)
