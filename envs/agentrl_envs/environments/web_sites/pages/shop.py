"""Pages of the shop."""

from __future__ import annotations

from dataclasses import replace

from agentrl_envs.environments.web_sites.content.shop import CATEGORIES, Order, Product, Review
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

MOST_IN_CART = 9
"""Largest quantity of a product in the cart."""


def home(visit: Visit) -> Page:
    shop = visit.state.shop
    featured = [shop.of_category(category)[0] for category in CATEGORIES]
    return Page("shop/home.html", {"categories": list(CATEGORIES), "products": featured})


def category(visit: Visit) -> Page:
    name = visit.path["category"]
    if name not in CATEGORIES:
        return missing("category")
    products = visit.state.shop.of_category(name)
    by_price = visit.query.get("sort") == "price"
    if by_price:
        products = sorted(products, key=lambda product: product.price)
    values = {"category": name, "products": products, "by_price": by_price}
    return Page("shop/category.html", values)


def search(visit: Visit) -> Page:
    products = ((each.name, each) for each in visit.state.shop.products.values())
    return search_results(visit, "shop/search.html", "products", products)


def product(visit: Visit) -> Page:
    shown = _product(visit)
    if shown is None:
        return missing("product")
    return Page("shop/product.html", {"product": shown, "most": MOST_IN_CART})


def add_to_cart(visit: Visit) -> Page | Redirect:
    added = _product(visit)
    if added is None:
        return missing("product")
    quantity = whole_number(visit.form.get("quantity", ""), 1, MOST_IN_CART)
    if quantity is None:
        return refused(f"The quantity must be a number from 1 to {MOST_IN_CART}.")
    cart = visit.state.shop.cart
    cart[added.slug] = min(MOST_IN_CART, cart.get(added.slug, 0) + quantity)
    return Redirect("/cart")


def cart(visit: Visit) -> Page:
    lines = _cart_lines(visit)
    total = sum(product.price * count for product, count in lines)
    return Page("shop/cart.html", {"lines": lines, "total": total})


def remove_from_cart(visit: Visit) -> Redirect:
    visit.state.shop.cart.pop(visit.path["slug"], None)
    return Redirect("/cart")


def checkout(visit: Visit) -> Page:
    total = sum(product.price * count for product, count in _cart_lines(visit))
    return Page("shop/checkout.html", {"total": total})


def place_order(visit: Visit) -> Page | Redirect:
    shop, address = visit.state.shop, visit.form.get("address", "")
    lines = _cart_lines(visit)
    if not lines:
        return refused("The cart is empty.")
    if not address:
        return refused("The address must not be empty.")
    number = max(shop.orders) + 1
    shop.orders[number] = Order(
        number=number,
        customer=visit.user,
        lines=tuple((product.name, count) for product, count in lines),
        total=sum(product.price * count for product, count in lines),
        status="pending",
        address=address,
    )
    shop.cart.clear()
    return Redirect(f"/orders/{number}")


def orders(visit: Visit) -> Page:
    mine = [each for each in visit.state.shop.orders.values() if each.customer == visit.user]
    return Page("shop/orders.html", {"orders": mine[::-1]})


def order(visit: Visit) -> Page:
    shown = _order(visit)
    return Page("shop/order.html", {"order": shown}) if shown else missing("order")


def cancel_order(visit: Visit) -> Page | Redirect:
    cancelled = _order(visit)
    if cancelled is None:
        return missing("order")
    if cancelled.status not in ("pending", "processing"):
        return refused("An order that was shipped cannot be cancelled.")
    visit.state.shop.orders[cancelled.number] = replace(cancelled, status="cancelled")
    return Redirect(f"/orders/{cancelled.number}")


def wishlist(visit: Visit) -> Page:
    shop = visit.state.shop
    return Page("shop/wishlist.html", {"products": [shop.products[slug] for slug in shop.wishlist]})


def add_to_wishlist(visit: Visit) -> Page | Redirect:
    added = _product(visit)
    if added is None:
        return missing("product")
    visit.state.shop.wishlist[added.slug] = None
    return Redirect("/wishlist")


def add_review(visit: Visit) -> Page | Redirect:
    reviewed = _product(visit)
    if reviewed is None:
        return missing("product")
    stars, text = whole_number(visit.form.get("stars", ""), 1, 5), visit.form.get("review", "")
    if stars is None or not text:
        return refused("A review needs stars from 1 to 5 and a text.")
    review = Review(author=visit.user, stars=stars, text=text)
    changed = replace(reviewed, reviews=(*reviewed.reviews, review))
    visit.state.shop.products[reviewed.slug] = changed
    return Redirect(f"/product/{reviewed.slug}")


def _product(visit: Visit) -> Product | None:
    return visit.state.shop.products.get(visit.path["slug"])


def _order(visit: Visit) -> Order | None:
    """The order of the path, if it is the user's own."""
    number = whole_number(visit.path["number"], 0, 999_999)
    shown = None if number is None else visit.state.shop.orders.get(number)
    return shown if shown and shown.customer == visit.user else None


def _cart_lines(visit: Visit) -> list[tuple[Product, int]]:
    shop = visit.state.shop
    return [(shop.products[slug], count) for slug, count in shop.cart.items()]


SITE = Site(
    name="shopping",
    title="Corner Shop",
    links={"Home": "/", "Cart": "/cart", "My orders": "/orders", "Wish list": "/wishlist"},
    search="Search products",
    routes=(
        Route("GET", "/", home),
        Route("GET", "/category/{category}", category),
        Route("GET", "/search", search),
        Route("GET", "/product/{slug}", product),
        Route("POST", "/product/{slug}/cart", add_to_cart),
        Route("POST", "/product/{slug}/wishlist", add_to_wishlist, login=True),
        Route("POST", "/product/{slug}/reviews", add_review, login=True),
        Route("GET", "/cart", cart),
        Route("POST", "/cart/{slug}/remove", remove_from_cart),
        Route("GET", "/checkout", checkout, login=True),
        Route("POST", "/checkout", place_order, login=True),
        Route("GET", "/orders", orders, login=True),
        Route("GET", "/orders/{number}", order, login=True),
        Route("POST", "/orders/{number}/cancel", cancel_order, login=True),
        Route("GET", "/wishlist", wishlist, login=True),
    ),
)
