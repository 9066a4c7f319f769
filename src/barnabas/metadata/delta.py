"""What changed between two images, in the form in which a broker carries it out.

Always holds: everything is in the order of the later image (deleted topics: of the earlier one), so that two brokers
with the same log do the same things in the same order. A topic deleted and created again under its name is in both
lists: its id differs.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from barnabas.metadata.image import BrokerImage, ConfigResource, MetadataImage, PartitionImage, TopicImage
from barnabas.types import BrokerId, Uuid

K = TypeVar("K")
V = TypeVar("V")


class TopicDelta(NamedTuple):
    topic: TopicImage  # as it now is
    before: TopicImage | None  # None: it is new
    partitions: Mapping[int, PartitionImage]  # new or changed, as they now are


class MetadataDelta(NamedTuple):
    topics_deleted: tuple[TopicImage, ...]  # as they last were
    topics_changed: tuple[TopicDelta, ...]  # created, or with a partition created or changed
    brokers_changed: Mapping[BrokerId, BrokerImage | None]  # None: unregistered
    configs_changed: tuple[ConfigResource, ...]  # of a deleted topic too
    features_changed: bool

    @property
    def is_empty(self) -> bool:
        return not (
            self.topics_deleted
            or self.topics_changed
            or self.brokers_changed
            or self.configs_changed
            or self.features_changed
        )


def diff(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """Compares by identity, which is enough: what a record did not touch is the same object in both."""
    return diff_of(
        before,
        after,
        _changed_keys(before.topics_by_id, after.topics_by_id),
        _changed_keys(before.brokers, after.brokers),
        _changed_keys(before.configs, after.configs),
    )


def diff_of(
    before: MetadataImage,
    after: MetadataImage,
    topic_ids: Iterable[Uuid],
    broker_ids: Iterable[BrokerId],
    resources: Iterable[ConfigResource],
) -> MetadataDelta:
    """As `diff`, for who knows already what can have changed: then the cost is that of the change alone."""
    deleted: list[TopicImage] = []
    changed: list[TopicDelta] = []
    for topic_id in topic_ids:
        earlier = before.topics_by_id.get(topic_id)
        later = after.topics_by_id.get(topic_id)
        if later is None:
            if earlier is not None:
                deleted.append(earlier)
        elif later is not earlier:
            partitions = _changed_partitions(earlier, later)
            if partitions or earlier is None:  # a snapshot makes everything anew, the same or not
                changed.append(TopicDelta(later, earlier, partitions))
    return MetadataDelta(
        topics_deleted=tuple(deleted),
        topics_changed=tuple(changed),
        brokers_changed={
            broker_id: after.brokers.get(broker_id)
            for broker_id in broker_ids
            if before.brokers.get(broker_id) != after.brokers.get(broker_id)
        },
        configs_changed=tuple(
            resource for resource in resources if before.configs.get(resource) != after.configs.get(resource)
        ),
        features_changed=before.features != after.features,
    )


def _changed_keys(before: Mapping[K, V], after: Mapping[K, V]) -> list[K]:
    gone = [key for key in before if key not in after]
    return gone + [key for key, value in after.items() if before.get(key) is not value]


def _changed_partitions(before: TopicImage | None, after: TopicImage) -> Mapping[int, PartitionImage]:
    if before is None:
        return after.partitions
    known = before.partitions
    return {
        partition: state
        for partition, state in after.partitions.items()
        if (before_state := known.get(partition)) is not state and before_state != state
    }
