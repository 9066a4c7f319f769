"""What has happened, as anybody can read it: every stage's orders, and what the analytics say. And whether it is right.

Reads all topics from their beginning, committed records only, as a consumer without a group.
"""

import json
from collections import Counter
from typing import Any

from business import ANALYTICS, DELIVERIES, ORDERS, PAYMENTS, PER_MINUTE, REVENUE, STAGES, decode

from barnabas.client import Consumer


class Ledger:
    def __init__(self) -> None:
        self.seen: dict[str, Counter[int]] = {stage: Counter() for stage in STAGES}  # how often each order came by
        self.cents: dict[str, int] = {}  # paid, by restaurant
        self.analytics: dict[str, dict[str, Any]] = {topic: {} for topic in ANALYTICS}  # of each key the last record

    async def read(self, consumer: Consumer, timeout_ms: float) -> int:
        """What came meanwhile; how many records that were."""
        records = await consumer.poll(timeout_ms, 5000)
        for record in records:
            if record.topic in self.analytics:
                self.analytics[record.topic][record.key.decode()] = json.loads(record.value)
                continue
            order = decode(record.value)
            self.seen[record.topic][order.number] += 1
            if record.topic == PAYMENTS:
                self.cents[order.restaurant] = self.cents.get(order.restaurant, 0) + order.cents
        return len(records)

    def count(self, stage: str) -> int:
        return self.seen[stage].total()

    def analysed(self, topic: str) -> int:
        return sum(each["orders"] for each in self.analytics[topic].values())

    def wrong(self, orders: int) -> list[str]:
        """What is not as it must be; nothing where all is well."""
        found = []
        for stage in STAGES:
            twice = sum(count > 1 for count in self.seen[stage].values())
            missing = orders - len(self.seen[stage])
            if twice or missing:
                found.append(f"{stage}: {missing} orders are missing, {twice} came more than once")
        counts = {topic: self.analysed(topic) for topic in ANALYTICS}
        found += [
            f"{topic}: it counts {count} orders, not {orders}" for topic, count in counts.items() if count != orders
        ]
        told = {name: each["cents"] for name, each in self.analytics[REVENUE].items()}
        if told != self.cents:
            found.append(f"{REVENUE}: it says {told}, and payments say {self.cents}")
        by_minute = sum(each["cents"] for each in self.analytics[PER_MINUTE].values())
        if by_minute != sum(self.cents.values()):
            found.append(f"{PER_MINUTE}: {by_minute} cents were ordered, and {sum(self.cents.values())} paid")
        return found

    def is_complete(self, orders: int) -> bool:
        stages = all(self.count(stage) >= orders for stage in STAGES)
        return stages and all(self.analysed(topic) >= orders for topic in ANALYTICS)

    def line(self) -> str:
        names = ("ordered", "cooked", "delivered", "paid")
        stages = "  ".join(f"{name} {self.count(stage):>6,}" for name, stage in zip(names, STAGES, strict=True))
        euros = sum(self.cents.values()) / 100
        return f"{stages}  revenue {euros:>10,.2f} €  analysed {self.analysed(REVENUE):>6,}"

    def table(self) -> list[str]:
        lines = [f"  {'restaurant':<20} {'orders':>7} {'revenue':>13} {'to the door':>12}"]
        largest = max(self.cents.values(), default=1)
        for name, cents in sorted(self.cents.items(), key=lambda each: -each[1]):
            delivery = self.analytics[DELIVERIES].get(name, {"orders": 0, "minutes": 0.0})
            bar = "█" * round(20 * cents / largest)
            lines.append(
                f"  {name:<20} {delivery['orders']:>7,} {cents / 100:>11,.2f} € {delivery['minutes']:>8.1f} min  {bar}"
            )
        return lines


TOPICS = (ORDERS, *STAGES[1:], *ANALYTICS)
