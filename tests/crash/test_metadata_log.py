"""Power is lost at every point of the controller's work: nothing it answered for is gone, and what is left starts."""

import asyncio
from random import Random
from typing import NamedTuple

import pytest
from controllers import DIRECTORY_ID, Controller, settle

from barnabas.controller import producer_ids
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.producer_ids import ProducerIdBlock
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.simulation.disk import SimulatedDisk, Survival

TOPICS = [f"topic-{number}" for number in range(12)]


class Moment(NamedTuple):
    disk: SimulatedDisk  # as a crash would leave it
    acknowledged: list[str]
    producer_ids_end: int


def create(name: str) -> Decision[str]:
    topic_id = name.encode().ljust(16, b".")
    partitions = [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[DIRECTORY_ID],
        )
        for index in range(40)
    ]
    return Decision([TopicRecord(name=name, topic_id=topic_id), *partitions], name)


# Snapshots as often as can be, of which one is kept, and a segment for each batch so that the log is cut behind it.
SNAPSHOTS = {
    "metadata.log.max.record.bytes.between.snapshots": "5000",
    "metadata.max.retention.bytes": "0",
    "metadata.log.segment.ms": "1",
}


async def work(survival: Survival, overrides: dict[str, str]) -> list[Moment]:
    """Topics created one by one and in pairs, producer ids in between, one restart; every moment of it."""
    moments: list[Moment] = []
    acknowledged: list[str] = []
    producer_ids_end = 0

    def remember(kind: str) -> None:
        left = disk.image(Random(len(moments)), survival)
        moments.append(Moment(left, list(acknowledged), producer_ids_end))

    disk = SimulatedDisk()
    disk.on_operation = remember
    controller = await Controller(disk, overrides=overrides).start()
    for number, name in enumerate(TOPICS):
        if number == 6:
            await controller.service.stop()
            controller = await Controller(disk, overrides=overrides).start()
        if number % 4 == 3:
            block = await controller.service.submit(allocate(controller))
            assert isinstance(block, ProducerIdBlock)
            producer_ids_end = block.end
        acknowledged.append(await controller.service.submit(lambda image, _offset, name=name: create(name)))
        await settle()
    return moments


def allocate(controller: Controller):  # type: ignore[no-untyped-def]
    epoch = controller.broker_epoch

    def decide(image: MetadataImage, _offset: int) -> Decision[ProducerIdBlock | Refusal]:
        return producer_ids.allocate(image, 1, epoch)

    return decide


@pytest.mark.parametrize("survival", [Survival.SOME, Survival.NONE, Survival.ALL], ids=lambda each: each.name)
@pytest.mark.parametrize("overrides", [{}, SNAPSHOTS], ids=["log", "snapshots"])
def test_what_was_acknowledged_is_there_and_nothing_is_half_there(
    survival: Survival, overrides: dict[str, str]
) -> None:
    async def test() -> None:
        moments = await work(survival, overrides)
        assert len(moments) > 40
        begins: set[int] = set()
        # A snapshot writes much: of its moments one in so many, others with each way to lose what was not synced.
        stride, first = (10, list(Survival).index(survival)) if overrides else (1, 0)
        for moment in moments[first::stride]:
            again = await Controller(moment.disk, overrides=overrides).start()
            begins.add(again.service.log.start_offset)
            found = list(again.image.topics_by_name)
            assert found[: len(moment.acknowledged)] == moment.acknowledged
            assert found == TOPICS[: len(found)], "a later decision survived an earlier one"
            assert all(len(topic.partitions) == 40 for topic in again.image.topics_by_name.values())
            assert again.image.next_producer_id >= moment.producer_ids_end
            # And it goes on.
            if len(found) < len(TOPICS):
                name = TOPICS[len(found)]
                assert await again.service.submit(lambda image, _offset, name=name: create(name)) == name
        assert len(begins) > 3 if overrides else begins == {0}

    asyncio.run(asyncio.wait_for(test(), 60))
