"""What the business is about: restaurants, orders, and the topics in which everything happens.

Always holds: an order's dish, price and times follow from its number, so whoever checks knows what must have come out.
Does not know: clients, Spark.
"""

import json
from typing import Any, NamedTuple

PARTITIONS = 4
ORDERS, COOKED, DELIVERED, PAYMENTS = "orders", "cooked", "delivered", "payments"
STAGES = (ORDERS, COOKED, DELIVERED, PAYMENTS)  # in the order in which an order passes them
PER_MINUTE, DELIVERIES, REVENUE = "analytics.orders-per-minute", "analytics.deliveries", "analytics.revenue"
ANALYTICS = (PER_MINUTE, DELIVERIES, REVENUE)

RESTAURANTS = ("Brückenhof", "Herrenhof", "Zum Landvermesser", "Goldenes Gässchen", "Beim Barnabas")
DISHES = (("Gulasch", 1290), ("Knödel", 890), ("Svíčková", 1490), ("Palatschinken", 690), ("Bier", 390))
OPENING_MS = 1_767_258_000_000  # the business has its own clock: New Year's Day 2026, ten in the morning
BUSINESS_SPEED = 30  # minutes of the business in a minute of ours
MINUTE_MS = 60_000


class Order(NamedTuple):
    number: int
    restaurant: str
    dish: str
    cents: int
    ordered_ms: int

    @property
    def cooked_ms(self) -> int:
        return self.ordered_ms + (4 + self.number % 9) * MINUTE_MS

    @property
    def delivered_ms(self) -> int:
        return self.cooked_ms + (6 + self.number % 17) * MINUTE_MS

    def encode(self) -> bytes:
        return json.dumps(self._asdict(), ensure_ascii=False).encode()


def order(number: int, per_second: int) -> Order:
    dish, cents = DISHES[number * 7 % len(DISHES)]
    restaurant = RESTAURANTS[(number * number + number) % len(RESTAURANTS)]
    return Order(number, restaurant, dish, cents, OPENING_MS + number * 1000 * BUSINESS_SPEED // per_second)


def decode(value: bytes) -> Order:
    found: dict[str, Any] = json.loads(value)
    return Order(**{name: found[name] for name in Order._fields})
