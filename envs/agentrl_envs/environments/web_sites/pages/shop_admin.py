"""Pages of the shop's administration. It shows the same products and orders as the shop."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from agentrl_envs.environments.web_sites.content.shop import CATEGORIES
from agentrl_envs.environments.web_sites.content.words import STATUSES
from agentrl_envs.environments.web_sites.visit import (
    Page,
    Redirect,
    Route,
    Site,
    Visit,
    missing,
    refused,
    search_results,
    whole_number,
)

HIGHEST_PRICE = 999
LARGEST_STOCK = 999


def dashboard(visit: Visit) -> Page:
    orders = visit.state.shop.orders.values()
    counts = Counter(order.status for order in orders)
    values = {
        "counts": [(status, counts[status]) for status in STATUSES],
        "revenue": sum(order.total for order in orders if order.status != "cancelled"),
    }
    return Page("shop_admin/dashboard.html", values)


def orders(visit: Visit) -> Page:
    status = visit.query.get("status", "")
    shown = [order for order in visit.state.shop.orders.values() if status in ("", order.status)]
    values = {"orders": shown[::-1][:24], "status": status, "statuses": STATUSES}
    return Page("shop_admin/orders.html", values)


def order(visit: Visit) -> Page:
    number = whole_number(visit.path["number"], 0, 999_999)
    shown = visit.state.shop.orders.get(number) if number is not None else None
    if shown is None:
        return missing("order")
    return Page("shop_admin/order.html", {"order": shown, "statuses": STATUSES})


def set_status(visit: Visit) -> Page | Redirect:
    number = whole_number(visit.path["number"], 0, 999_999)
    shown = visit.state.shop.orders.get(number) if number is not None else None
    if shown is None:
        return missing("order")
    status = visit.form.get("status", "")
    if status not in STATUSES:
        return refused(f"The status must be one of {', '.join(STATUSES)}.")
    visit.state.shop.orders[shown.number] = replace(shown, status=status)
    return Redirect(f"/orders/{shown.number}")


def products(visit: Visit) -> Page:
    category = visit.query.get("category", next(iter(CATEGORIES)))
    shown = visit.state.shop.of_category(category)
    values = {"products": shown, "category": category, "categories": list(CATEGORIES)}
    return Page("shop_admin/products.html", values)


def search(visit: Visit) -> Page:
    products = ((each.name, each) for each in visit.state.shop.products.values())
    return search_results(visit, "shop_admin/search.html", "products", products)


def product(visit: Visit) -> Page:
    shown = visit.state.shop.products.get(visit.path["slug"])
    return Page("shop_admin/product.html", {"product": shown}) if shown else missing("product")


def save_product(visit: Visit) -> Page | Redirect:
    shown = visit.state.shop.products.get(visit.path["slug"])
    if shown is None:
        return missing("product")
    price = whole_number(visit.form.get("price", ""), 1, HIGHEST_PRICE)
    stock = whole_number(visit.form.get("stock", ""), 0, LARGEST_STOCK)
    if price is None or stock is None:
        return refused("Price and stock must be whole numbers.")
    visit.state.shop.products[shown.slug] = replace(shown, price=price, stock=stock)
    return Redirect(f"/products/{shown.slug}")


def customers(visit: Visit) -> Page:
    counts = Counter(order.customer for order in visit.state.shop.orders.values())
    return Page("shop_admin/customers.html", {"customers": sorted(counts.items())})


def customer(visit: Visit) -> Page:
    name = visit.path["slug"].replace("-", " ")
    shown = [order for order in visit.state.shop.orders.values() if order.customer == name]
    if not shown:
        return missing("customer")
    return Page("shop_admin/customer.html", {"customer": name, "orders": shown[::-1]})


SITE = Site(
    name="shopping_admin",
    title="Shop Admin",
    links={
        "Dashboard": "/",
        "Orders": "/orders",
        "Products": "/products",
        "Customers": "/customers",
    },
    search="Search products",
    routes=(
        Route("GET", "/", dashboard, login=True),
        Route("GET", "/orders", orders, login=True),
        Route("GET", "/orders/{number}", order, login=True),
        Route("POST", "/orders/{number}", set_status, login=True),
        Route("GET", "/products", products, login=True),
        Route("GET", "/products/{slug}", product, login=True),
        Route("POST", "/products/{slug}", save_product, login=True),
        Route("GET", "/search", search, login=True),
        Route("GET", "/customers", customers, login=True),
        Route("GET", "/customers/{slug}", customer, login=True),
    ),
)
