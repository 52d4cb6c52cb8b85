"""Content of the shop and of its administration: products, reviews, orders and the cart."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agentrl_envs.environments.web_sites.content.words import (
    COLOURS,
    STATUSES,
    draws,
    people,
    slug,
)

CATEGORIES = {
    "clothing": (("wool", "cotton"), ("scarf", "jacket", "hat", "shirt")),
    "kitchen": (("steel", "clay"), ("kettle", "pan", "bowl", "knife")),
    "garden": (("iron", "plastic"), ("rake", "bench", "pot", "hose")),
    "toys": (("wooden", "paper"), ("train", "puzzle", "kite", "castle")),
    "office": (("oak", "glass"), ("lamp", "desk", "chair", "shelf")),
    "sports": (("leather", "rubber"), ("ball", "racket", "tent", "helmet")),
}
"""Materials and kinds of the products of each category."""

PRODUCTS_PER_CATEGORY = 8
CUSTOMERS = 8
ORDERS = 20
FIRST_ORDER = 1001

OPINIONS = {
    1: "broke after one day",
    2: "smaller than expected",
    3: "fine for the price",
    4: "works well",
    5: "the best that I ever had",
}
"""Text of a review, by stars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    author: str
    stars: int
    """1 to 5."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    name: str
    category: str
    price: int
    """Whole dollars."""
    stock: int
    reviews: tuple[Review, ...]

    @property
    def slug(self) -> str:
        return slug(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    number: int
    customer: str
    lines: tuple[tuple[str, int], ...]
    """Name of the product and quantity."""
    total: int
    """Whole dollars."""
    status: str
    address: str


@dataclass(slots=True, kw_only=True)
class Shop:
    """What a session can change in the shop. Records are frozen: a change replaces a record, so a
    copy of the dictionaries is a copy of the shop."""

    products: dict[str, Product]
    """Keyed by slug."""
    orders: dict[int, Order]
    """Sorted by number, ascending."""
    cart: dict[str, int]
    """Quantity by slug."""
    wishlist: dict[str, None]
    """Slugs, in the order in which they were added."""

    def copy(self) -> Shop:
        return Shop(
            products=dict(self.products),
            orders=dict(self.orders),
            cart=dict(self.cart),
            wishlist=dict(self.wishlist),
        )

    def of_category(self, category: str) -> list[Product]:
        return [each for each in self.products.values() if each.category == category]


def generate_shop(random: Random, customer: str) -> Shop:
    """48 products in six categories and 20 orders, some of them of `customer`."""
    customers = people(random, CUSTOMERS)
    products = {
        product.slug: product
        for category in CATEGORIES
        for product in _products(random, category, customers)
    }
    orders = {}
    buyers = [customer, *customers]
    for number in range(FIRST_ORDER, FIRST_ORDER + ORDERS):
        order = _order(random, number, random.choice(buyers), list(products.values()))
        orders[number] = order
    return Shop(products=products, orders=orders, cart={}, wishlist={})


def _products(random: Random, category: str, authors: list[str]) -> list[Product]:
    materials, kinds = CATEGORIES[category]
    names = draws(random, COLOURS, materials, kinds)
    prices = random.sample(range(5, 100), PRODUCTS_PER_CATEGORY)
    return [
        Product(
            name=next(names),
            category=category,
            price=price,
            stock=random.randint(1, 40),
            reviews=tuple(
                Review(author=author, stars=stars, text=OPINIONS[stars])
                for author in random.sample(authors, random.randint(0, 3))
                for stars in [random.randint(1, 5)]
            ),
        )
        for price in prices
    ]


def _order(random: Random, number: int, customer: str, products: list[Product]) -> Order:
    chosen = random.sample(products, random.randint(1, 2))
    lines = tuple((product.name, random.randint(1, 3)) for product in chosen)
    total = sum(product.price * count for product, (_, count) in zip(chosen, lines, strict=True))
    return Order(
        number=number,
        customer=customer,
        lines=lines,
        total=total,
        status=random.choice(STATUSES),
        address=f"{random.randint(1, 99)} {random.choice(('mill', 'park', 'lake'))} street",
    )
