"""Every fact of the definitions against the schemas that Apache Kafka itself is generated from."""

from functools import cache
from typing import Any

import pytest

from tests.support import kafka_jars
from tests.support.kafka_schemas import (
    Schema,
    field_versions,
    jar_schemas,
    kafka_python_schemas,
    versions,
)
from tools.protocol_generator.__main__ import read_definitions
from tools.protocol_generator.grammar import FIXED_FORMATS, VARIABLE_TYPES, Definition, Field, Message, Struct
from tools.protocol_generator.names import snake_case

WHY_NOT = kafka_jars.why_not_here()
needs_jars = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
PRIMITIVES = {*FIXED_FORMATS, *VARIABLE_TYPES}
INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}


@cache
def definitions() -> list[Definition]:
    return read_definitions()


@cache
def messages() -> dict[str, Message]:
    return {message.name: message for definition in definitions() for message in definition.messages}


@cache
def from_jars() -> dict[str, Schema]:
    return jar_schemas()


@cache
def from_kafka_python() -> dict[str, Schema]:
    return kafka_python_schemas()


def kafka_facts(schema: Schema, version: int) -> list[tuple[Any, ...]]:
    """What each field is in this version, in order, with those of its structure within."""
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())}

    def facts(fields: list[Schema]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for field in fields:
            if version not in field_versions(field):
                continue
            element = field["type"].removeprefix("[]")
            inner = None if element in PRIMITIVES else facts(field.get("fields") or common[element])
            tag = field["tag"] if version in versions(field.get("taggedVersions")) else None
            found.append(
                (
                    snake_case(field["name"]),
                    element if inner is None else inner,
                    field["type"].startswith("[]"),
                    version in versions(field.get("nullableVersions")),
                    tag,
                    default(element, field["type"].startswith("[]"), field.get("default")),
                    field.get("ignorable") in (True, "true"),
                    field.get("flexibleVersions") == "none",
                )
            )
        return found

    return facts(schema.get("fields", []))


def our_facts(message: Message, version: int) -> list[tuple[Any, ...]]:
    def one(field: Field) -> tuple[Any, ...]:
        return (
            field.name,
            facts(message.structs[field.type]) if field.is_struct else field.type,
            field.array,
            field.nullable_in(version),
            field.tag,
            default(field.type, field.array, field.default),
            field.ignorable,
            field.never_compact,
        )

    def facts(struct: Struct) -> list[tuple[Any, ...]]:
        return [one(field) for field in struct.fields if version in field.versions]

    return facts(message.root)


def default(element: str, array: bool, written: object) -> object:
    """A JSON null is, to Kafka's generator, the same as no default; null is the word \"null\"."""
    if written == "null":
        return None
    if array or element not in PRIMITIVES:
        return "empty"
    if element in INTEGERS:
        return int(str(written or 0), 0)
    if element == "bool":
        return str(written).lower() == "true"
    return str(written or "")


@needs_jars
@pytest.mark.parametrize("name", sorted(messages()))
def test_definition_has_the_facts_of_kafka(name: str) -> None:
    message, schema = messages()[name], from_jars()[name]
    valid = versions(schema["validVersions"])
    assert message.versions.all() == valid
    flexible = versions(schema["flexibleVersions"])
    for version in valid:
        assert message.flexible_in(version) == (version in flexible)
        assert our_facts(message, version) == kafka_facts(schema, version)
    assert message.key == schema.get("apiKey")


@needs_jars
def test_no_message_of_kafka_is_missing() -> None:
    theirs = {name for name, schema in from_jars().items() if schema["validVersions"] != "none"}
    assert theirs == set(messages())


@needs_jars
def test_apis_have_the_facts_of_kafka() -> None:
    requests = {schema["apiKey"]: schema for schema in from_jars().values() if schema["type"] == "request"}
    apis = {definition.api_key: definition for definition in definitions() if definition.api_key is not None}
    assert apis.keys() == requests.keys()
    for key, schema in requests.items():
        assert f"{apis[key].api_name}Request" == schema["name"]
        assert list(apis[key].listeners) == schema.get("listeners", [])
        assert apis[key].latest_version_unstable == schema.get("latestVersionUnstable", False)
        assert bool(apis[key].messages) == (schema["validVersions"] != "none")


@pytest.mark.parametrize("name", sorted(from_kafka_python().keys() & messages().keys()))
def test_definition_agrees_with_the_schemas_in_kafka_python(name: str) -> None:
    message, schema = messages()[name], from_kafka_python()[name]
    shared = [version for version in message.versions.all() if version in versions(schema["validVersions"])]
    assert shared, "no version in common"
    for version in shared:
        assert message.flexible_in(version) == (version in versions(schema["flexibleVersions"]))
        assert our_facts(message, version) == kafka_facts(schema, version)
    assert message.key == schema.get("apiKey")


def test_kafka_python_still_carries_schemas() -> None:
    assert len(from_kafka_python().keys() & messages().keys()) > 100
