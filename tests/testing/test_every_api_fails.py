"""Every API at every version can be made to fail: the answer decodes, carries the error, and nothing was done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from wire import Wire

from barnabas.errors import ErrorCode
from barnabas.protocol.apis import ApiKey, api
from barnabas.protocol.message import Structure
from barnabas.server.context import ListenerKind
from barnabas.server.dispatch import served_on
from barnabas.testing import Kafka
from tests.support.message_values import Case, cases
from tools.protocol_generator import grammar

CODE = ErrorCode.KAFKA_STORAGE_ERROR  # which no request here would get by itself
TOPIC = "there"
SCALARS: dict[str, Any] = {
    "string": TOPIC,
    "bool": False,
    "float64": 0.0,
    "uuid": bytes(16),
    "bytes": b"",
    "records": b"x",
}
OTHER = {"session_epoch": -1, "session_id": 0, "partition": 0, "index": 0, "partition_index": 0, "replica_id": -1}


def filled(case: Case, struct: grammar.Struct) -> Any:
    """One item in every list, and in every field something that means little."""
    module = __import__(f"barnabas.protocol.messages.{case.module}", fromlist=["_"])
    fields = {field.name: value(case, field) for field in struct.fields if case.version in field.versions}
    return getattr(module, struct.name)(**fields)


def value(case: Case, field: grammar.Field) -> Any:
    found: Any
    if field.is_struct:
        if field.tag is not None:
            return [] if field.array else None
        found = filled(case, case.message.structs[field.type])
    else:
        found = SCALARS.get(field.type, OTHER.get(field.name, 1))
    return [found] if field.array else found


def codes(structure: Structure) -> Iterator[int]:
    for name in structure.__slots__:
        found = getattr(structure, name)
        if name.endswith("error_code"):
            yield found
        for each in found if isinstance(found, list) else [found]:
            if isinstance(each, Structure):
                yield from codes(each)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as started:
        started.create_topic(TOPIC)
        yield started


@pytest.fixture
def wire(kafka: Kafka) -> Iterator[Wire]:
    with Wire(kafka.bootstrap_servers) as opened:
        yield opened


@pytest.mark.parametrize("key", served_on(ListenerKind.BROKERS), ids=lambda key: key.name)
def test_every_version_fails_in_its_own_form(kafka: Kafka, wire: Wire, key: ApiKey):
    facts = api(key)
    requests = {case.version: case for case in cases() if case.module == facts.name and case.message.kind == "request"}
    for version in range(facts.min_version, facts.max_stable_version + 1):
        fault = kafka.fail_next(key, CODE)
        answer = wire.call(filled(requests[version], requests[version].message.root), version)
        assert fault.hits == 1
        assert CODE in list(codes(answer)), (version, answer)
        assert set(codes(answer)) <= {CODE, ErrorCode.NONE}, (version, answer)
    assert kafka.topics() == [TOPIC]


def test_what_is_unknown_is_said_with_what_may_be_meant(kafka: Kafka):
    for api_name, error, said in (
        ("Prodduce", "NONE", "no API is called 'Prodduce'; did you mean PRODUCE?"),
        ("Produce", "NOT_LEADER", "no error is called 'NOT_LEADER'"),
        (9999, 0, "no API has the key 9999"),
        ("Vote", 0, "no API is called 'Vote'"),
    ):
        with pytest.raises(ValueError, match=said):
            kafka.fail_next(api_name, error)
    with pytest.raises(ValueError, match="HEARTBEAT names no topics"):
        kafka.fail_next("Heartbeat", "REBALANCE_IN_PROGRESS", topic="x")
    with pytest.raises(ValueError, match="there is no broker 2; there are 1"):
        kafka.fail_next("Produce", "INVALID_RECORD", broker=2)
    with pytest.raises(ValueError, match="happen 0 times"):
        kafka.fail_next("Produce", "INVALID_RECORD", times=0)
    with pytest.raises(ValueError, match="by -1 ms"):
        kafka.delay("Produce", -1)


@pytest.mark.parametrize("name", ["ListOffsets", "LIST_OFFSETS", "list_offsets", "list-offsets", 2])
def test_an_api_may_be_written_as_one_likes(kafka: Kafka, name: str | int):
    kafka.fail_next(name, "leader_not_available").cancel()
