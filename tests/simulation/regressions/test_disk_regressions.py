"""What the simulation once found in how one node keeps its files, each as the shortest story that shows it."""

import asyncio
from contextlib import suppress

import pytest
from scenario import Scenario

from barnabas.errors import ErrorCode
from barnabas.server.broker import Broker
from barnabas.simulation.client import Unavailable
from barnabas.simulation.disk import Survival
from barnabas.simulation.fetched_batches import read_batches
from barnabas.simulation.participants import Topic


def test_a_loss_of_power_right_after_the_first_start_keeps_the_data_directory() -> None:
    """The name of the data directory itself was never synced, so that all within was lost with it."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t", flush_messages="1")
        assert await scenario.produce(topic, b"a") == ErrorCode.NONE
        await scenario.cut_power(Survival.NONE)
        assert await scenario.read(topic) == [b"a"]

    Scenario().run(story)


def test_a_topic_created_after_a_clean_restart_survives_a_loss_of_power() -> None:
    """A new log believed what was true of the others: that a clean stop had synced the name of its directory."""

    async def story(scenario: Scenario) -> None:
        await scenario.restart()
        topic = await scenario.create_topic("t", flush_messages="1")
        assert await scenario.produce(topic, b"a") == ErrorCode.NONE
        await scenario.cut_power(Survival.NONE)
        assert await scenario.read(topic, at_least=1) == [b"a"]

    Scenario().run(story)


@pytest.mark.parametrize("seed", range(8))
def test_a_torn_partition_metadata_does_not_keep_a_broker_from_starting(seed: int) -> None:
    """The file is not synced when a partition is made, and half a topic id was an error without a way out."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t", flush_messages="1")
        await scenario.cut_power(Survival.SOME)
        await scenario.patiently(lambda: accepted(scenario))
        assert await scenario.read(topic) == [b"a"]

        # The file says the right thing again, and it stays so.
        await scenario.restart()
        assert await scenario.read(topic) == [b"a"]

    async def accepted(scenario: Scenario) -> bool:
        (topic,) = scenario.board.topics.values()
        return await scenario.produce(topic, b"a") == ErrorCode.NONE

    Scenario(seed=seed).run(story)


def test_a_topic_can_be_deleted_after_its_sync_has_failed() -> None:
    """Deleting it synced it once more, which ended the broker. Now the failure itself does, as with Apache Kafka."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t", flush_messages="1")
        other = await scenario.create_topic("u", flush_messages="1")
        scenario.node.disk.fail("sync")
        with suppress(Unavailable):
            assert await scenario.produce(topic, b"a") == ErrorCode.KAFKA_STORAGE_ERROR
        await scenario.until(lambda: scenario.node.incarnation == 2 and scenario.cluster.is_up)
        await scenario.delete_topic(topic)
        await scenario.client.refresh([other.name])
        assert await scenario.produce(other, b"b") == ErrorCode.NONE
        assert scenario.node.incarnation == 2

    Scenario().run(story)


@pytest.mark.parametrize("seed", range(4))
def test_a_topic_can_be_deleted_while_it_is_synced(seed: int) -> None:
    """Its directory had another name by the time of the sync, which was taken for a failure of the disk."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t", flush_messages="1")
        scenario.node.slowness = 100.0
        waiting = asyncio.ensure_future(scenario.produce(topic, b"a"))
        await scenario.until(lambda: topic_ends_at(scenario, 1))
        await scenario.delete_topic(topic)
        await asyncio.wait([waiting])
        await scenario.clock.sleep(1000)
        assert scenario.node.incarnation == 1

    def topic_ends_at(scenario: Scenario, offset: int) -> bool:
        (broker,) = scenario.cluster.brokers
        return any(partition.log.log_end_offset == offset for partition in broker.partitions)

    Scenario(seed=seed).run(story)


def test_a_producer_that_begins_on_a_full_disk_keeps_its_order() -> None:
    """With the first of two batches refused, the second was taken for a beginning, and the first came after it."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        assert await scenario.produce(topic, b"warm") == ErrorCode.NONE
        producer = Idempotent(scenario, topic)
        scenario.node.disk.set_free_bytes(50)
        assert await producer.send(0, bytes(200)) == ErrorCode.KAFKA_STORAGE_ERROR
        scenario.node.disk.set_free_bytes(1 << 40)
        assert await producer.send(1, b"second") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert await producer.send(0, bytes(200)) == ErrorCode.NONE
        assert await producer.send(1, b"second") == ErrorCode.NONE
        assert await scenario.read(topic) == [b"warm", bytes(200), b"second"]

    Scenario().run(story)


def test_what_was_in_flight_at_a_crash_is_known_afterwards() -> None:
    """A snapshot names the last batch of a producer alone; the others, sent again, were refused as out of order."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        producer = Idempotent(scenario, topic)
        for sequence in range(4):
            assert await producer.send(sequence, b"%d" % sequence) == ErrorCode.NONE
        await scenario.restart()
        await scenario.client.refresh([topic.name])
        for sequence in (1, 2, 3, 4):
            assert await producer.send(sequence, b"%d" % sequence) == ErrorCode.NONE
        assert await scenario.read(topic) == [b"0", b"1", b"2", b"3", b"4"]

    Scenario().run(story)


@pytest.mark.parametrize("again_before_the_crash", [True, False])
def test_a_topic_made_again_does_not_begin_where_the_one_before_it_did(again_before_the_crash: bool) -> None:
    """Offsets are written down by name: those of a deleted topic were taken for its successor's after a crash.

    Then what lay before them, which was all, was thrown away.
    """

    async def make_again(scenario: Scenario) -> Topic:
        topic = await scenario.create_topic("t")

        async def accepted() -> bool:  # once the offsets of its predecessor are forgotten
            return await scenario.produce(topic, b"a") == ErrorCode.NONE

        await scenario.patiently(accepted)
        return topic

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t")
        assert await scenario.produce(topic, *[b"old"] * 100) == ErrorCode.NONE
        await scenario.delete_records(topic, 100)
        await scenario.clock.sleep(1000)
        await scenario.delete_topic(topic)
        if again_before_the_crash:
            topic = await make_again(scenario)
        await scenario.kill()
        if not again_before_the_crash:
            topic = await make_again(scenario)
        assert await scenario.read(topic) == [b"a"]

    Scenario(settings={"log.flush.offset.checkpoint.interval.ms": "500"}).run(story)


def test_records_of_a_deleted_topic_are_not_taken_for_its_successors() -> None:
    """They were synced without the id of their topic, which a node that was away then took for the new one's."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t", flush_messages="1")
        await scenario.write(topic, b"old")
        away = next(
            node
            for node in scenario.cluster.nodes.values()
            if node.id != scenario.client.view.leaders[topic.id, 0].node_id
        )
        scenario.cluster.cut_power(away, Survival.NONE)

        async def deleted() -> bool:
            await scenario.delete_topic(topic)
            return True

        await scenario.patiently(deleted)

        async def created() -> bool:
            await scenario.create_topic("t", flush_messages="1")
            return True

        await scenario.patiently(created)
        (again,) = scenario.board.topics.values()
        await scenario.write(again, b"new")
        scenario.cluster.start(away)
        await scenario.until(lambda: scenario.cluster.is_up)
        await scenario.until(lambda: [values(broker) for broker in scenario.cluster.brokers] == [[b"new"]] * 3)

    def values(broker: Broker) -> list[bytes]:
        (partition,) = broker.partitions
        found = partition.log.read(0, 1 << 20, partition.log.log_end_offset)
        return [] if found is None else [record.value or b"" for record in read_batches(found.read(), 0).records]

    Scenario(nodes=3).run(story)


class Idempotent:
    """A producer with an id of its own, one record at a time."""

    def __init__(self, scenario: Scenario, topic: Topic) -> None:
        self._scenario = scenario
        self._topic = topic

    async def send(self, sequence: int, value: bytes) -> ErrorCode:
        sequenced = {"producer_id": 4711, "producer_epoch": 0, "base_sequence": sequence}
        return await self._scenario.produce(self._topic, value, **sequenced)


@pytest.mark.parametrize("seed", range(6))
def test_what_a_recovery_finds_is_synced_before_it_counts(seed: int) -> None:
    """The only replica took all that its log held for committed, also what a killed process had not synced any more:
    it was read, acknowledged to who sent it again, and then lost with the power."""

    async def story(scenario: Scenario) -> None:
        topic = await scenario.create_topic("t", flush_messages="1")
        await scenario.write(topic, b"a")
        scenario.node.slowness = 1000.0  # of its disk
        sending = asyncio.ensure_future(scenario.produce(topic, b"b"))
        log = scenario.node.broker.partitions.get("t", 0).log  # type: ignore[union-attr]
        await scenario.until(lambda: log.log_end_offset == 2)
        scenario.node.slowness = 1.0
        await scenario.kill()
        with suppress(Unavailable):
            await sending
        seen = await scenario.read(topic)
        await scenario.cut_power(Survival.NONE)
        assert (await scenario.read(topic, at_least=len(seen)))[: len(seen)] == seen

    Scenario(seed=seed).run(story)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_recovery_finds_is_synced_before_it_counts_for_one_of_several_replicas(seed: int) -> None:
    """Likewise for a leader that is alone in sync: only what was appended after its start waited for the disk."""

    async def story(scenario: Scenario) -> None:
        leader, follower, _third = scenario.cluster.nodes.values()
        topic = await scenario.create_topic("t", on=(leader.id, follower.id), flush_messages="1")
        await scenario.write(topic, b"a")
        scenario.cluster.stop(follower)
        await scenario.write(topic, b"b")  # once the other one is out
        leader.slowness = 1000.0  # of its disk
        sending = asyncio.ensure_future(scenario.produce(topic, b"c"))
        log = leader.broker.partitions.get("t", 0).log  # type: ignore[union-attr]
        await scenario.until(lambda: log.log_end_offset == 3)
        leader.slowness = 1.0
        scenario.cluster.kill(leader)
        scenario.cluster.start(leader)
        with suppress(Unavailable):
            await sending
        seen = await scenario.read(topic)
        scenario.cluster.cut_power(leader, Survival.NONE)
        scenario.cluster.start(leader)
        assert (await scenario.read(topic, at_least=len(seen)))[: len(seen)] == seen

    Scenario(nodes=3, seed=seed).run(story)
