"""A coordinator that is killed in each state of a group: what was acknowledged is there, the rest begins anew."""

from __future__ import annotations

from pathlib import Path

import group_wire as groups
from broker_process import BrokerProcess, wait_until
from wire import Wire, create_topic

from barnabas.errors import ErrorCode

GROUP = "the-group"
TOPIC = "the-topic"


def restart(broker: BrokerProcess, former: Wire) -> Wire:
    """A connection to its successor, once that coordinates."""
    former.close()
    broker.kill()
    broker.start()
    wire = Wire(broker.address)
    groups.await_coordinator(wire, GROUP)
    return wire


def test_every_state(tmp_path: Path) -> None:
    with BrokerProcess(data=tmp_path) as broker:
        wire = Wire(broker.address)
        create_topic(wire, TOPIC, partitions=2)
        groups.await_coordinator(wire, GROUP)

        assert groups.commit(wire, GROUP, {(TOPIC, 0): 5}) == {(TOPIC, 0): 0}
        wire = restart(broker, wire)  # empty, with an offset
        assert groups.fetch(wire, GROUP, None)[1][TOPIC, 0][0] == 5
        assert groups.describe(wire, GROUP).group_state == "Empty"

        joined = groups.join(wire, GROUP)
        assert (joined.error_code, joined.generation_id) == (0, 1)
        wire = restart(broker, wire)  # completing the first generation
        assert groups.describe(wire, GROUP).group_state == "Empty"
        assert groups.sync(wire, GROUP, joined.member_id, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID

        member = groups.join(wire, GROUP).member_id
        assert groups.sync(wire, GROUP, member, 1, {member: b"everything"}).assignment == b"everything"
        committed = groups.commit(wire, GROUP, {(TOPIC, 1): 6}, member=member, generation=1)
        assert committed == {(TOPIC, 1): 0}
        wire = restart(broker, wire)  # stable
        described = groups.describe(wire, GROUP)
        assert (described.group_state, [each.member_assignment for each in described.members]) == (
            "Stable",
            [b"everything"],
        )
        assert groups.heartbeat(wire, GROUP, member, 1) == 0
        assert groups.sync(wire, GROUP, member, 1).assignment == b"everything"
        assert groups.commit(wire, GROUP, {(TOPIC, 1): 7}, member=member, generation=1) == {(TOPIC, 1): 0}

        with Wire(broker.address) as other:
            second = other.call(groups.join_request(GROUP), groups.JOIN_VERSION).member_id
            other.send(groups.join_request(GROUP, second), groups.JOIN_VERSION)
            wait_until(lambda: groups.heartbeat(wire, GROUP, member, 1) != 0, "a rebalance begins")
            wire = restart(broker, wire)  # preparing another generation
        assert groups.describe(wire, GROUP).group_state == "Stable"
        assert groups.heartbeat(wire, GROUP, member, 1) == 0

        rejoined = groups.join(wire, GROUP, member)
        assert (rejoined.error_code, rejoined.generation_id) == (0, 2)
        wire = restart(broker, wire)  # completing it
        assert groups.heartbeat(wire, GROUP, member, 2) == ErrorCode.ILLEGAL_GENERATION
        assert groups.heartbeat(wire, GROUP, member, 1) == 0
        assert groups.join(wire, GROUP, member).generation_id == 2
        assert groups.sync(wire, GROUP, member, 2, {member: b"all"}).assignment == b"all"
        assert [each.error_code for each in groups.leave(wire, GROUP, (member, None)).members] == [0]

        wire = restart(broker, wire)  # empty again
        assert groups.describe(wire, GROUP).group_state == "Empty"
        _error, offsets = groups.fetch(wire, GROUP, None)
        assert {place: each[0] for place, each in offsets.items()} == {(TOPIC, 0): 5, (TOPIC, 1): 7}
        assert groups.delete_group(wire, GROUP) == 0
        wire = restart(broker, wire)  # gone
        assert groups.fetch(wire, GROUP, None) == (0, {})
        assert groups.listed(wire, GROUP) is None
        wire.close()
        assert "Traceback" not in broker.errors()


def test_offsets_of_a_deleted_topic_do_not_come_back(tmp_path: Path) -> None:
    with BrokerProcess(data=tmp_path) as broker:
        wire = Wire(broker.address)
        create_topic(wire, TOPIC, partitions=2)
        groups.await_coordinator(wire, GROUP)
        groups.commit(wire, GROUP, {(TOPIC, 0): 5, (TOPIC, 1): 6})
        delete_topic(wire, TOPIC)
        assert groups.fetch(wire, GROUP, None) == (0, {})
        create_topic(wire, TOPIC, partitions=2)
        assert groups.fetch(wire, GROUP, {TOPIC: [0]})[1][TOPIC, 0][0] == -1
        broker.restart()
        with Wire(broker.address) as again:
            groups.await_coordinator(again, GROUP)
            assert groups.fetch(again, GROUP, None) == (0, {})
        wire.close()


def delete_topic(wire: Wire, topic: str) -> None:
    from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest

    response = wire.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000), 5)
    assert [each.error_code for each in response.responses] == [0]
