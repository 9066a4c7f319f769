"""The topics of a metadata image, in the form in which groups see them."""

from collections.abc import Iterable

from barnabas.groups.topics import Topic
from barnabas.metadata.image import MetadataImage, TopicImage
from barnabas.types import Uuid


class ImageTopics:
    __slots__ = ("_image",)

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    @property
    def version(self) -> int:
        return self._image.offset

    def by_name(self, name: str) -> Topic | None:
        return _topic(self._image.topics_by_name.get(name))

    def by_id(self, topic_id: Uuid) -> Topic | None:
        return _topic(self._image.topics_by_id.get(topic_id))

    def names(self) -> Iterable[str]:
        return self._image.topics_by_name

    def racks(self, topic_id: Uuid, partition: int) -> tuple[str, ...]:
        topic = self._image.topics_by_id.get(topic_id)
        state = None if topic is None else topic.partitions.get(partition)
        if state is None:
            return ()
        brokers = (self._image.brokers.get(replica) for replica in state.replicas)
        return tuple(broker.rack for broker in brokers if broker is not None and broker.rack is not None)


def _topic(found: TopicImage | None) -> Topic | None:
    return None if found is None else Topic(found.name, found.id, len(found.partitions))
