"""Producer ids, given out in blocks so that the log is written once for many of them.

Always holds: a block once in the log is never given out again, whoever asked for it and whatever became of him.
"""

from typing import NamedTuple

from barnabas.controller.brokers import check_epoch
from barnabas.controller.decision import Decision, Refusal
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.types import BrokerId, ProducerId

BLOCK_SIZE = 1000
PRODUCER_ID_MAX = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    first: ProducerId
    end: ProducerId  # the first one that is not in the block


def allocate(image: MetadataImage, broker_id: BrokerId, broker_epoch: int) -> Decision[ProducerIdBlock | Refusal]:
    from barnabas.protocol.messages.producer_ids_record import ProducerIdsRecord

    broker = check_epoch(image, broker_id, broker_epoch)
    if isinstance(broker, Refusal):
        return Decision([], broker)
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - BLOCK_SIZE:
        return Decision([], Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are given out."))
    end = first + BLOCK_SIZE
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=end)
    return Decision([record], ProducerIdBlock(first, end))
