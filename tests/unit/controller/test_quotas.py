"""Client quotas altered and described. Error codes are those of Apache Kafka 4.3.1 but where a test says otherwise."""

from typing import Any

import pytest
from images import after, cluster

from barnabas.controller import quotas
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from barnabas.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

Entity = dict[str, str | None]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def entry(entity: Entity, **values: float | None) -> RequestEntryData:
    ops = [
        OpData(key=key, remove=True) if value is None else OpData(key=key, value=value) for key, value in values.items()
    ]
    parts = [RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return RequestEntryData(entity=parts, ops=ops)


def alter(
    image: MetadataImage, *entries: RequestEntryData, validate_only: bool = False
) -> tuple[MetadataImage, list[int]]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    decision = quotas.alter_client_quotas(image, request)
    return after(image, decision.records), [each.error_code for each in decision.response.entries]


def test_quotas_are_set_changed_and_removed() -> None:
    user: Entity = {"user": "u", "client-id": "c"}
    image, errors = alter(cluster(), entry(user, producer_byte_rate=1000.0, request_percentage=1.5))
    key = (("client-id", "c"), ("user", "u"))
    assert errors == [ErrorCode.NONE]
    assert image.client_quotas == {key: {"producer_byte_rate": 1000.0, "request_percentage": 1.5}}
    image, _errors = alter(image, entry(user, producer_byte_rate=2000.0, request_percentage=None))
    assert image.client_quotas == {key: {"producer_byte_rate": 2000.0}}
    image, _errors = alter(image, entry(user, producer_byte_rate=None))
    assert image.client_quotas == {}


def test_what_is_so_already_is_not_written_again() -> None:
    image, _errors = alter(cluster(), entry({"user": "u"}, producer_byte_rate=1000.0))
    request = AlterClientQuotasRequest(
        entries=[entry({"user": "u"}, producer_byte_rate=1000.0, consumer_byte_rate=None)]
    )
    assert quotas.alter_client_quotas(image, request).records == []


def test_validation_alone_writes_nothing() -> None:
    image, errors = alter(cluster(), entry({"user": "u"}, producer_byte_rate=1000.0), validate_only=True)
    assert (image.client_quotas, errors) == ({}, [ErrorCode.NONE])


@pytest.mark.parametrize(
    ("entity", "values", "error"),
    [
        ({}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"group": "g"}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": ""}, {"producer_byte_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": None}, {"producer_byte_rate": 1.0}, ErrorCode.NONE),
        ({"user": "u"}, {"other": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"other": None}, ErrorCode.NONE),
        ({"user": "u"}, {"producer_byte_rate": 0.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"request_percentage": -1.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"request_percentage": float("inf")}, ErrorCode.NONE),
        ({"user": "u"}, {"producer_byte_rate": float("inf")}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"producer_byte_rate": 1.5}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"producer_byte_rate": float(2**63)}, ErrorCode.NONE),
        ({"user": "u"}, {"controller_mutation_rate": 1.5}, ErrorCode.NONE),
        ({"ip": "1.2.3.4"}, {"connection_creation_rate": 10.0}, ErrorCode.NONE),
        ({"ip": "::1"}, {"connection_creation_rate": 10.0}, ErrorCode.NONE),
        ({"ip": None}, {"connection_creation_rate": 10.0}, ErrorCode.NONE),
        ({"ip": "1.2.3.4"}, {"producer_byte_rate": 10.0}, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3.4"}, {"connection_creation_rate": 10.5}, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3.4"}, {"connection_creation_rate": float(2**31)}, ErrorCode.INVALID_REQUEST),
        ({"ip": "1.2.3.4", "user": "u"}, {"connection_creation_rate": 1.0}, ErrorCode.INVALID_REQUEST),
        ({"ip": "no address"}, {"connection_creation_rate": 10.0}, ErrorCode.INVALID_REQUEST),
        # Kafka looks names of hosts up and takes what is not a number.
        ({"ip": "localhost"}, {"connection_creation_rate": 10.0}, ErrorCode.INVALID_REQUEST),
        ({"user": "u"}, {"request_percentage": float("nan")}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_can_be_set_on_whom(entity: Entity, values: dict[str, float | None], error: ErrorCode) -> None:
    image, errors = alter(cluster(), entry(entity, **values))
    assert errors == [error]
    if error != ErrorCode.NONE:
        assert image.client_quotas == {}


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        ({"ip": "1.2.3.4", "user": "u"}, "Invalid quota entity combination"),
        ({"ip": "no address"}, "not a valid IP"),
    ],
)
def test_a_refusal_has_the_words_of_kafka_that_tools_look_for(entity: Entity, words: str) -> None:
    request = AlterClientQuotasRequest(entries=[entry(entity, connection_creation_rate=1.0)])
    assert words in str(quotas.alter_client_quotas(cluster(), request).response.entries[0].error_message)


def test_one_bad_quota_leaves_the_entity_alone_and_the_others_in_peace() -> None:
    image, errors = alter(
        cluster(),
        entry({"user": "a"}, producer_byte_rate=1.0, consumer_byte_rate=-1.0),
        entry({"user": "b"}, producer_byte_rate=1.0),
    )
    assert errors == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert list(image.client_quotas) == [(("user", "b"),)]


def test_what_is_named_twice() -> None:
    twice = entry({"user": "u"}, producer_byte_rate=1.0)
    twice.ops.append(OpData(key="producer_byte_rate", value=2.0))
    assert alter(cluster(), twice)[1] == [ErrorCode.INVALID_REQUEST]
    image, errors = alter(
        cluster(), entry({"user": "u"}, producer_byte_rate=1.0), entry({"user": "u"}, producer_byte_rate=2.0)
    )
    assert errors == [ErrorCode.INVALID_REQUEST]
    assert image.client_quotas == {(("user", "u"),): {"producer_byte_rate": 1.0}}


# Describe


@pytest.fixture
def some_quotas() -> MetadataImage:
    image, errors = alter(
        cluster(),
        entry({"user": "u", "client-id": "c"}, producer_byte_rate=1.0),
        entry({"user": "u"}, producer_byte_rate=2.0),
        entry({"user": None}, producer_byte_rate=3.0),
        entry({"client-id": "c"}, producer_byte_rate=4.0),
        entry({"ip": "1.2.3.4"}, connection_creation_rate=5.0),
    )
    assert set(errors) == {ErrorCode.NONE}
    return image


def describe(image: MetadataImage, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    """The values found, each of which stands for its entity; or the error."""
    request = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components],
        strict=strict,
    )
    response = quotas.describe_client_quotas(image, request)
    if response.error_code:
        assert response.entries is None
        return response.error_code
    assert response.entries is not None
    return [value.value for found in response.entries for value in found.values]


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [1.0, 2.0, 3.0, 4.0, 5.0]),
        ([], True, []),
        ([("user", SPECIFIED, None)], False, [1.0, 2.0, 3.0]),
        ([("user", SPECIFIED, None)], True, [2.0, 3.0]),
        ([("user", EXACT, "u")], False, [1.0, 2.0]),
        ([("user", EXACT, "u")], True, [2.0]),
        ([("user", EXACT, "nobody")], False, []),
        ([("user", DEFAULT, None)], False, [3.0]),
        ([("user", EXACT, "u"), ("client-id", EXACT, "c")], True, [1.0]),
        ([("user", EXACT, "u"), ("client-id", SPECIFIED, None)], False, [1.0]),
        ([("ip", SPECIFIED, None)], False, [5.0]),
    ],
)
def test_filters(some_quotas: MetadataImage, components: Any, strict: bool, expected: list[float]) -> None:
    assert describe(some_quotas, *components, strict=strict) == expected


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
        ([("group", SPECIFIED, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", SPECIFIED, None), ("user", EXACT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, None), ("ip", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense(some_quotas: MetadataImage, components: Any, error: ErrorCode) -> None:
    assert describe(some_quotas, *components) == error


def test_the_refusal_of_a_filter_has_the_words_of_kafka() -> None:
    both = [ComponentData(entity_type=kind, match_type=SPECIFIED, match=None) for kind in ("user", "ip")]
    response = quotas.describe_client_quotas(cluster(), DescribeClientQuotasRequest(components=both))
    assert "Invalid entity filter component combination" in str(response.error_message)
