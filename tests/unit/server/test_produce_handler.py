"""Produce, where a unit can see it; what clients see of it is in `tests/clients`."""

from handlers import PartsBroker, call, run

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.server.handlers import produce


def test_records_that_were_refused_are_named() -> None:
    async def test() -> None:
        broker = await PartsBroker().start()
        broker.add_log("compacted", 0, 1, cleanup_policy="compact")
        batch = encode_batch([Record(0, 1, b"k", b"v"), Record(1, 1, None, b"v"), Record(2, 1, None, b"v")])
        data = [PartitionProduceData(index=0, records=batch)]
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="compacted", partition_data=data)])
        for version in range(3, 13):
            response = await call(produce, broker, request, version)
            (answer,) = response.responses[0].partition_responses
            assert answer.error_code == ErrorCode.INVALID_RECORD
            named = [(each.batch_index, each.batch_index_error_message) for each in answer.record_errors]
            needs_key = "a compacted topic needs keys"
            assert named == ([(1, needs_key), (2, needs_key)] if version >= 8 else [])

    run(test)


def test_records_between_two_syncs_are_acknowledged_at_once() -> None:
    """`flush.messages` asks for a sync now and then; after the first one nothing was acknowledged until the next."""

    async def test() -> None:
        broker = await PartsBroker().start()
        log = broker.add_log("t", 0, 0, flush_messages="3")
        for written in range(1, 6):
            data = [PartitionProduceData(index=0, records=encode_batch([Record(0, 1, None, b"v")]))]
            request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)])
            response = await call(produce, broker, request, 9)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            assert log.high_watermark == written

    run(test)
