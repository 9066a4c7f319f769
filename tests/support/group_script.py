"""Speaks with one shard of groups in a small script language, on a clock of its own, and writes everything down.

A script has one command a line and below it, indented, what came of it: answers as they are given (perhaps to somebody
who asked long before), records as they are appended. `python tests/support/group_script.py [--rewrite] SCRIPT…`
prints what the scripts give now, or writes it into them: review the difference.

Names stand for clients; a client remembers the id that it was given. The group is `g` unless `group=` says otherwise.
    settings NAME=VALUE…                     of GroupSettings
    join CLIENT [instance=] [protocols=a,b] [topics=t,u] [type=] [session=] [rebalance=] [version=] [id=none]
    sync CLIENT [CLIENT=ASSIGNMENT…]         with assignments: as the leader sends them
    heartbeat|leave CLIENT…                  leave takes instance:NAME too
    commit CLIENT TOPIC-PARTITION=OFFSET…    CLIENT may be `nobody`; generation=, metadata=, retention= and version= too
    fetch|offset-delete TOPIC-PARTITION…     fetch without any: all
    describe | list | delete | delete-topics NAME…
    wait MS                                  timers run as they come up
    restart                                  another broker replays the log
    fail ERROR                               the next append fails
In `generation=`, `+1` is one more than the client's. Answers show members by their client's name.

Checked after each command: everyone is answered once, and a replay of the log gives what the shard has.
"""

from __future__ import annotations

import random
import shlex
import struct
from collections.abc import Callable, Collection
from typing import Any

import golden_script

from barnabas.errors import ErrorCode
from barnabas.groups.classic import ClassicGroup
from barnabas.groups.classic_state import EMPTY, STABLE
from barnabas.groups.group import Surroundings
from barnabas.groups.outcome import Client, Moment, Outcome, Pending
from barnabas.groups.records import GroupRecord, decode, encode
from barnabas.groups.settings import GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.groups.topics import NoTopics, Topics
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.server.coordinators.coordinator_errors import told_as

WALL_MS = 1_000_000_000_000
GROUP = "g"
UUID_LENGTH = 37  # with the dash before it


class Asked(Pending):
    """Somebody's request, and how its answer is written down."""

    __slots__ = ("answered", "client", "show", "what")

    def __init__(self, client: str, what: str, show: Callable[[Any], str]) -> None:
        self.client = client
        self.what = what
        self.show = show
        self.answered = False


class GroupScript:
    def __init__(self, topics: Topics | None = None) -> None:
        self.settings = GroupSettings(initial_rebalance_delay_ms=0)
        self.topics = topics or NoTopics()
        self.now = Moment(WALL_MS, 0)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.ids: dict[str, str] = {}  # member ids by client
        self.instances: dict[str, str] = {}  # instance ids by client
        self.generations: dict[str, int] = {}  # by client
        self.protocols: dict[str, str] = {}  # that the generation follows, by client
        self.failure = ErrorCode.NONE  # of the next append
        self.unwritten: set[str] = set()  # groups of which memory knows more than the log, since an append failed
        self.lines: list[str] = []
        self.unanswered: list[Asked] = []
        self.shard = self._empty_shard()
        self.shard.loaded(self.now)

    def _empty_shard(self) -> GroupShard:
        return GroupShard(Surroundings(settings=self.settings, topics=self.topics, random=random.Random(7)))

    # Running

    def run(self, line: str) -> list[str]:
        """What came of one command."""
        self.lines = []
        command, *words = shlex.split(line)
        plain = [word for word in words if "=" not in word]
        named = dict(word.split("=", 1) for word in words if "=" in word)
        getattr(self, "do_" + command.replace("-", "_"))(plain, named)
        self._check()
        return self.lines or ["(nothing)"]

    def say(self, text: str) -> None:
        self.lines.append(text)

    def decide(
        self, client: str, what: str, show: Callable[[Any], str], decide: Callable[[GroupShard, Asked], Outcome]
    ) -> None:
        asked = Asked(client, what, show)
        self.unanswered.append(asked)
        outcome = decide(self.shard, asked)
        failed = self.perform(outcome)
        if outcome.again:
            if failed:
                self._answer(asked, told_as(failed))
            else:
                self.perform(decide(self.shard, asked))

    def perform(self, outcome: Outcome) -> ErrorCode:
        if outcome.records and self.failure:
            failed, self.failure = self.failure, ErrorCode.NONE
            self.say(f"log: {failed.name}")
            self.unwritten.add(outcome.group_id or "")
            for asked, _response in outcome.answers:
                self._answer(asked, told_as(failed))
            self.perform(self.shard.append_failed(outcome, failed, self.now))
            return failed
        for record in outcome.records:
            self.say("log: " + self.show_record(record))
            self.log.append(encode(record))
            self.unwritten.discard(getattr(record.key, "group", ""))
            self.shard.apply(record, len(self.log) - 1)
        for asked, response in outcome.answers:
            self._answer(asked, response)
        if outcome.then is not None:
            self.perform(outcome.then(self.shard, self.now))
        return ErrorCode.NONE

    def _answer(self, asked: Pending, response: Any) -> None:
        assert isinstance(asked, Asked)
        assert not asked.answered, f"{asked.client} {asked.what} is answered twice"
        asked.answered = True
        self.unanswered.remove(asked)
        shown = response.name if isinstance(response, ErrorCode) else asked.show(response)
        self.say(f"{asked.client} {asked.what}: {shown}".strip())

    # Commands

    def do_settings(self, _plain: list[str], named: dict[str, str]) -> None:
        self.settings = self.settings._replace(**{name: int(value) for name, value in named.items()})
        self.shard.surroundings.settings = self.settings
        if not self.log:
            self.shard.loaded(self.now)

    def do_join(self, plain: list[str], named: dict[str, str]) -> None:
        (client,) = plain
        if named.get("id") == "none":
            self.ids.pop(client, None)
        if "instance" in named:
            self.instances[client] = named["instance"]
        metadata = subscription(*named["topics"].split(",")) if "topics" in named else named.get("owned", "").encode()
        request = JoinGroupRequest(
            group_id=named.get("group", GROUP),
            session_timeout_ms=int(named.get("session", 10_000)),
            rebalance_timeout_ms=int(named.get("rebalance", 60_000)),
            member_id=self.ids.get(client, ""),
            group_instance_id=self.instances.get(client),
            protocol_type=named.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name in named.get("protocols", "range").split(",")
            ],
        )
        caller = Client(int(named.get("version", 9)), client, "/127.0.0.1")

        def show(response: Any) -> str:
            if response.member_id:
                self.ids[client] = response.member_id
            if response.error_code:
                return ErrorCode(response.error_code).name
            self.generations[client] = response.generation_id
            self.protocols[client] = response.protocol_name
            text = f"generation {response.generation_id}, {response.protocol_name}, {self.name(response.leader)} leads"
            if response.members:
                text += " " + " ".join(self.name(each.member_id) for each in response.members)
            return text + (", assignment skipped" if response.skip_assignment else "")

        self.decide(client, "join", show, lambda shard, asked: shard.join(request, caller, asked, self.now))

    def do_sync(self, plain: list[str], named: dict[str, str]) -> None:
        (client,) = plain
        generation = self._generation(client, named)
        request = SyncGroupRequest(
            group_id=named.pop("group", GROUP),
            generation_id=generation,
            member_id=self.ids.get(client, client),
            group_instance_id=self.instances.get(client),
            protocol_type=named.pop("type", None),
            protocol_name=named.pop("protocol", self.protocols.get(client)),
            assignments=[
                SyncGroupRequestAssignment(member_id=self.ids.get(each, each), assignment=text.encode())
                for each, text in named.items()
            ],
        )
        self.decide(client, "sync", show_sync, lambda shard, asked: shard.sync(request, CALLER, asked, self.now))

    def do_heartbeat(self, plain: list[str], named: dict[str, str]) -> None:
        for client in plain:
            request = HeartbeatRequest(
                group_id=named.get("group", GROUP),
                generation_id=self._generation(client, named),
                member_id=self.ids.get(client, client),
                group_instance_id=self.instances.get(client),
            )
            self.decide(
                client,
                "heartbeat",
                show_error,
                lambda shard, asked, request=request: shard.heartbeat(request, CALLER, asked, self.now),
            )

    def do_leave(self, plain: list[str], named: dict[str, str]) -> None:
        identities = []
        for word in plain:
            if word.startswith("instance:"):
                identities.append(MemberIdentity(member_id="", group_instance_id=word.partition(":")[2]))
            else:
                identities.append(
                    MemberIdentity(member_id=self.ids.get(word, word), group_instance_id=self.instances.get(word))
                )
        request = LeaveGroupRequest(group_id=named.get("group", GROUP), members=identities)

        def show(response: Any) -> str:
            if response.error_code:
                return ErrorCode(response.error_code).name
            return " ".join(ErrorCode(each.error_code).name for each in response.members)

        self.decide(" ".join(plain), "leave", show, lambda shard, asked: shard.leave(request, CALLER, asked, self.now))

    def do_commit(self, plain: list[str], named: dict[str, str]) -> None:
        (client,) = plain
        nobody = client == "nobody"
        generation = -1 if nobody else self._generation(client, named)
        metadata, retention = named.pop("metadata", None), int(named.pop("retention", -1))
        caller = CALLER._replace(api_version=int(named.pop("version", 9)))
        group = named.pop("group", GROUP)
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=int(offset), committed_metadata=metadata
                    )
                ],
            )
            for (topic, partition), offset in ((place(word), offset) for word, offset in named.items())
        ]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id="" if nobody else self.ids.get(client, client),
            group_instance_id=self.instances.get(client),
            retention_time_ms=retention,
            topics=topics,
        )

        def show(response: Any) -> str:
            return " ".join(ErrorCode(each.error_code).name for topic in response.topics for each in topic.partitions)

        self.decide(client, "commit", show, lambda shard, asked: shard.offset_commit(request, caller, asked, self.now))

    def do_fetch(self, plain: list[str], named: dict[str, str]) -> None:
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[index])
            for topic, index in (place(word) for word in plain)
        ]
        request = OffsetFetchRequestGroup(group_id=named.get("group", GROUP), topics=topics or None)
        stable = named.get("stable") == "yes"

        def show(response: Any) -> str:
            parts = []
            for topic in response.topics:
                for each in topic.partitions:
                    note = f" {each.metadata!r}" if each.metadata else ""
                    error = f" {ErrorCode(each.error_code).name}" if each.error_code else ""
                    parts.append(f"{topic.name}-{each.partition_index}={each.committed_offset}{note}{error}")
            return " ".join(parts) or "(none)"

        self.decide("", "fetch", show, lambda shard, asked: shard.offset_fetch(request, asked, require_stable=stable))

    def do_offset_delete(self, plain: list[str], named: dict[str, str]) -> None:
        topics = [
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
            for topic, index in (place(word) for word in plain)
        ]
        request = OffsetDeleteRequest(group_id=named.get("group", GROUP), topics=topics)

        def show(response: Any) -> str:
            return " ".join(ErrorCode(each.error_code).name for topic in response.topics for each in topic.partitions)

        self.decide("", "offset-delete", show, lambda shard, asked: shard.offset_delete(request, asked))

    def do_describe(self, _plain: list[str], named: dict[str, str]) -> None:
        def show(response: Any) -> str:
            if response.error_code:
                return ErrorCode(response.error_code).name
            words = [response.group_state, response.protocol_type or "(no type)", response.protocol_data]
            members = [
                self.name(each.member_id) + (f"={each.member_assignment.decode()}" if each.member_assignment else "")
                for each in response.members
            ]
            return " ".join(word for word in (*words, *members) if word)

        group = named.get("group", GROUP)
        self.decide("", "describe", show, lambda shard, asked: shard.describe(group, CALLER, asked))

    def do_list(self, _plain: list[str], named: dict[str, str]) -> None:
        states = [word for word in named.get("states", "").split(",") if word]
        types = [word for word in named.get("types", "").split(",") if word]
        for each in self.shard.list_groups(states, types):
            self.say(" ".join((each.group_id, each.group_type, each.group_state, each.protocol_type)).strip())

    def do_delete(self, _plain: list[str], named: dict[str, str]) -> None:
        group = named.get("group", GROUP)
        self.decide("", "delete", show_error, lambda shard, asked: shard.delete(group, asked))

    def do_delete_topics(self, plain: list[str], _named: dict[str, str]) -> None:
        self.perform(self.shard.topics_deleted(plain))

    def do_wait(self, plain: list[str], _named: dict[str, str]) -> None:
        (delay,) = plain
        end_ms = self.now.monotonic_ms + int(delay)
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self._move_clock(max(due_ms, self.now.monotonic_ms))
            outcome = self.shard.tick(self.now)
            if outcome is not None and (outcome.records or outcome.answers):
                self.say(f"after {self.now.monotonic_ms - end_ms + int(delay)} ms:")
                self.perform(outcome)
        self._move_clock(end_ms)

    def _move_clock(self, monotonic_ms: int) -> None:
        self.now = Moment(WALL_MS + monotonic_ms, monotonic_ms)

    def do_restart(self, _plain: list[str], _named: dict[str, str]) -> None:
        for asked in self.shard.unload():
            self._answer(asked, ErrorCode.NOT_COORDINATOR)
        self.shard = self.replayed()
        for outcome in self.shard.loaded(self.now):
            self.perform(outcome)

    def do_fail(self, plain: list[str], _named: dict[str, str]) -> None:
        self.failure = ErrorCode[plain[0]]

    def _generation(self, client: str, named: dict[str, str]) -> int:
        known = self.generations.get(client, 0)
        text = named.pop("generation", "+0")
        return known + int(text) if text[0] in "+-" else int(text)

    # Showing and checking

    def name(self, member_id: str) -> str:
        """A client's name, or else what its id begins with."""
        return next((client for client, each in self.ids.items() if each == member_id), member_id[:-UUID_LENGTH])

    def show_record(self, record: GroupRecord) -> str:
        key: Any = record.key
        value: Any = record.value
        what = type(key).__name__.removesuffix("Key")
        fields = [str(getattr(key, name)) for name in key.__slots__]
        where = " ".join(self.name(each) if each in self.ids.values() else each for each in fields)
        if value is None:
            return f"{what} {where}: gone"
        show = getattr(self, f"show_{type(value).__name__}", repr)
        return f"{what} {where}: {show(value)}"

    def show_GroupMetadataValue(self, value: Any) -> str:
        if not value.members:
            return f"generation {value.generation}, empty"
        members = " ".join(
            self.name(each.member_id) + (f"={each.assignment.decode()}" if each.assignment else "")
            for each in value.members
        )
        return f"generation {value.generation}, {value.protocol}, {self.name(value.leader)} leads {members}"

    def show_OffsetCommitValue(self, value: Any) -> str:
        note = f" {value.metadata!r}" if value.metadata else ""
        expires = f", expires after {value.expire_timestamp - value.commit_timestamp} ms"
        return f"{value.offset}{note}{expires if value.expire_timestamp != -1 else ''}"

    def replayed(self) -> GroupShard:
        shard = self._empty_shard()
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            shard.apply(record, offset)
        return shard

    def _check(self) -> None:
        assert same(self.replayed(), self.shard, self.unwritten)
        assert all(not asked.answered for asked in self.unanswered)


CALLER = Client(9, "script", "/127.0.0.1")


def same(replayed: GroupShard, live: GroupShard, unwritten: Collection[str] = ()) -> bool:
    """All offsets, and each group but for what is only in memory while its members change."""
    assert list(replayed.groups) == list(live.groups)
    for group_id, group in live.groups.items():
        assert replayed.offsets.of_group(group_id) == live.offsets.of_group(group_id)
        other = replayed.groups[group_id]
        assert other.TYPE is group.TYPE
        if isinstance(group, ClassicGroup) and group.state in (STABLE, EMPTY) and group_id not in unwritten:
            assert isinstance(other, ClassicGroup)
            assert other.state is group.state
            assert other.record(other.assignments()) == group.record(group.assignments())
    return True


def show_sync(response: Any) -> str:
    if response.error_code:
        return ErrorCode(response.error_code).name
    return response.assignment.decode() or "(nothing)"


def show_error(response: Any) -> str:
    return "ok" if response.error_code == 0 else ErrorCode(response.error_code).name


def place(word: str) -> tuple[str, int]:
    topic, _, partition = word.rpartition("-")
    return topic, int(partition)


def subscription(*topics: str) -> bytes:
    out = bytearray(struct.pack(">h", 0))
    ConsumerProtocolSubscription(topics=list(topics)).encode(out, 0)
    return bytes(out)


if __name__ == "__main__":
    golden_script.main(GroupScript)
