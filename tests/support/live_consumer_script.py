"""Plays the dialogues of `consumer_script` to a real broker, and tells where its answers are others than those written.

    python tests/support/live_consumer_script.py HOST:PORT SCRIPT…

Records, which only the broker sees, are left out, and so is which partitions somebody has: assignors may choose. Lines
that only a shard in a test can obey (`consumer`, `restart`, `fail`) are passed over; a `wait` takes its time.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import consumer_script
from broker_process import wait_until
from consumer_script import ConsumerScript, ScriptTopics
from golden_script import run_script
from group_wire import await_coordinator
from wire import Wire, create_topic

from barnabas.groups.outcome import NOTHING, Client, Moment, Outcome, Pending
from barnabas.groups.topics import Topic
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest

GROUP_RESOURCE = 32
ANSWER_SECONDS_MAX = 1.5  # a join may have to wait for others: then its answer comes with a later command
SETTLE_SECONDS = 0.6  # until every part of a broker has heard of a change of the metadata
_numbers = itertools.count(1)


class LiveShard:
    """Stands where a shard would: sends requests on, and leaves the answers to the script."""

    def __init__(self, script: LiveScript) -> None:
        self.script = script
        self.surroundings: Any = type("Surroundings", (), {})()
        self.groups: dict[str, object] = {}

    def loaded(self, _now: Moment) -> list[Outcome]:
        return []

    def topics_changed(self, *_names: object, **_settings: object) -> None:
        pass

    def ask(self, request: Any, version: int, pending: Pending, pick: Any = lambda response: response) -> Outcome:
        if hasattr(request, "group_id"):
            request.group_id = self.script.known_group(request.group_id)
        wire = Wire(self.script.address)
        wire.socket.settimeout(ANSWER_SECONDS_MAX)
        wire.send(request, version)
        self.script.sent.append((wire, request.API_KEY, version, pending, pick))
        return NOTHING

    def consumer_heartbeat(self, request: Any, client: Client, pending: Pending, _now: Moment) -> Outcome:
        return self.ask(request, client.api_version, pending)

    def join(self, request: Any, client: Client, pending: Pending, _now: Moment) -> Outcome:
        return self.ask(request, client.api_version, pending)

    def sync(self, request: Any, _client: Client, pending: Pending, _now: Moment) -> Outcome:
        return self.ask(request, 5, pending)

    def heartbeat(self, request: Any, _client: Client, pending: Pending, _now: Moment) -> Outcome:
        return self.ask(request, 4, pending)

    def leave(self, request: Any, _client: Client, pending: Pending, _now: Moment) -> Outcome:
        return self.ask(request, 5, pending)

    def offset_commit(self, request: Any, client: Client, pending: Pending, _now: Moment) -> Outcome:
        self.script.name_topics(request.topics)
        return self.ask(request, client.api_version, pending)

    def offset_fetch(self, request: Any, pending: Pending, *, require_stable: bool) -> Outcome:
        request.group_id = self.script.known_group(request.group_id)
        self.script.name_topics(request.topics or [])
        whole = OffsetFetchRequest(groups=[request], require_stable=require_stable)
        return self.ask(whole, 9, pending, lambda response: response.groups[0])

    def offset_delete(self, request: Any, pending: Pending) -> Outcome:
        self.script.name_topics(request.topics)
        return self.ask(request, 0, pending)

    def consumer_describe(self, group_id: str, pending: Pending) -> Outcome:
        request = ConsumerGroupDescribeRequest(group_ids=[self.script.known_group(group_id)])
        return self.ask(request, 1, pending, lambda response: response.groups[0])

    def describe(self, group_id: str, _client: Client, pending: Pending) -> Outcome:
        request = DescribeGroupsRequest(groups=[self.script.known_group(group_id)])
        return self.ask(request, 6, pending, lambda response: response.groups[0])

    def delete(self, group_id: str, pending: Pending) -> Outcome:
        request = DeleteGroupsRequest(groups_names=[self.script.known_group(group_id)])
        return self.ask(request, 2, pending, lambda response: response.results[0])

    def list_groups(self, states: list[str], types: list[str]) -> list[Any]:
        response = self.script.admin.call(ListGroupsRequest(states_filter=states, types_filter=types), 5)
        own = [group for group in response.groups if group.group_id.startswith(self.script.prefix)]
        for group in own:
            group.group_id = self.script.bare(group.group_id)
        return sorted(own, key=lambda group: group.group_id)


class LiveTopics(ScriptTopics):
    def __init__(self, admin: Wire, prefix: str) -> None:
        super().__init__()
        self._admin = admin
        self._prefix = prefix

    def put(self, name: str, partition_count: int) -> None:
        full_name = self._prefix + name
        known = self._topics.get(name)
        if partition_count == 0:
            request: Any = DeleteTopicsRequest(topics=[DeleteTopicState(name=full_name)], timeout_ms=5000)
            self._admin.call(request, 6)
            del self._topics[name]
        elif known is not None:
            grown = CreatePartitionsTopic(name=full_name, count=partition_count)
            self._admin.call(CreatePartitionsRequest(topics=[grown], timeout_ms=5000), 3)
            self._topics[name] = known._replace(partition_count=partition_count)
        else:
            create_topic(self._admin, full_name, partition_count)
            topic_id = wait_until(lambda: self._id(full_name), f"{full_name} is known")
            self._topics[name] = Topic(name, topic_id, partition_count)
        time.sleep(SETTLE_SECONDS)

    def _id(self, name: str) -> bytes | None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (topic,) = self._admin.call(request, 12).topics
        return None if topic.error_code else topic.topic_id


class LiveScript(ConsumerScript):
    def __init__(self, address: str) -> None:
        self.address = address
        self.prefix = f"live{os.getpid()}x{next(_numbers)}x"  # so that each run has groups and topics of its own
        self.admin = Wire(address)
        self.sent: list[tuple[Wire, int, int, Pending, Any]] = []
        self._known: set[str] = set()
        super().__init__()
        self.cluster = LiveTopics(self.admin, self.prefix)

    def _empty_shard(self) -> Any:
        return LiveShard(self)

    # Names

    def bare(self, name: str) -> str:
        return name.removeprefix(self.prefix)

    def name_topics(self, topics: list[Any]) -> None:
        for topic in topics:
            topic.name = self.prefix + topic.name

    def known_group(self, group_id: str) -> str:
        """Its name on the broker, once that coordinates it, with assignments as quick as those of the scripts."""
        if not group_id or group_id.startswith(self.prefix):
            return group_id
        name = self.prefix + group_id
        if name not in self._known:
            self._known.add(name)
            await_coordinator(self.admin, name)
            config = AlterableConfig(name="consumer.assignment.interval.ms", config_operation=0, value="0")
            resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=name, configs=[config])
            response = self.admin.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert response.responses[0].error_code == 0, response
            time.sleep(SETTLE_SECONDS)
        return name

    def heartbeat_request(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
        if request.subscribed_topic_names:
            request.subscribed_topic_names = [self.prefix + name for name in request.subscribed_topic_names]
        if request.subscribed_topic_regex:
            request.subscribed_topic_regex = self.prefix + request.subscribed_topic_regex
        return request

    def subscription(self, topics: list[str], owned: consumer_script.Partitions) -> bytes:
        named = {self.prefix + name: partitions for name, partitions in owned.items()}
        return consumer_script.subscription([self.prefix + name for name in topics], named)

    def assignment(self, partitions: consumer_script.Partitions, user_data: bytes | None) -> bytes:
        return consumer_script.assignment({self.prefix + name: each for name, each in partitions.items()}, user_data)

    def decode_assignment(self, data: bytes) -> consumer_script.Partitions:
        return {self.bare(name): sorted(each) for name, each in consumer_script.decode_assignment(data).items()}

    # Running

    def close(self) -> None:
        for wire in (self.admin, *(wire for wire, *_rest in self.sent)):
            wire.close()

    def _check(self) -> None:
        """Answers that are there by now; the others come with a later command."""
        waiting, self.sent = self.sent, []
        for entry in waiting:
            wire, api_key, version, pending, pick = entry
            try:
                _correlation_id, response = wire.receive(api_key, version)
            except TimeoutError:
                self.sent.append(entry)
                continue
            self._answer(pending, self._with_bare_names(pick(response)))
            wire.close()

    def _with_bare_names(self, response: Any) -> Any:
        for member in getattr(response, "members", None) or ():
            for part in ("assignment", "target_assignment"):
                for topic in getattr(getattr(member, part, None), "topic_partitions", ()):
                    topic.topic_name = self.bare(topic.topic_name)
        for topic in getattr(response, "topics", None) or ():
            topic.name = self.bare(topic.name)
        return response

    def do_wait(self, plain: list[str], _named: dict[str, str]) -> None:
        time.sleep(int(plain[0]) / 1000 + SETTLE_SECONDS)

    def do_consumer(self, _plain: list[str], _named: dict[str, str]) -> None:
        pass

    do_restart = do_fail = do_consumer


def comparable(text: str) -> list[str]:
    """Commands and answers, without records, partitions, words of errors, and the order of members.

    What a `wait 0` brings about in a test, a real broker does at once.
    """
    lines: list[str] = []
    answers: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith(" "):
            words = line.strip()
            if not words.startswith(("log:", "after ", "(nothing)")):
                answers.append("    " + without_details(words))
        elif line != "wait 0":
            lines += sorted(answers)
            answers = []
            lines.append(line)
    return lines


def without_details(answer: str) -> str:
    answer = re.sub(r"([A-Z]+_[A-Z_]+): .*", r"\1", answer)
    answer = re.sub(r"( leads).*", r"\1", answer)
    return re.sub(r"\b(?!epoch|generation)(\w+) \d+(,\d+)*(?=;|$| →)", r"\1", answer)


def differences(text: str, address: str) -> list[str]:
    with contextlib.closing(LiveScript(address)) as script:
        played = run_script(text, script)
    return list(difflib.unified_diff(comparable(text), comparable(played), "written", "played", lineterm="", n=2))


if __name__ == "__main__":
    for name in sys.argv[2:]:
        print("\n".join([name, *differences(Path(name).read_text(encoding="utf-8"), sys.argv[1])]))
