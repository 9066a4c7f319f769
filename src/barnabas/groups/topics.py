"""What groups may know of the cluster: its topics, read only."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from barnabas.types import Uuid


class Topic(NamedTuple):
    name: str
    id: Uuid
    partition_count: int


class Topics(Protocol):
    """As of one metadata image; a newer image comes as another object."""

    @property
    def version(self) -> int:
        """Rises with every change of the metadata."""

    def by_name(self, name: str) -> Topic | None: ...

    def by_id(self, topic_id: Uuid) -> Topic | None: ...

    def names(self) -> Iterable[str]: ...

    def racks(self, topic_id: Uuid, partition: int) -> tuple[str, ...]:
        """Where the replicas stand, as far as their brokers say."""


class NoTopics:
    """Before the first image."""

    version = -1

    def by_name(self, name: str) -> Topic | None:
        return None

    def by_id(self, topic_id: Uuid) -> Topic | None:
        return None

    def names(self) -> Iterable[str]:
        return ()

    def racks(self, topic_id: Uuid, partition: int) -> tuple[str, ...]:
        return ()
