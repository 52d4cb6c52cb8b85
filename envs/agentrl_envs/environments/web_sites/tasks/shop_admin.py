"""Tasks in the shop's administration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product as pairs

from agentrl_envs.environments.web_sites.content.words import STATUSES
from agentrl_envs.environments.web_sites.state import State
from agentrl_envs.environments.web_sites.tasks.form import Click, Fill, OneSite, SiteTask, base

SITE = "shopping_admin"
BASE = base(SITE)
task = OneSite(SITE).task


def open_status(state: State) -> Iterator[SiteTask]:
    """Two clicks: from the page of an order to the orders with a status."""
    for order, status in pairs(state.shop.orders.values(), STATUSES):
        yield task(
            "admin/open-status",
            "show all orders that are {{status}}",
            {"status": status},
            [Click("Orders"), Click(status)],
            start=f"{BASE}/orders/{order.number}",
            url=f"{BASE}/orders?status={status}",
        )


def open_order(state: State) -> Iterator[SiteTask]:
    """Two clicks: the list and the order."""
    for order in state.shop.orders.values():
        yield task(
            "admin/open-order",
            "open order {{number}}",
            {"number": str(order.number)},
            [Click("Orders"), Click(f"Order {order.number}")],
            url=f"{BASE}/orders/{order.number}",
        )


def tell_customer(state: State) -> Iterator[SiteTask]:
    """One click and an answer."""
    for order in state.shop.orders.values():
        yield task(
            "admin/tell-customer",
            "who made order {{number}} ?",
            {"number": str(order.number)},
            [Click("Orders")],
            answer=order.customer,
        )


def tell_count(state: State) -> Iterator[SiteTask]:
    """One click and an answer."""
    counts = Counter(order.customer for order in state.shop.orders.values())
    for customer, count in sorted(counts.items()):
        yield task(
            "admin/tell-order-count",
            "how many orders has {{customer}} made ?",
            {"customer": customer},
            [Click("Customers")],
            answer=str(count),
        )


def set_status(state: State) -> Iterator[SiteTask]:
    """Four moves: list, order, status, save."""
    for order, status in pairs(state.shop.orders.values(), STATUSES):
        if order.status != status:
            page = f"{BASE}/orders/{order.number}"
            yield task(
                "admin/set-status",
                "set the status of order {{number}} to {{status}}",
                {"number": str(order.number), "status": status},
                [
                    Click("Orders"),
                    Click(f"Order {order.number}"),
                    Click(status),
                    Click("Save"),
                ],
                program=[(page, "#current", "exact_match", status)],
            )


def set_price(state: State) -> Iterator[SiteTask]:
    """Five moves: list, category, product, price, save. The shop shows the new price."""
    for product, price in pairs(state.shop.products.values(), (11, 33, 77)):
        if product.price != price:
            yield task(
                "admin/set-price",
                "set the price of the {{product}} in {{category}} to {{price}} dollars",
                {
                    "product": product.name,
                    "category": product.category,
                    "price": str(price),
                },
                [
                    Click("Products"),
                    Click(product.category),
                    Click(product.name),
                    Fill("Price", str(price)),
                    Click("Save"),
                ],
                program=[
                    (
                        f"{base('shopping')}/product/{product.slug}",
                        "#price",
                        "exact_match",
                        f"${price}",
                    )
                ],
            )


TEMPLATES = (open_status, open_order, tell_customer, tell_count, set_status, set_price)
