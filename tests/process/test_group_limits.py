"""Many groups, a large one, and what is refused."""

from __future__ import annotations

from pathlib import Path

import group_wire as groups
from broker_process import BrokerProcess, wait_until
from wire import Wire, create_topic

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.list_groups import ListGroupsRequest

MANY = 1_000
LARGE = 500
BYTES_PER_GROUP_MAX = 8 << 10
TOPIC = "topic"
JOIN_AT_ONCE_VERSION = 3


def test_a_thousand_groups(tmp_path: Path) -> None:
    with BrokerProcess(data=tmp_path) as broker:
        with Wire(broker.address) as wire:
            create_topic(wire, TOPIC)
            groups.await_coordinator(wire, "first")
            before = broker.resident_bytes()
            members = {}
            for number in range(MANY):
                name = f"group-{number}"
                joined = groups.join(wire, name, version=JOIN_AT_ONCE_VERSION, session_ms=600_000)
                members[name] = joined.member_id
                assert groups.sync(wire, name, joined.member_id, 1, {joined.member_id: b"all"}).error_code == 0
                committed = groups.commit(wire, name, {(TOPIC, 0): number}, member=joined.member_id, generation=1)
                assert committed == {(TOPIC, 0): 0}
            assert broker.resident_bytes() - before < MANY * BYTES_PER_GROUP_MAX
        broker.restart()
        with Wire(broker.address) as wire:
            groups.await_coordinator(wire, "first")
            wait_until(lambda: len(wire.call(ListGroupsRequest(), 5).groups) == MANY, "all groups are loaded")
            for number in range(0, MANY, 50):
                name = f"group-{number}"
                assert groups.heartbeat(wire, name, members[name], 1) == 0
                assert groups.fetch(wire, name, {TOPIC: [0]})[1][TOPIC, 0][0] == number


def test_a_group_of_five_hundred() -> None:
    with BrokerProcess(config={"group.initial.rebalance.delay.ms": 1_000}) as broker:
        wires = [Wire(broker.address) for _ in range(LARGE)]
        groups.await_coordinator(wires[0], "large")
        settings = {"session_ms": 600_000, "rebalance_ms": 600_000}
        ids = [wire.call(groups.join_request("large", **settings), 9).member_id for wire in wires]
        leader, generation = rebalance(wires, ids, settings)
        assert generation == 1
        groups.leave(wires[-1], "large", (ids[-1], None))
        wires.pop().close()
        ids.pop()
        assert groups.heartbeat(wires[0], "large", ids[0], generation) == ErrorCode.REBALANCE_IN_PROGRESS
        assert rebalance(wires, ids, settings) == (leader, generation + 1)
        assert groups.describe(wires[0], "large").group_state == "Stable"
        assert len(groups.describe(wires[0], "large").members) == LARGE - 1
        for wire in wires:
            wire.close()


def rebalance(wires: list[Wire], ids: list[str], settings: dict[str, int]) -> tuple[str, int]:
    """Everybody joins, the leader assigns, everybody has his part. The leader and the generation."""
    for wire, member_id in zip(wires, ids, strict=True):
        wire.send(groups.join_request("large", member_id, **settings), groups.JOIN_VERSION)
    joined = [wire.receive(11, groups.JOIN_VERSION)[1] for wire in wires]
    assert {each.error_code for each in joined} == {0}
    (generation,) = {each.generation_id for each in joined}
    (leader,) = {each.leader for each in joined}
    parts = {member_id: b"%d" % number for number, member_id in enumerate(ids)}
    for wire, member_id in zip(wires, ids, strict=True):
        assignments = parts if member_id == leader else None
        wire.send(groups.sync_request("large", member_id, generation, assignments), groups.SYNC_VERSION)
    synced = [wire.receive(14, groups.SYNC_VERSION)[1] for wire in wires]
    assert [each.assignment for each in synced] == list(parts.values())
    return leader, generation


def test_limits_are_told() -> None:
    config = {"group.max.size": 1, "offset.metadata.max.bytes": 3, "group.max.session.timeout.ms": 20_000}
    with BrokerProcess(config=config) as broker, Wire(broker.address) as wire, Wire(broker.address) as other:
        create_topic(wire, TOPIC)
        groups.await_coordinator(wire, "g")
        assert groups.join(wire, "g", session_ms=20_001).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert groups.join(wire, "g", session_ms=20_000).error_code == 0
        assert groups.join(other, "g").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        too_large = {(TOPIC, 0): ErrorCode.OFFSET_METADATA_TOO_LARGE}
        assert groups.commit(wire, "h", {(TOPIC, 0): 1}, metadata="four") == too_large
        assert groups.commit(wire, "h", {(TOPIC, 0): 1}, metadata="333") == {(TOPIC, 0): 0}
