"""What classic groups cost, from the clients' side: `python benchmarks/classic_groups.py [--kafka] [--members N]`.

A group of N members over 1,000 partitions, each on a connection of its own: all join, the leader assigns, all have
their part; then everybody joins again because one has left. Many groups of one member. Commits and heartbeats, one at
a time and pipelined. The clients share one thread and do no more than they must; with `--kafka` Apache Kafka is asked
the same. Only numbers of one run on a quiet machine can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import apache_kafka
import group_wire
from broker_process import BrokerProcess, wait_until
from wire import Wire, create_topic, encode_request, leaders

from barnabas.protocol.apis import response_class
from barnabas.protocol.framing import decode_response_header, response_header_version
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

TOPIC = "topic"
PARTITIONS = 1_000
MANY_GROUPS = 1_000
REPEATED = 2_000
IN_FLIGHT = 100
MEMBER_ID_REQUIRED = 79


class Connection:
    """Answers come in the order of requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address: str) -> Connection:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    def send(self, request: Any, version: int) -> None:
        self.writer.write(encode_request(request, version, 1))

    async def receive(self, request: Any, version: int) -> Any:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        view = memoryview(await self.reader.readexactly(size))
        _id, position = decode_response_header(view, 0, response_header_version(request.API_KEY, version))
        return response_class(request.API_KEY).decode(view, position, version)[0]

    async def call(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return await self.receive(request, version)


class Member:
    def __init__(self, connection: Connection, group: str) -> None:
        self.connection = connection
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.metadata = (("range", group_wire.subscription(TOPIC)),)

    async def rebalance(self) -> None:
        """From the first word until it knows its part."""
        joined = await self._join()
        assignments = None
        if joined.leader == self.member_id:
            assignments = assign([each.member_id for each in joined.members])
        request = group_wire.sync_request(self.group, self.member_id, joined.generation_id, assignments)
        synced = await self.connection.call(request, group_wire.SYNC_VERSION)
        if synced.error_code == 27:  # somebody came late: once more
            await self.rebalance()
            return
        assert synced.error_code == 0, synced
        self.generation = joined.generation_id

    async def _join(self) -> Any:
        while True:
            request = group_wire.join_request(
                self.group, self.member_id, protocols=self.metadata, session_ms=300_000, rebalance_ms=300_000
            )
            joined = await self.connection.call(request, group_wire.JOIN_VERSION)
            self.member_id = joined.member_id or self.member_id
            if joined.error_code == 0:
                return joined
            assert joined.error_code == MEMBER_ID_REQUIRED, joined

    async def leave(self) -> None:
        request = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member_id)])
        await self.connection.call(request, group_wire.LEAVE_VERSION)


def assign(members: list[str]) -> dict[str, bytes]:
    """Ranges: the least that a client can do."""
    parts = {}
    for number, member_id in enumerate(members):
        first = number * PARTITIONS // len(members)
        end = (number + 1) * PARTITIONS // len(members)
        out = bytearray(struct.pack(">h", 0))
        partitions = [TopicPartition(topic=TOPIC, partitions=list(range(first, end)))]
        ConsumerProtocolAssignment(assigned_partitions=partitions).encode(out, 0)
        parts[member_id] = bytes(out)
    return parts


async def rebalances(address: str, count: int) -> list[tuple[str, float, str]]:
    group = f"large-{count}"
    members = [Member(await Connection.open(address), group) for _ in range(count)]
    began = time.perf_counter()
    await asyncio.gather(*(member.rebalance() for member in members))
    first = time.perf_counter() - began
    again = []
    for _ in range(3):
        began = time.perf_counter()
        await members[-1].leave()
        members[-1].member_id = ""
        await asyncio.gather(*(member.rebalance() for member in members))
        again.append(time.perf_counter() - began)
    for member in members:
        member.connection.writer.close()
    return [
        (f"first rebalance of {count} members over {PARTITIONS} partitions", first * 1e3, "ms"),
        (f"rebalance after one of {count} members has been replaced", min(again) * 1e3, "ms"),
    ]


async def many_groups(address: str) -> list[tuple[str, float, str]]:
    connection = await Connection.open(address)
    began = time.perf_counter()
    members = [Member(connection, f"small-{number}") for number in range(MANY_GROUPS)]
    for member in members:
        await member.rebalance()
    created = time.perf_counter() - began
    beats = [
        HeartbeatRequest(group_id=each.group, member_id=each.member_id, generation_id=each.generation)
        for each in members
    ]
    one, many = await repeated(connection, beats, group_wire.HEARTBEAT_VERSION)
    commits = [commit_request(each) for each in members]
    one_commit, many_commits = await repeated(connection, commits, group_wire.COMMIT_VERSION)
    connection.writer.close()
    return [
        ("group of one member, from nothing to its part", created / MANY_GROUPS * 1e3, "ms each"),
        ("heartbeat, one at a time", one, "µs"),
        ("heartbeat, pipelined", many, "µs"),
        ("commit of one offset, one at a time", one_commit, "µs"),
        ("commit of one offset, pipelined", many_commits, "µs"),
    ]


def commit_request(member: Member) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


async def repeated(connection: Connection, requests: list[Any], version: int) -> tuple[float, float]:
    """Microseconds for each request, alone and with many in flight."""
    began = time.perf_counter()
    for number in range(REPEATED):
        await connection.call(requests[number % len(requests)], version)
    alone = (time.perf_counter() - began) / REPEATED * 1e6
    began = time.perf_counter()
    for number in range(0, REPEATED, IN_FLIGHT):
        for index in range(number, number + IN_FLIGHT):
            connection.send(requests[index % len(requests)], version)
        for _ in range(IN_FLIGHT):
            await connection.receive(requests[0], version)
    return alone, (time.perf_counter() - began) / REPEATED * 1e6


def measure(address: str, members: list[int], resident: Any) -> list[tuple[str, float, str]]:
    with Wire(address) as wire:
        create_topic(wire, TOPIC, partitions=PARTITIONS)
        wait_until(lambda: leaders(wire, TOPIC), "the topic is known")
        group_wire.await_coordinator(wire, "any")
    results = []
    for count in members:
        results += asyncio.run(rebalances(address, count))
    before = resident()
    results += asyncio.run(many_groups(address))
    results.append(
        (f"memory of {MANY_GROUPS} groups of one member", (resident() - before) / MANY_GROUPS / 1024, "KiB each")
    )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", action="store_true", help="ask Apache Kafka the same")
    parser.add_argument("--members", type=int, nargs="*", default=[100, 500])
    options = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(data=Path(directory)) as broker:
        own = measure(broker.address, options.members, broker.resident_bytes)
    kafkas: list[tuple[str, float, str]] = []
    if options.kafka:
        with tempfile.TemporaryDirectory() as directory, apache_kafka.ApacheKafka(Path(directory) / "node") as kafka:
            kafkas = measure(kafka.address, options.members, kafka.resident_bytes)
    for number, (what, value, unit) in enumerate(own):
        beside = f"   Apache Kafka {kafkas[number][1]:10.1f}" if kafkas else ""
        print(f"{what:60} {value:10.1f} {unit:8}{beside}")


if __name__ == "__main__":
    main()
