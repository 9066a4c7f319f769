"""As `group_script`, for consumer groups (KIP-848) and for groups that change their protocol.

`python tests/support/consumer_script.py [--rewrite] SCRIPT…`. Commands besides those of `group_script`:
    topics NAME=PARTITIONS…      creates topics, or changes them; NAME=0 deletes one
    racks RACK…                  of the brokers, of which each has a replica of everything
    consumer NAME=VALUE…         of ConsumerSettings, for all groups
    beat CLIENT [topics=t,u] [regex=] [owned=told|none|t:0,1;u:2] [epoch=] [instance=] [rack=] [assignor=] [rebalance=]
         [version=] [id=] [join=yes]
                                 ConsumerGroupHeartbeat; the first one of a client joins, with owned=none and rebalance=
                                 60000 if nothing else is said; owned=told is what it was told last
    bye CLIENT [away=yes]        leaves; a static member that is away will be back
    examine                      ConsumerGroupDescribe
    join CLIENT topics=… [owned=told|none|…]
                                 with topics: the subscription of a consumer of the classic protocol
    sync CLIENT CLIENT=t:0,1…    as the leader sends it; with data=, as user data of an assignor
Members choose their own ids: a client's is its name. Topics have ids that begin with their names.
"""

from __future__ import annotations

import struct
from typing import Any

import golden_script
from group_script import CALLER, GROUP, GroupScript

from barnabas.errors import ErrorCode
from barnabas.groups.consumer import ConsumerGroup
from barnabas.groups.consumer_settings import ConsumerSettings, MigrationPolicy
from barnabas.groups.outcome import Client
from barnabas.groups.records import GroupRecord
from barnabas.groups.shard import GroupShard
from barnabas.groups.topics import Topic
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.sync_group import SyncGroupRequest

Partitions = dict[str, list[int]]  # by the name of the topic


class ScriptTopics:
    """Topics that come and go, as `groups.topics.Topics` shows them."""

    def __init__(self) -> None:
        self.version = 0
        self.racks_of_all: tuple[str, ...] = ()
        self._topics: dict[str, Topic] = {}
        self._made = 0

    def put(self, name: str, partition_count: int) -> None:
        self.version += 1
        known = self._topics.get(name)
        if partition_count == 0:
            del self._topics[name]
        elif known is not None:
            self._topics[name] = known._replace(partition_count=partition_count)
        else:
            self._made += 1
            self._topics[name] = Topic(name, f"{name:.12}.{self._made:03}".encode().ljust(16, b"."), partition_count)

    def by_name(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return next((topic for topic in self._topics.values() if topic.id == topic_id), None)

    def names(self) -> list[str]:
        return list(self._topics)

    def racks(self, topic_id: bytes, partition: int) -> tuple[str, ...]:
        return self.racks_of_all


class ConsumerScript(GroupScript):
    def __init__(self) -> None:
        self.consumer = ConsumerSettings(assignment_interval_ms=0)
        self.cluster = ScriptTopics()
        self.epochs: dict[str, int] = {}  # by client
        self.told: dict[str, Partitions] = {}  # the assignment that a client was told last
        super().__init__(self.cluster)

    def _empty_shard(self) -> GroupShard:
        shard = super()._empty_shard()
        shard.surroundings.consumer = self.consumer
        return shard

    # The cluster

    def do_topics(self, _plain: list[str], named: dict[str, str]) -> None:
        created = any(self.cluster.by_name(name) is None for name in named)
        for name, count in named.items():
            self.cluster.put(name, int(count))
        gone = any(count == "0" for count in named.values())
        self.shard.topics_changed(list(named), names_changed=created or gone, now=self.now)

    def do_racks(self, plain: list[str], _named: dict[str, str]) -> None:
        self.cluster.racks_of_all = tuple(plain)
        self.shard.topics_changed(self.cluster.names(), names_changed=False, now=self.now)

    def do_consumer(self, _plain: list[str], named: dict[str, str]) -> None:
        changes: dict[str, Any] = {}
        for name, value in named.items():
            if name == "migration":
                changes[name] = MigrationPolicy(value)
            else:
                changes[name] = tuple(value.split(",")) if name == "assignors" else int(value)
        self.consumer = self.consumer._replace(**changes)
        self.shard.surroundings.consumer = self.consumer

    # Requests

    def do_beat(self, plain: list[str], named: dict[str, str]) -> None:
        (client,) = plain
        joins = client not in self.epochs or "join" in named
        epoch = 0 if joins else self.epochs[client]
        if "epoch" in named:
            epoch = epoch + int(named["epoch"]) if named["epoch"][0] == "+" else int(named["epoch"])
        if named.get("instance"):
            self.instances[client] = named["instance"]
        self.ids[client] = named.get("id", self.ids.get(client, client))
        owned = named.get("owned", "none" if joins else None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=named.get("group", GROUP),
            member_id=self.ids[client],
            member_epoch=epoch,
            instance_id=named.get("instance", self.instances.get(client)),
            rack_id=named.get("rack"),
            rebalance_timeout_ms=int(named.get("rebalance", "60000" if joins else "-1")),
            subscribed_topic_names=split(named["topics"]) if "topics" in named else None,
            subscribed_topic_regex=named.get("regex"),
            server_assignor=named.get("assignor"),
            topic_partitions=None if owned is None else self._owned(client, owned),
        )
        self._heartbeat(client, request, int(named.get("version", 1)))

    def do_bye(self, plain: list[str], named: dict[str, str]) -> None:
        (client,) = plain
        request = ConsumerGroupHeartbeatRequest(
            group_id=named.get("group", GROUP),
            member_id=self.ids.get(client, client),
            member_epoch=-2 if "away" in named else -1,
            instance_id=self.instances.get(client),
        )
        self._heartbeat(client, request, 1)

    def _heartbeat(self, client: str, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        request = self.heartbeat_request(request)
        caller = Client(version, client, "/127.0.0.1")

        def show(response: ConsumerGroupHeartbeatResponse) -> str:
            if response.error_code:
                name = ErrorCode(response.error_code).name
                if response.error_code in FENCED:
                    self.epochs.pop(client, None)
                return f"{name}: {response.error_message}" if response.error_message else name
            if response.member_epoch < 0:
                self.epochs.pop(client, None)
                return f"epoch {response.member_epoch}"
            self.epochs[client] = response.member_epoch
            self.ids[client] = response.member_id or client
            if response.assignment is None:
                return f"epoch {response.member_epoch}"
            self.told[client] = {
                self.topic_name(each.topic_id): each.partitions for each in response.assignment.topic_partitions
            }
            return f"epoch {response.member_epoch}, {show_partitions(self.told[client])}"

        self.decide(
            client, "beat", show, lambda shard, asked: shard.consumer_heartbeat(request, caller, asked, self.now)
        )

    def _owned(self, client: str, text: str) -> list[RequestTopicPartitions]:
        return [
            RequestTopicPartitions(topic_id=self.topic_id(name), partitions=partitions)
            for name, partitions in self._partitions(client, text).items()
        ]

    def _partitions(self, client: str, text: str) -> Partitions:
        if text == "told":
            return self.told.get(client, {})
        if text == "none":
            return {}
        topics = (each.split(":") for each in text.split(";"))
        return {name: [int(number) for number in numbers.split(",")] for name, numbers in topics}

    def do_join(self, plain: list[str], named: dict[str, str]) -> None:
        if "topics" not in named:
            super().do_join(plain, named)
            return
        (client,) = plain
        if named.get("id") == "none":
            self.ids.pop(client, None)
        if "instance" in named:
            self.instances[client] = named["instance"]
        owned = self._partitions(client, named.get("owned", "none"))
        metadata = self.subscription(split(named["topics"]), owned)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(named.get("session", 10_000)),
            rebalance_timeout_ms=int(named.get("rebalance", 60_000)),
            member_id=self.ids.get(client, ""),
            group_instance_id=self.instances.get(client),
            protocol_type=named.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in named.get("protocols", "cooperative-sticky").split(",")
            ],
        )
        caller = Client(int(named.get("version", 9)), client, "/127.0.0.1")
        self.decide(
            client, "join", self._show_join(client), lambda shard, asked: shard.join(request, caller, asked, self.now)
        )

    def _show_join(self, client: str) -> Any:
        def show(response: Any) -> str:
            if response.member_id:
                self.ids[client] = response.member_id
            if response.error_code:
                return ErrorCode(response.error_code).name
            self.generations[client] = response.generation_id
            self.protocols[client] = response.protocol_name
            text = f"generation {response.generation_id}, {response.protocol_name}"
            if response.leader:
                text += f", {self.name(response.leader)} leads"
            return text + "".join(" " + self.name(each.member_id) for each in response.members)

        return show

    def do_sync(self, plain: list[str], named: dict[str, str]) -> None:
        if named:
            self._sync_as_leader(plain, named)
            return
        (client,) = plain
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generations.get(client, 0),
            member_id=self.ids.get(client, client),
            group_instance_id=self.instances.get(client),
            protocol_type="consumer",
            protocol_name=self.protocols.get(client),
        )
        self.decide(
            client, "sync", self._show_sync(client), lambda shard, asked: shard.sync(request, CALLER, asked, self.now)
        )

    def _sync_as_leader(self, plain: list[str], named: dict[str, str]) -> None:
        from barnabas.protocol.messages.sync_group import SyncGroupRequestAssignment

        (client,) = plain
        user_data = named.pop("data", "")
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generations.get(client, 0),
            member_id=self.ids.get(client, client),
            group_instance_id=self.instances.get(client),
            protocol_type="consumer",
            protocol_name=self.protocols.get(client),
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=self.ids.get(each, each),
                    assignment=self.assignment(self._partitions(each, text), user_data.encode() or None),
                )
                for each, text in named.items()
            ],
        )
        self.decide(
            client, "sync", self._show_sync(client), lambda shard, asked: shard.sync(request, CALLER, asked, self.now)
        )

    def _show_sync(self, client: str) -> Any:
        def show(response: Any) -> str:
            if response.error_code:
                return ErrorCode(response.error_code).name
            self.told[client] = self.decode_assignment(response.assignment)
            return show_partitions(self.told[client])

        return show

    def do_examine(self, _plain: list[str], named: dict[str, str]) -> None:
        def show(group: Any) -> str:
            if group.error_code:
                return ErrorCode(group.error_code).name
            head = f"{group.group_state}, epoch {group.group_epoch}, assigned for {group.assignment_epoch}"
            lines = [f"{head}, {group.assignor_name}"]
            for each in group.members:
                words = [f"{self.name(each.member_id)} {each.member_epoch}"]
                words += [] if each.member_type else ["classic"]
                words += [f"instance {each.instance_id}"] if each.instance_id else []
                owned, target = described(each.assignment), described(each.target_assignment)
                words.append(owned if owned == target else f"{owned} → {target}")
                lines.append(", ".join(words))
            return ("\n" + 8 * " ").join(lines)

        group_id = named.get("group", GROUP)
        self.decide("", "examine", show, lambda shard, asked: shard.consumer_describe(group_id, asked))

    # What is sent, as a shard in the test takes it; with a real broker names are longer

    def heartbeat_request(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        return request

    def subscription(self, topics: list[str], owned: Partitions) -> bytes:
        return subscription(topics, owned)

    def assignment(self, partitions: Partitions, user_data: bytes | None) -> bytes:
        return assignment(partitions, user_data)

    def decode_assignment(self, data: bytes) -> Partitions:
        return decode_assignment(data)

    # Showing

    def topic_id(self, name: str) -> bytes:
        topic = self.cluster.by_name(name)
        return name.encode().ljust(16, b"?") if topic is None else topic.id

    def topic_name(self, topic_id: bytes) -> str:
        topic = self.cluster.by_id(topic_id)
        return topic_id.decode().rstrip(".") if topic is None else topic.name

    def name(self, member_id: str) -> str:
        return next((client for client, each in self.ids.items() if each == member_id), member_id[:8])

    def show_record(self, record: GroupRecord) -> str:
        return super().show_record(record).replace("ConsumerGroup", "")

    def show_ConsumerGroupMetadataValue(self, value: Any) -> str:
        return f"epoch {value.epoch}" + ("" if value.metadata_hash else ", no topics")

    def show_ConsumerGroupMemberMetadataValue(self, value: Any) -> str:
        words = [",".join(value.subscribed_topic_names) or "no topics"]
        words += [f"regex {value.subscribed_topic_regex}"] if value.subscribed_topic_regex else []
        words += [f"instance {value.instance_id}"] if value.instance_id else []
        words += [f"rack {value.rack_id}"] if value.rack_id else []
        words += [f"assignor {value.server_assignor}"] if value.server_assignor else []
        if value.classic_member_metadata is not None:
            names = (each.name for each in value.classic_member_metadata.supported_protocols)
            words.append(f"classic {','.join(names)}")
        return "; ".join(words)

    def show_ConsumerGroupTargetAssignmentMemberValue(self, value: Any) -> str:
        return show_partitions({self.topic_name(each.topic_id): each.partitions for each in value.topic_partitions})

    def show_ConsumerGroupTargetAssignmentMetadataValue(self, value: Any) -> str:
        return f"epoch {value.assignment_epoch}"

    def show_ConsumerGroupCurrentMemberAssignmentValue(self, value: Any) -> str:
        state = {0: "stable", 1: "unrevoked", 2: "unreleased"}[value.state]
        assigned = self._numbers(value.assigned_partitions)
        text = f"epoch {value.previous_member_epoch}→{value.member_epoch}, {state}, {assigned}"
        revoking = value.partitions_pending_revocation
        return f"{text}, revoking {self._numbers(revoking)}" if revoking else text

    def _numbers(self, topics: Any) -> str:
        return show_partitions({self.topic_name(each.topic_id): each.partitions for each in topics})

    def show_ConsumerGroupRegularExpressionValue(self, value: Any) -> str:
        return " ".join(value.topics) or "(none)"

    def show_GroupMetadataValue(self, value: Any) -> str:
        if not value.members:
            return f"generation {value.generation}, empty"
        members = " ".join(
            f"{self.name(each.member_id)}={show_partitions(decode_assignment(each.assignment)).replace(' ', ':')}"
            for each in value.members
        )
        return f"generation {value.generation}, {value.protocol}, {members}"

    def _check(self) -> None:
        super()._check()
        replayed = self.replayed()
        for group_id, group in self.shard.groups.items():
            if isinstance(group, ConsumerGroup):
                other = replayed.groups[group_id]
                assert isinstance(other, ConsumerGroup)
                assert_same_state(other, group)
                assert_one_owner(group)


FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


def assert_same_state(replayed: ConsumerGroup, live: ConsumerGroup) -> None:
    for name in type(live.state).__slots__:
        assert getattr(replayed.state, name) == getattr(live.state, name), name


def assert_one_owner(group: ConsumerGroup) -> None:
    """Nobody has what another has, and the index says the same."""
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.state.members.values():
        for partitions in (member.assigned, member.revoking):
            for topic, epochs in partitions.items():
                for partition in epochs:
                    assert (topic, partition) not in owners, f"{topic!r}-{partition} has two owners"
                    owners[topic, partition] = member.member_id
    index = {(topic, each): owner for topic, found in group.state.owners.items() for each, owner in found.items()}
    assert index == owners


def split(text: str) -> list[str]:
    return text.split(",") if text else []


def show_partitions(partitions: Partitions) -> str:
    return (
        "; ".join(f"{name} {','.join(map(str, numbers))}" for name, numbers in sorted(partitions.items())) or "nothing"
    )


def described(assignment: Any) -> str:
    return show_partitions({each.topic_name: each.partitions for each in assignment.topic_partitions})


def subscription(topics: list[str], owned: Partitions) -> bytes:
    out = bytearray(struct.pack(">h", 3))
    ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=[TopicPartition(topic=name, partitions=numbers) for name, numbers in owned.items()],
    ).encode(out, 3)
    return bytes(out)


def assignment(partitions: Partitions, user_data: bytes | None = None) -> bytes:
    from barnabas.protocol.messages import consumer_protocol_assignment as message

    out = bytearray(struct.pack(">h", 3))
    ConsumerProtocolAssignment(
        assigned_partitions=[message.TopicPartition(topic=name, partitions=each) for name, each in partitions.items()],
        user_data=user_data,
    ).encode(out, 3)
    return bytes(out)


def decode_assignment(data: bytes) -> Partitions:
    if not data:
        return {}
    decoded, _end = ConsumerProtocolAssignment.decode(memoryview(data), 2, 0)
    return {each.topic: each.partitions for each in decoded.assigned_partitions}


if __name__ == "__main__":
    golden_script.main(ConsumerScript)
