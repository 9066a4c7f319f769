"""Registration, heartbeats, fencing, controlled shutdown and unregistration over small images."""

from typing import Any

import pytest
from images import after, broker, cluster, directory_of

from barnabas.config.broker import BrokerConfig
from barnabas.controller import lifecycle, registration
from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.controller.electorate import Electorate
from barnabas.controller.features import AT_FORMAT, SUPPORTED
from barnabas.errors import ErrorCode
from barnabas.metadata.image import DIRECTORY_UNASSIGNED, MetadataImage, PartitionImage
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from barnabas.types import NO_LEADER

CONFIG = BrokerConfig({"min.insync.replicas": "2"})
TOPIC = b"topic-----------"
NEXT_OFFSET = 100


def three_brokers(*, elr: bool = True, replicas: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    image = cluster(broker(1), broker(2), broker(3))
    image = image._replace(features=AT_FORMAT if elr else {"metadata.version": 30}, offset=50)
    partition = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=list(replicas),
        isr=list(replicas),
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[directory_of(each) for each in replicas],
    )
    return after(image, [TopicRecord(name="topic", topic_id=TOPIC), partition])


def partition_of(image: MetadataImage) -> PartitionImage:
    return image.topics_by_id[TOPIC].partitions[0]


class Cluster:
    """The image with its sessions; every decision is carried out."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.sessions = BrokerSessions()
        self.sessions.begin(image, 0)
        self.records: list[Any] = []  # of the last decision

    @property
    def partition(self) -> PartitionImage:
        return partition_of(self.image)

    def carry_out(self, records: Any) -> None:
        self.records = list(records)
        self.image = after(self.image, self.records)

    def heartbeat(self, broker_id: int, *, epoch: int | None = None, **fields: Any) -> BrokerHeartbeatResponse:
        fields.setdefault("current_metadata_offset", 1_000)
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch or broker_id * 10, **fields)
        decision = lifecycle.heartbeat(Electorate(self.image, CONFIG), self.sessions, request, NEXT_OFFSET, 0)
        self.carry_out(decision.records)
        return decision.response

    def register(self, broker_id: int = 4, *, now_ms: float = 0, **fields: Any) -> Any:
        fields = {
            "cluster_id": "cluster",
            "incarnation_id": b"another one-----",
            "listeners": [Listener(name="PLAINTEXT", host="host", port=9, security_protocol=0)],
            "features": features(),
            "log_dirs": [directory_of(broker_id)],
            **fields,
        }
        decision = registration.register_broker(
            Electorate(self.image, CONFIG),
            self.sessions,
            BrokerRegistrationRequest(broker_id=broker_id, **fields),
            "cluster",
            NEXT_OFFSET,
            now_ms,
        )
        self.carry_out(decision.records)
        return decision.response


def features(**changed: tuple[int, int]) -> list[Feature]:
    ranges = {each.name: (each.min_version, each.max_version) for each in SUPPORTED}
    ranges |= {name.replace("_", "."): found for name, found in changed.items()}
    return [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in ranges.items()
    ]


# Heartbeats


@pytest.mark.parametrize(("broker_id", "epoch"), [(7, 70), (1, 9)])
def test_only_the_present_incarnation_is_listened_to(broker_id: int, epoch: int) -> None:
    found = Cluster(three_brokers())
    response = found.heartbeat(broker_id, epoch=epoch, want_fence=True)
    assert (response.error_code, response.is_fenced) == (ErrorCode.STALE_BROKER_EPOCH, True)
    assert found.records == []


def test_a_heartbeat_of_who_wants_nothing_changes_nothing() -> None:
    found = Cluster(three_brokers())
    response = found.heartbeat(1)
    assert (response.is_caught_up, response.is_fenced, response.should_shut_down) == (True, False, False)
    assert found.records == []


def test_a_fenced_broker_is_unfenced_when_it_knows_of_itself() -> None:
    found = Cluster(cluster(broker(1, fenced=True)))
    response = found.heartbeat(1, current_metadata_offset=9)
    assert (response.is_caught_up, response.is_fenced) == (False, True)
    response = found.heartbeat(1, current_metadata_offset=10, want_fence=True)
    assert (response.is_caught_up, response.is_fenced) == (True, True)
    assert found.records == []
    assert not found.heartbeat(1, current_metadata_offset=10).is_fenced
    assert not found.image.brokers[1].fenced


def test_who_wants_to_be_fenced_hands_over_first() -> None:
    found = Cluster(three_brokers())
    assert found.heartbeat(1, want_fence=True).is_fenced
    assert found.image.brokers[1].fenced
    assert (found.partition.leader, found.partition.isr, found.partition.leader_epoch) == (2, (2, 3), 1)


def test_a_controlled_shutdown_waits_until_all_know_the_new_leaders() -> None:
    found = Cluster(three_brokers())
    for broker_id in (2, 3):
        found.heartbeat(broker_id, current_metadata_offset=60)
    response = found.heartbeat(1, want_shut_down=True)
    assert (response.is_fenced, response.should_shut_down) == (False, False)
    assert found.image.brokers[1].in_controlled_shutdown
    assert (found.partition.leader, found.partition.isr) == (2, (2, 3))
    moved_at = NEXT_OFFSET + len(found.records) - 1
    found.heartbeat(2, current_metadata_offset=moved_at)
    assert not found.heartbeat(1, want_shut_down=True).should_shut_down
    found.heartbeat(3, current_metadata_offset=moved_at - 1)
    assert not found.heartbeat(1, want_shut_down=True).should_shut_down
    found.heartbeat(3, current_metadata_offset=moved_at)
    response = found.heartbeat(1, want_shut_down=True)
    assert (response.is_fenced, response.should_shut_down) == (True, True)
    assert found.image.brokers[1].fenced


def test_a_new_controller_lets_a_controlled_shutdown_end() -> None:
    found = Cluster(three_brokers())
    found.heartbeat(1, want_shut_down=True)
    found.sessions = BrokerSessions()
    found.sessions.begin(found.image, 0)
    assert not found.heartbeat(1, want_shut_down=True).should_shut_down
    for broker_id in (2, 3):
        found.heartbeat(broker_id)
    assert found.heartbeat(1, want_shut_down=True).should_shut_down


def test_who_leads_nothing_may_go_at_once() -> None:
    found = Cluster(three_brokers())
    response = found.heartbeat(3, want_shut_down=True)
    assert (response.is_fenced, response.should_shut_down) == (True, True)
    assert found.partition.isr == (1, 2)


def test_a_fenced_broker_may_go_at_once_and_nothing_is_written() -> None:
    found = Cluster(cluster(broker(1, fenced=True)))
    assert found.heartbeat(1, want_shut_down=True).should_shut_down
    assert found.records == []


def test_a_lost_directory_takes_its_replicas_along() -> None:
    image = three_brokers()
    other = b"other directory-"
    brokers = {**image.brokers, 1: image.brokers[1]._replace(directories=(directory_of(1), other))}
    found = Cluster(image._replace(brokers=brokers))
    found.heartbeat(1, offline_log_dirs=[other, b"unknown---------"])
    assert (found.partition.leader, found.image.brokers[1].directories) == (1, (directory_of(1),))
    found = Cluster(image._replace(brokers=brokers))
    found.heartbeat(1, offline_log_dirs=[directory_of(1)])
    assert (found.partition.leader, found.partition.isr) == (2, (2, 3))
    assert found.image.brokers[1].directories == (other,)
    assert not found.image.brokers[1].fenced
    assert found.heartbeat(1, offline_log_dirs=[directory_of(1)]).error_code == ErrorCode.NONE
    assert found.records == []


def test_directories_are_cordoned_and_opened_again() -> None:
    found = Cluster(three_brokers())
    found.heartbeat(1, cordoned_log_dirs=[directory_of(1)])
    assert found.image.brokers[1].cordoned_directories == (directory_of(1),)
    found.heartbeat(1, cordoned_log_dirs=None)
    assert found.records == []
    found.heartbeat(1, cordoned_log_dirs=[])
    assert found.image.brokers[1].cordoned_directories == ()


# Fencing


def test_an_expired_session_fences_one_broker_at_a_time() -> None:
    found = Cluster(three_brokers())
    found.sessions.contacted(3, 30, 60, 5_000)
    fenced = []
    while True:
        decision = lifecycle.fence_expired(Electorate(found.image, CONFIG), found.sessions, 11_001)
        found.carry_out(decision.records)
        if decision.response is None:
            break
        fenced.append((decision.response, found.partition.leader, found.partition.isr))
    assert fenced == [(1, 2, (2, 3)), (2, 3, (3,))]
    assert found.partition.eligible_leader_replicas == (2,)


def test_the_last_in_sync_is_eligible_when_it_comes_back() -> None:
    found = Cluster(three_brokers(replicas=(1,)))
    found.heartbeat(1, want_fence=True)
    assert (found.partition.leader, found.partition.isr) == (NO_LEADER, ())
    assert (found.partition.eligible_leader_replicas, found.partition.last_known_elr) == ((1,), (1,))
    found.heartbeat(1)
    assert (found.partition.leader, found.partition.isr, found.partition.leader_epoch) == (1, (1,), 2)
    assert (found.partition.eligible_leader_replicas, found.partition.last_known_elr) == ((), ())


def test_without_eligible_leaders_the_last_in_sync_is_remembered_as_such() -> None:
    found = Cluster(three_brokers(elr=False, replicas=(1,)))
    found.heartbeat(1, want_fence=True)
    assert (found.partition.leader, found.partition.isr) == (NO_LEADER, (1,))
    found.heartbeat(1)
    assert (found.partition.leader, found.partition.isr) == (1, (1,))


# Registration


def test_a_new_broker_is_registered_fenced_with_the_offset_as_epoch() -> None:
    found = Cluster(three_brokers())
    response = found.register(4, rack="r")
    assert (response.error_code, response.broker_epoch) == (ErrorCode.NONE, NEXT_OFFSET)
    registered = found.image.brokers[4]
    assert (registered.epoch, registered.fenced, registered.rack) == (NEXT_OFFSET, True, "r")
    assert registered.endpoints[0].host == "host"
    assert registered.features["group.version"] == (0, 1)


def test_the_same_incarnation_keeps_its_epoch_and_state() -> None:
    found = Cluster(three_brokers())
    response = found.register(1, incarnation_id=bytes([1]) * 16)
    assert response.broker_epoch == 10
    assert not found.image.brokers[1].fenced
    assert found.partition.leader == 1
    assert [type(record) for record in found.records] == [RegisterBrokerRecord]


def test_an_id_is_taken_while_its_broker_has_a_session() -> None:
    found = Cluster(three_brokers())
    found.heartbeat(1)
    assert found.register(1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert found.register(1, now_ms=8_999).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    found.sessions.connection_lost(1)
    assert found.register(1, now_ms=0).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert found.register(1, now_ms=451).error_code == ErrorCode.NONE


def test_a_broker_that_nobody_heard_must_speak_up_when_another_claims_its_id() -> None:
    """After all of a cluster has crashed, the sessions that its next controller assumes would keep everybody out."""
    found = Cluster(three_brokers())
    assert found.register(1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert found.register(1, now_ms=449).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    found.heartbeat(1)
    assert found.register(1, now_ms=451).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    found = Cluster(three_brokers())
    found.register(1)
    assert found.register(1, now_ms=451).error_code == ErrorCode.NONE


def test_who_ended_in_good_order_leaves_its_id_at_once() -> None:
    found = Cluster(three_brokers())
    found.heartbeat(1)
    assert found.register(1, previous_broker_epoch=10).error_code == ErrorCode.NONE


def test_a_clean_stop_leaves_a_broker_eligible_and_an_unclean_one_does_not() -> None:
    for previous_epoch, eligible in ((10, (1,)), (9, ()), (-1, ())):
        found = Cluster(three_brokers(replicas=(1, 2)))
        response = found.register(1, previous_broker_epoch=previous_epoch, now_ms=12_000)
        assert response.broker_epoch == NEXT_OFFSET + 1  # of its own record, behind that of the partition
        assert found.image.brokers[1].epoch == response.broker_epoch
        assert (found.partition.leader, found.partition.isr) == (2, (2,))
        assert found.partition.eligible_leader_replicas == eligible


def test_who_led_last_leads_again_where_all_stopped_uncleanly() -> None:
    found = Cluster(three_brokers(replicas=(1,)))
    found.register(1, now_ms=12_000)
    assert (found.partition.leader, found.partition.isr) == (NO_LEADER, ())
    assert (found.partition.eligible_leader_replicas, found.partition.last_known_elr) == ((), (1,))
    found.heartbeat(1, epoch=found.image.brokers[1].epoch)
    assert (found.partition.leader, found.partition.isr) == (1, (1,))
    assert (found.partition.leader_recovery_state, found.partition.last_known_elr) == (1, ())


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [b"a" * 16, b"a" * 16]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [DIRECTORY_UNASSIGNED]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_of(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"features": features(metadata_version=(7, 29))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(group_version=(0, 0))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(own_version=(1, 2))}, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": features(own_version=(0, 2))}, ErrorCode.NONE),
        (
            {"features": [each for each in features() if each.name != "group.version"]},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_registrations_that_do_not_fit(fields: dict[str, Any], error: ErrorCode) -> None:
    found = Cluster(three_brokers())
    response = found.register(4, **fields)
    assert response.error_code == error
    assert (4 in found.image.brokers) == (error == ErrorCode.NONE)


# Unregistration


def test_an_unregistered_broker_leads_nothing() -> None:
    found = Cluster(three_brokers())
    decision = lifecycle.unregister_broker(Electorate(found.image, CONFIG), found.sessions, 1)
    found.carry_out(decision.records)
    assert decision.response is None
    assert isinstance(found.records[-1], UnregisterBrokerRecord)
    assert list(found.image.brokers) == [2, 3]
    assert (found.partition.leader, found.partition.isr, found.partition.replicas) == (2, (2, 3), (1, 2, 3))
    assert found.heartbeat(1).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_who_is_not_registered_cannot_be_unregistered() -> None:
    found = Cluster(three_brokers())
    refusal = lifecycle.unregister_broker(Electorate(found.image, CONFIG), found.sessions, 7).response
    assert refusal is not None
    assert refusal.error == ErrorCode.BROKER_ID_NOT_REGISTERED
