"""An image as records, and the records as an image again."""

from barnabas.metadata import snapshot
from barnabas.metadata.apply import apply
from barnabas.metadata.delta import diff
from barnabas.metadata.image import (
    EMPTY,
    BrokerImage,
    ConfigResource,
    ControllerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
    VersionRange,
)
from barnabas.protocol.metadata_records import decode_record, encode_record

ENDPOINTS = (Endpoint("PLAINTEXT", "host", 9092, 0), Endpoint("OTHER", "host", 9093, 1))
FEATURES = {"metadata.version": VersionRange(7, 30), "kraft.version": VersionRange(0, 1)}


def topic(name: str, number: int, *states: PartitionImage) -> TopicImage:
    return TopicImage(name, bytes([number]) * 16, dict(enumerate(states)))


def whole_image() -> MetadataImage:
    """Every field of every part differs from its default somewhere."""
    directories = (b"a" * 16, b"b" * 16, b"c" * 16)
    plain = PartitionImage((1, 2, 3), (1, 2, 3), 1, 0, 0, directories)
    moving = PartitionImage((1, 2, 3), (2,), -1, 7, 9, directories, (1,), (3,), (2, 3), (1,), 1)
    # Not in the order of their names: the order of creation must survive.
    topics = [topic("z.b", 2, plain, moving), topic("a_b", 1, moving), topic("m", 3, plain)]
    return EMPTY._replace(
        offset=41,
        leader_epoch=3,
        timestamp_ms=1000,
        topics_by_name={each.name: each for each in topics},
        topics_by_id={each.id: each for each in topics},
        topics_by_unified_name={"z_b": ("z.b",), "a_b": ("a_b",)},
        brokers={
            2: BrokerImage(
                2, 17, b"i" * 16, ENDPOINTS, FEATURES, "rack", False, True, directories[:2], directories[:1]
            ),
            1: BrokerImage(1, 16, b"j" * 16, ENDPOINTS[:1], {}, None, True, False, directories[2:]),
        },
        controllers={1: ControllerImage(1, b"k" * 16, ENDPOINTS, FEATURES)},
        configs={
            ConfigResource(ResourceType.TOPIC, "m"): {"retention.ms": "5", "cleanup.policy": ""},
            ConfigResource(ResourceType.BROKER, ""): {"min.insync.replicas": "2"},
        },
        features={"group.version": 1, "metadata.version": 30},
        next_producer_id=4000,
        client_quotas={(("client-id", "c"), ("user", None)): {"producer_byte_rate": 1.5}},
    )


def rebuilt(image: MetadataImage) -> MetadataImage:
    records = [decode_record(encode_record(record)) for record in snapshot.records(image)]
    return apply(EMPTY, records, offset=image.offset, leader_epoch=image.leader_epoch, timestamp_ms=image.timestamp_ms)[
        0
    ]


def test_the_records_of_an_image_make_it_again() -> None:
    image = whole_image()
    again = rebuilt(image)
    assert again._replace(features={}) == image._replace(features={})
    assert list(again.topics_by_name) == ["z.b", "a_b", "m"]
    assert again.features == image.features


def test_every_field_is_put_to_the_test() -> None:
    image = whole_image()
    assert all(getattr(image, name) for name in image._fields)


def test_the_level_of_metadata_comes_first() -> None:
    """It says how the rest is to be read."""
    assert next(iter(snapshot.records(whole_image()))).name == "metadata.version"  # type: ignore[attr-defined]


def test_an_empty_image_is_no_record() -> None:
    assert list(snapshot.records(EMPTY)) == []


def test_what_a_snapshot_makes_anew_has_not_changed() -> None:
    """A broker must not take up its partitions again because it heard of them in another way."""
    image = whole_image()
    assert diff(image, rebuilt(image)).is_empty
    moved = image.topics_by_name["m"].partitions[0]._replace(leader=2, leader_epoch=1)
    later = topic("m", 3, moved)
    after = image._replace(
        topics_by_name={**image.topics_by_name, "m": later}, topics_by_id={**image.topics_by_id, later.id: later}
    )
    delta = diff(image, rebuilt(after))
    assert [(each.topic.name, list(each.partitions)) for each in delta.topics_changed] == [("m", [0])]
