"""Who may lead: brokers that are alive, and the configs that say how many must be in sync and what may be risked.

Always holds: it looks at one image and never changes; a decision that builds upon another's records takes a new one.
Does not know: who leads; it hands out `PartitionChange`s, which work that out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.controller.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.controller.partition_change import Election, PartitionChange, PartitionRules
from barnabas.controller.placement import default_directory
from barnabas.metadata.apply import apply
from barnabas.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from barnabas.protocol.message import Message
from barnabas.types import BrokerId, Uuid

MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"


class Place(NamedTuple):
    """One partition of the image."""

    topic: TopicImage
    number: int

    @property
    def state(self) -> PartitionImage:
        return self.topic.partitions[self.number]


class Electorate:
    def __init__(self, image: MetadataImage, static_config: BrokerConfig) -> None:
        self.image = image
        self.elr_enabled = image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0
        self._static_config = static_config
        self._defaults: dict[str, Any] = {}  # of the two settings of topics, by name, as they are asked for

    def after(self, records: Sequence[Message]) -> "Electorate":
        """As it will be once these are committed."""
        if not records:
            return self
        return Electorate(apply(self.image, records, offset=self.image.offset)[0], self._static_config)

    # Brokers

    def is_active(self, broker_id: BrokerId) -> bool:
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.active

    def is_online(self, broker_id: BrokerId, directory: Uuid) -> bool:
        """Whether the directory works. One that is not known yet is taken to; one that was lost does not."""
        if directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
            return True
        broker = self.image.brokers.get(broker_id)
        if broker is None or directory == DIRECTORY_LOST:
            return False
        return not broker.directories or directory in broker.directories

    # Configs

    def min_isr(self, topic: TopicImage) -> int:
        return min(int(self._setting(topic.name, MIN_INSYNC_REPLICAS)), topic.replication_factor)

    def default_min_isr(self) -> int:
        return int(self._default(MIN_INSYNC_REPLICAS))

    def unclean_allowed(self, topic: TopicImage) -> bool:
        return bool(self._setting(topic.name, UNCLEAN_LEADER_ELECTION_ENABLE))

    def _setting(self, topic: str, name: str) -> Any:
        """A stored value that cannot be used counts as unset."""
        text = self.image.config(ResourceType.TOPIC, topic).get(name)
        if text is not None and TopicConfig.usable({name: text})[0]:
            return TopicConfig.SETTINGS[name].decode(text)
        if name not in self._defaults:
            self._defaults[name] = self._default(name)
        return self._defaults[name]

    def _default(self, name: str) -> Any:
        """As set for this node, else for all, else in its file."""
        for node in (str(self._static_config.node_id), ""):
            usable, _complaints = BrokerConfig.usable(self.image.config(ResourceType.BROKER, node))
            if name in usable:
                return BrokerConfig.SETTINGS[name].decode(usable[name])
        return self._static_config.value(name)

    # Partitions

    def places(self, wanted: Callable[[PartitionImage], bool]) -> Iterator[Place]:
        """Partitions whose state is of the wanted kind, in the order of the image."""
        for topic in self.image.topics_by_name.values():
            for number, state in topic.partitions.items():
                if wanted(state):
                    yield Place(topic, number)

    def change(self, place: Place, *, is_alive: Callable[[BrokerId], bool] | None = None) -> PartitionChange:
        """A change of the partition, in which those may lead who are active, or alive in the sense given."""
        state = place.state
        directories = dict(zip(state.replicas, state.directories, strict=True))
        alive = is_alive or self.is_active

        def can_lead(broker_id: BrokerId) -> bool:
            directory = directories.get(broker_id, DIRECTORY_UNASSIGNED)
            return alive(broker_id) and self.is_online(broker_id, directory)

        rules = PartitionRules(
            can_lead=can_lead,
            default_directory=lambda broker_id: default_directory(self.image, broker_id),
            min_isr=self.min_isr(place.topic),
            elr_enabled=self.elr_enabled,
        )
        return PartitionChange(place.topic.id, place.number, state, rules)

    def leader_changes(
        self,
        places: Iterable[Place],
        *,
        removed: BrokerId | None = None,
        added: BrokerId | None = None,
        uncleanly_stopped: BrokerId | None = None,
    ) -> list[Message]:
        """What a broker's going or coming means for partitions.

        One that is removed or has stopped uncleanly leads none and is in sync in none; after an unclean stop it is
        not eligible either. One that is added may lead, though the image still has it fenced.
        """
        gone = (removed, uncleanly_stopped)

        def is_alive(broker_id: BrokerId) -> bool:
            return broker_id not in gone and (broker_id == added or self.is_active(broker_id))

        records: list[Message] = []
        for place in places:
            change = self.change(place, is_alive=is_alive)
            if self.unclean_allowed(place.topic):
                change.election = Election.UNCLEAN
            if uncleanly_stopped is not None:
                change.unclean_shutdown = (uncleanly_stopped,)
            change.isr = tuple(replica for replica in place.state.isr if replica not in gone)
            record = change.record()
            if record is not None:
                records.append(record)
        return records
