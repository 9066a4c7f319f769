"""Keeps what a consumer knows of its topics fresh: when something turns out stale, and every so often.

Always holds: at most one question at a time, with a pause between two; a topic that does not exist yet is asked for
until it does. Does not know: who uses what it learns (`on_news` tells them).
"""

import asyncio
from collections.abc import Callable

from barnabas.client.cluster import Cluster
from barnabas.client.consuming.group_member import GroupMember
from barnabas.client.consuming.subscription import SubscriptionState
from barnabas.client.errors import KafkaError, error_of
from barnabas.client.settings import ConsumerConfig


class TopicWatch:
    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        on_news: Callable[[], None],
    ) -> None:
        self.member: GroupMember | None = None
        self.failure: KafkaError | None = None  # a topic cannot be read, and asking again does not help
        self._cluster = cluster
        self._config = config
        self._subscription = subscription
        self._on_news = on_news
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        self._wanted.set()

    async def work(self) -> None:
        clock = self._cluster.runtime.clock
        failures = 0
        while True:
            try:
                async with asyncio.timeout(self._config.metadata_max_age_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            if await self._ask():
                failures = 0
            else:
                failures += 1
                self._wanted.set()
            await clock.sleep(self._cluster.pause_ms(failures))

    async def _ask(self) -> bool:
        """False where it should be asked again soon."""
        topics = self._topics()
        if topics == []:
            return True
        try:
            await self._cluster.refresh(
                topics, allow_auto_topic_creation=self._config.allow_auto_create_topics and topics is not None
            )
        except KafkaError as error:
            if not error.retriable:
                raise
            return False
        self._match()
        self._on_news()
        return self._are_known()

    def _topics(self) -> list[str] | None:
        """None: all of them."""
        subscription = self._subscription
        if subscription.pattern is not None or subscription.server_pattern is not None:
            return None
        watched = () if self.member is None else self.member.topics_watched
        return sorted({*subscription.topics, *watched, *(each.topic for each in subscription.partitions)})

    def _match(self) -> None:
        pattern = self._subscription.pattern
        if pattern is None:
            return
        topics = self._cluster.metadata.topics.values()
        without_internal = self._config.exclude_internal_topics
        self._subscription.matched(
            each.name for each in topics if pattern.fullmatch(each.name) and not (without_internal and each.is_internal)
        )

    def _are_known(self) -> bool:
        """Whether every topic that is read is there, with leaders."""
        self.failure = None
        errors = self._cluster.metadata.errors
        wanted = {*self._subscription.topics, *(each.topic for each in self._subscription.partitions)}
        for topic in sorted(wanted):
            code = errors.get(topic)
            if code is not None and not code.retriable:
                self.failure = error_of(code, about=f"topic {topic}")
        leaderless = any(self._cluster.leader(*each) is None for each in self._subscription.partitions)
        return not leaderless and all(self._cluster.topic(topic) is not None for topic in wanted)
