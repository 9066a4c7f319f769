"""ElectLeaders, balance of leaders, unclean recovery. Error codes are those of Apache Kafka 4.3.1."""

from typing import Any

import pytest
from images import after, broker, cluster, directory_of

from barnabas.config.broker import BrokerConfig
from barnabas.controller import elections
from barnabas.controller.electorate import Electorate
from barnabas.controller.features import AT_FORMAT
from barnabas.errors import ErrorCode
from barnabas.metadata.image import ConfigResource, MetadataImage, ResourceType
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.types import NO_LEADER

TOPIC = b"topic-----------"
PREFERRED, UNCLEAN = 0, 1


def image_of(*partitions: dict[str, Any], dead: tuple[int, ...] = (), **configs: str) -> MetadataImage:
    """Topic `topic` with these partitions on brokers 1 to 3. Each names leader and what differs from all in sync."""
    image = cluster(*(broker(each, fenced=each in dead) for each in (1, 2, 3)))._replace(features=AT_FORMAT)
    overrides = {name.replace("_", "."): value for name, value in configs.items()}
    if overrides:
        image = image._replace(configs={ConfigResource(ResourceType.TOPIC, "topic"): overrides})
    records: list[Any] = [TopicRecord(name="topic", topic_id=TOPIC)]
    for number, fields in enumerate(partitions):
        defaults: dict[str, Any] = {
            "replicas": [1, 2, 3],
            "isr": [1, 2, 3],
            "directories": [directory_of(each) for each in (1, 2, 3)],
            "leader_epoch": 4,
            "partition_epoch": 7,
        }
        records.append(PartitionRecord(partition_id=number, topic_id=TOPIC, **{**defaults, **fields}))
    return after(image, records)


def elect(
    image: MetadataImage, election_type: int, *numbers: int, topic: str = "topic", everything: bool = False
) -> tuple[MetadataImage, Any]:
    asked = None if everything else [TopicPartitions(topic=topic, partitions=list(numbers))]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=asked)
    decision = elections.elect_leaders(Electorate(image, BrokerConfig({})), request)
    return after(image, decision.records), decision.response


def errors(response: Any) -> dict[int, int]:
    return {each.partition_id: each.error_code for each in response.replica_election_results[0].partition_result}


def leaders(image: MetadataImage) -> list[int]:
    return [state.leader for state in image.topics_by_id[TOPIC].partitions.values()]


def test_the_preferred_leader_leads_again_in_a_new_epoch() -> None:
    image = image_of({"leader": 2}, {"leader": 1})
    elected, response = elect(image, PREFERRED, 0, 1, 9)
    assert errors(response) == {
        0: ErrorCode.NONE,
        1: ErrorCode.ELECTION_NOT_NEEDED,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert leaders(elected) == [1, 1]
    state = elected.topics_by_id[TOPIC].partitions[0]
    assert (state.leader_epoch, state.partition_epoch) == (5, 8)


@pytest.mark.parametrize("fields", [{"dead": (1,)}, {"isr": [2, 3]}], ids=["who is fenced", "who is not in sync"])
def test_who_cannot_lead_is_not_elected_though_preferred(fields: dict[str, Any]) -> None:
    dead = fields.pop("dead", ())
    elected, response = elect(image_of({"leader": 2, "isr": [2, 3], **fields}, dead=dead), PREFERRED, 0)
    assert errors(response) == {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert leaders(elected) == [2]


def test_an_unclean_election_takes_anybody_who_is_alive() -> None:
    leaderless = {"leader": NO_LEADER, "isr": [], "eligible_leader_replicas": [1]}
    image = image_of(leaderless, {"leader": 2}, dead=(1,))
    elected, response = elect(image, UNCLEAN, 0, 1)
    assert errors(response) == {0: ErrorCode.NONE, 1: ErrorCode.ELECTION_NOT_NEEDED}
    state = elected.topics_by_id[TOPIC].partitions[0]
    assert (state.leader, state.isr, state.eligible_leader_replicas) == (2, (2,), ())
    assert state.leader_recovery_state == 1


def test_an_unclean_election_needs_somebody_alive() -> None:
    leaderless = {"leader": NO_LEADER, "isr": [], "eligible_leader_replicas": [1], "last_known_elr": [1]}
    _elected, response = elect(image_of(leaderless, dead=(1, 2, 3)), UNCLEAN, 0)
    assert errors(response) == {0: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_asked_for_all_only_those_are_answered_that_needed_it() -> None:
    image = image_of({"leader": 1}, {"leader": 2}, {"leader": 3, "isr": [2, 3]})
    elected, response = elect(image, PREFERRED, everything=True)
    assert errors(response) == {1: ErrorCode.NONE, 2: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert leaders(elected) == [1, 1, 3]


def test_unknown_topics_and_types() -> None:
    image = image_of({"leader": 2})
    _elected, response = elect(image, PREFERRED, 0, topic="other")
    assert errors(response) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    elected, response = elect(image, 5, 0)
    assert (response.error_code, errors(response)) == (ErrorCode.INVALID_REQUEST, {0: ErrorCode.INVALID_REQUEST})
    assert leaders(elected) == [2]


def test_balance_moves_leaders_to_where_they_belong() -> None:
    image = image_of({"leader": 1}, {"leader": 2}, {"leader": 3, "isr": [2, 3]})
    decision = elections.balance_leaders(Electorate(image, BrokerConfig({})))
    assert decision.response is False
    assert leaders(after(image, decision.records)) == [1, 1, 3]


def test_balance_does_so_many_at_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "ELECTIONS_AT_ONCE_MAX", 2)
    image = image_of(*({"leader": 2} for _ in range(3)))
    first = elections.balance_leaders(Electorate(image, BrokerConfig({})))
    assert (len(first.records), first.response) == (2, True)
    second = elections.balance_leaders(Electorate(after(image, first.records), BrokerConfig({})))
    assert (len(second.records), second.response) == (1, False)


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_unclean_recovery_is_for_topics_that_allow_it(allowed: str) -> None:
    leaderless = {"leader": NO_LEADER, "isr": [], "eligible_leader_replicas": [1]}
    image = image_of(leaderless, dead=(1,), unclean_leader_election_enable=allowed)
    decision = elections.elect_unclean_leaders(Electorate(image, BrokerConfig({})))
    assert leaders(after(image, decision.records)) == [2 if allowed == "true" else NO_LEADER]


# Configs


def test_settings_of_topics_win_over_those_of_the_cluster_and_of_the_file() -> None:
    image = image_of({"leader": 1})
    topic = image.topics_by_id[TOPIC]
    config = BrokerConfig({"min.insync.replicas": "2", "node.id": "1"})
    for node, number in (("", "3"), ("1", "1")):
        assert Electorate(image, config).min_isr(topic) == (2 if node == "" else 3)
        configs = {**image.configs, ConfigResource(ResourceType.BROKER, node): {"min.insync.replicas": number}}
        image = image._replace(configs=configs)
    assert Electorate(image, config).min_isr(topic) == 1
    own = {ConfigResource(ResourceType.TOPIC, "topic"): {"min.insync.replicas": "9"}}
    assert Electorate(image._replace(configs=own), config).min_isr(topic) == 3  # not more than there are replicas
    odd = {ConfigResource(ResourceType.TOPIC, "topic"): {"min.insync.replicas": "many"}}
    assert Electorate(image._replace(configs=odd), config).min_isr(topic) == 2
