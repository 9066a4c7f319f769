"""How fast replicas that are not in sync may be brought up to date: a rate for this broker as leader, one as follower.

What was copied is paid for with time: after so many bytes nothing more goes until the rate has made up for them. So the
average is exact, whatever the size of a fetch, and it is known when the next one may go.
Holds: replicas in sync are never held back, though what they copy counts, as in Kafka.
Does not know: which replicas are throttled; partitions know that of themselves.
"""

from collections.abc import Sequence

from barnabas.types import BrokerId

UNLIMITED = (1 << 63) - 1  # bytes per second
SECOND_MS = 1000.0
ALL = "*"


class Throttle:
    def __init__(self, rate_bytes: int = UNLIMITED) -> None:
        self.rate_bytes = rate_bytes  # per second
        self.free_ms = 0.0  # from when on more may be copied

    def changed(self, rate_bytes: int, now_ms: float) -> None:
        """What is not paid for yet is paid for at the new rate."""
        if rate_bytes != self.rate_bytes:
            debt_bytes = max(0.0, self.free_ms - now_ms) * self.rate_bytes / SECOND_MS
            self.rate_bytes = rate_bytes
            self.free_ms = now_ms + debt_bytes * SECOND_MS / rate_bytes

    def copied(self, size_bytes: int, now_ms: float) -> None:
        self.free_ms = max(self.free_ms, now_ms) + size_bytes * SECOND_MS / self.rate_bytes

    def wait_ms(self, now_ms: float) -> float:
        """0 where more may be copied now."""
        return max(0.0, self.free_ms - now_ms)


def is_throttled(replicas: Sequence[str], partition: int, broker_id: BrokerId) -> bool:
    """By the topic's list of partition:broker, or * for all."""
    return ALL in replicas or f"{partition}:{broker_id}" in replicas
