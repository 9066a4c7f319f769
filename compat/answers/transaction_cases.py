"""Cases about transactions."""

from __future__ import annotations

import transaction_wire as wires
from answer_cases import case
from broker_process import wait_until
from dialogue import Dialogue
from wire import batch, produce

from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

Topics = list[tuple[str, list[int]]]


@case
def internal_topics_in_transactions(dialogue: Dialogue) -> None:
    dialogue.group()
    topic = dialogue.topic()
    identity = dialogue.transactional_id()
    producer = wires.begin(dialogue.wire, identity)
    for version in (0, 3):
        for named in (
            {"__consumer_offsets": [0]},
            {topic: [0], "__consumer_offsets": [0]},
            {"__transaction_state": [0]},
            {"__cluster_metadata": [0]},
            {"__consumer_offsets": [5000], topic: [0]},
            {"missing": [0], "__consumer_offsets": [0], topic: [0]},
        ):
            errors = wires.add(dialogue.wire, identity, producer, named, version)
            dialogue.expect(f"version {version}", sorted(errors.items()))
    errors = wires.add_as_broker(dialogue.wire, identity, producer, {"__consumer_offsets": [0], topic: [0]})
    dialogue.expect("as brokers ask it", sorted(errors.items()))


def marker(topics: Topics, producer: tuple[int, int], epoch: int = 0) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=False,
        coordinator_epoch=epoch,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics],
    )


def ask_markers(dialogue: Dialogue, *markers: WritableTxnMarker, version: int = 1) -> None:
    """The answer in an order of its own: Kafka's follows from hashes."""
    answer = dialogue.wire.call(WriteTxnMarkersRequest(markers=list(markers)), version)
    for of_producer in sorted(answer.markers, key=lambda each: each.producer_id):
        of_producer.topics.sort(key=lambda each: each.name)
        for topic in of_producer.topics:
            topic.partitions.sort(key=lambda each: each.partition_index)
        dialogue.expect(f"markers, version {version}", of_producer)
    dialogue.expect("producers", len(answer.markers))


def writable_topic(dialogue: Dialogue, partitions: int) -> str:
    """Kafka tells clients of a new partition before markers can be written to it."""
    topic = dialogue.topic(partitions=partitions)
    for index in range(partitions):
        wait_until(
            lambda index=index: produce(dialogue.wire, topic, {index: batch(b"x")})[index].error_code == 0, topic
        )
    return topic


@case
def marker_answers_are_merged(dialogue: Dialogue) -> None:
    topic = writable_topic(dialogue, 2)
    other = (10_002, 0)
    ask_markers(dialogue, marker([(topic, [0]), (topic, [1])], (10_001, 0)))
    ask_markers(dialogue, marker([(topic, [0]), ("missing", [0])], (10_001, 0)))
    ask_markers(dialogue, marker([], (10_001, 0)))
    ask_markers(dialogue, marker([(topic, [])], (10_001, 0)))
    ask_markers(dialogue, marker([], (10_001, 0)), marker([(topic, [0])], other))
    ask_markers(dialogue, marker([(topic, [0])], other), marker([(topic, [0])], other))
    ask_markers(dialogue, marker([(topic, [0])], other), marker([(topic, [1])], other))
    ask_markers(dialogue)


@case
def markers_with_negative_numbers(dialogue: Dialogue) -> None:
    topic = writable_topic(dialogue, 1)
    for version in (1, 2):
        for producer in ((-1, 0), (10_003, -1), (10_004, -2), (-1, -1)):
            ask_markers(dialogue, marker([(topic, [0])], producer), version=version)
        ask_markers(dialogue, marker([(topic, [0])], (10_005, 0), epoch=-1), version=version)
        ask_markers(dialogue, marker([(topic, [0])], (10_006, 0), epoch=-7), version=version)
    ask_markers(dialogue, marker([(topic, [-1])], (10_007, 0)))


@case
def patterns_of_transactional_ids(dialogue: Dialogue) -> None:
    wires.await_coordinator(dialogue.wire, "x")
    words = ("plain", "zürich", "ZÜRICH", "日本", "😀-id", "Ωmega", "a\u0301", "line\nbreak", "k\u212a", "ſ")
    for word in words:
        wires.begin(dialogue.wire, f"{word}{dialogue.run}")
    for pattern in (
        "z.rich",
        "z[^a-z]rich",
        r"z\wrich",
        r"z\Wrich",
        "zürich",
        "(?i)zürich",
        "z[ü]rich",
        "z[à-ÿ]rich",
        r"z\pLrich",
        r"\p{Han}+",
        ".{2}",
        r"\p{Greek}mega",
        "(?i)ωmega",
        "[^\\x00-\\x7f]+",
        "日.",
        "..-id",
        ".-id",
        r"\x{1F600}-id",
        "[^x]-id",
        r"\P{Latin}mega",
        "a.",
        "a\\pM",
        r"\S+",
        "line.break",
        "(?s)line.break",
        "(?i)kk",
        "(?i)s",
        "(?i)[k]k",
        "[[:^ascii:]]{2}",
        r"\p{Lu}+",
        r"(?i)\p{Lu}+",
        r"\p{L}+",
        "\\D+",
        "[^\\d]+",
        "[\\W]rich",
        "z[\\W]rich",
        "z[^\\w]rich",
        "[[:alpha:]]+",
        r"\pN",
        "",
        "*",
        "(",
        r"\p{Nope}",
        "[z-a]",
        "(?i)zÜrIcH",
        ".+",
    ):
        request = ListTransactionsRequest(transactional_id_pattern=pattern and f"(?:{pattern}){dialogue.run}")
        answer = dialogue.wire.call(request, 2)
        own = [
            each.transactional_id for each in answer.transaction_states if each.transactional_id.endswith(dialogue.run)
        ]
        dialogue.expect(repr(pattern), (answer.error_code, sorted(own)))
