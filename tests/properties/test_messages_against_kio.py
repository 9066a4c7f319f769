"""Our bytes against those of kio, which was written by others: both ways, for every message and version that kio has.

kio has richer types for some fields (durations, moments, error codes, None for the zero uuid), under names without the
unit. `plain` brings its values back to what the wire carries.
"""

import datetime
import io
import types
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from barnabas.protocol.message import Message, Structure
from tests.support.message_values import SCALARS
from tools.protocol_generator.names import snake_case

quick = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # messages are small, and shrinking one takes minutes
    max_examples=5,
)
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

moments = st.integers(0, 2**41).map(lambda value: EPOCH + value * MILLISECOND)
KIO_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **SCALARS,
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": st.integers(0, 2**31 - 1).map(lambda value: value * MILLISECOND),
    "timedelta_i64": st.integers(0, 2**40).map(lambda value: value * MILLISECOND),
    "datetime_i64": moments,
    "uuid": st.one_of(st.none(), st.uuids()),
}


class KioCase(NamedTuple):
    name: str
    version: int
    kind: EntityType
    path: str

    def __str__(self) -> str:
        return f"{self.name}-{self.kind.name}-{self.version}"

    @property
    def entity(self) -> type[Any]:
        module, _, name = self.path.rpartition(":")
        return getattr(import_module(module), name)  # type: ignore[no-any-return]

    @property
    def message_class(self) -> type[Message]:
        name = self.entity.__name__
        module = snake_case(name)
        if self.kind in (EntityType.request, EntityType.response):
            module = module.removesuffix("_request").removesuffix("_response")
        return getattr(import_module(f"barnabas.protocol.messages.{module}"), name)  # type: ignore[no-any-return]


def kio_cases() -> list[KioCase]:
    return [
        KioCase(name, version, kind, path)
        for name, by_version in schema_name_map.items()
        for version, by_kind in by_version.items()
        for kind, path in by_kind.items()
    ]


@cache
def entities(entity: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(entity)
    return st.builds(entity, **{field.name: values(field, hints[field.name]) for field in fields(entity)})


def values(field: Any, hint: Any) -> st.SearchStrategy[Any]:
    nullable = get_origin(hint) is types.UnionType
    if nullable:
        (hint,) = (each for each in get_args(hint) if each is not types.NoneType)
    many = get_origin(hint) is tuple
    element = get_args(hint)[0] if many else hint
    kafka_type = field.metadata.get("kafka_type")
    strategy = entities(element) if is_dataclass(element) else KIO_SCALARS[kafka_type]
    if many:
        if kafka_type == "uuid":  # within arrays, kio reads the zero uuid as None too
            strategy = st.uuids()
        strategy = st.lists(strategy, max_size=3).map(tuple)
    if nullable and kafka_type != "uuid":
        return st.one_of(st.none(), strategy)
    return strategy


def plain(value: Any) -> Any:
    """A value of kio as the wire has it."""
    if is_dataclass(value):
        return {without_unit(field.name): plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    return int(value) if isinstance(value, ErrorCode) else value


def same(ours: Any, theirs: Any) -> bool:
    """Whether our value is kio's. What kio's version lacks must be at our default; Nones of kio may be zero or -1."""
    if isinstance(theirs, dict):
        if ours is None:  # we leave an absent tagged structure out, kio has one full of defaults
            return all(each in (None, -1, 0, "", []) for each in theirs.values())
        return all(same(getattr(ours, our_name(ours, name)), value) for name, value in theirs.items())
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if theirs is None:
        return ours in (None, -1, bytes(16))
    return bool(ours == theirs)


def without_unit(name: str) -> str:
    return name.removesuffix("_").removesuffix("_ms").replace("k_raft", "kraft")


def our_name(ours: Structure, name: str) -> str:
    return next(each for each in ours.__slots__ if without_unit(each) == name)


@pytest.mark.parametrize("case", kio_cases(), ids=str)
def test_bytes_are_those_of_kio(case: KioCase) -> None:
    entity, message_class = case.entity, case.message_class
    write, read = entity_writer(entity), entity_reader(entity)

    @settings(quick)
    @given(entities(entity))
    def check(theirs: Any) -> None:
        buffer = io.BytesIO()
        write(buffer, theirs)
        data = buffer.getvalue()
        ours, end = message_class.decode(memoryview(data), 0, case.version)
        assert end == len(data)
        assert same(ours, plain(theirs)), (ours, theirs)
        out = bytearray()
        ours.encode(out, case.version)
        assert out == data
        assert plain(read(bytes(out), 0)[0]) == plain(theirs)

    check()
