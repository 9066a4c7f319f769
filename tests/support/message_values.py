"""Hypothesis strategies for our own messages, made from the definitions.

A value that is drawn for a version has only what that version carries; the rest is at its default. So it must come back
equal after encoding and decoding.
"""

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from hypothesis import strategies as st

from barnabas.protocol.message import Message
from tools.protocol_generator import grammar
from tools.protocol_generator.__main__ import read_definitions
from tools.protocol_generator.names import optional_struct

INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    # Sizes on both sides of what fits in one byte of a varint.
    "string": st.one_of(st.text(max_size=8), st.sampled_from(["", "x" * 126, "x" * 127, "x" * 128, "é" * 64])),
    "bytes": st.one_of(st.binary(max_size=8), st.sampled_from([b"", b"\xff" * 127, b"\x80" * 300])),
    "records": st.one_of(st.binary(max_size=8), st.sampled_from([b"", b"\xff" * 127, b"\x80" * 300])),
}
ELEMENTS_MAX = 3


class Case(NamedTuple):
    """One message in one version."""

    module: str
    message: grammar.Message
    version: int

    @property
    def message_class(self) -> type[Message]:
        found: type[Message] = getattr(_module(self.module), self.message.name)
        return found

    def __str__(self) -> str:
        return f"{self.message.name}-{self.version}"


@cache
def cases() -> list[Case]:
    """Every message in every version."""
    return [
        Case(definition.module, message, version)
        for definition in read_definitions()
        for message in definition.messages
        for version in message.versions.all()
    ]


def _module(name: str) -> Any:
    return import_module(f"barnabas.protocol.messages.{name}")


def messages(case: Case) -> st.SearchStrategy[Any]:
    return _structs(case, case.message.root)


def _structs(case: Case, struct: grammar.Struct) -> st.SearchStrategy[Any]:
    fields = {field.name: _values(case, field) for field in struct.fields if case.version in field.versions}
    return st.builds(getattr(_module(case.module), struct.name), **fields)


def _values(case: Case, field: grammar.Field) -> st.SearchStrategy[Any]:
    if field.is_struct:
        struct_class = getattr(_module(case.module), field.type)
        values = _structs(case, case.message.structs[field.type])
        if optional_struct(field):  # one full of defaults is not written, and comes back as None
            return st.one_of(st.none(), values.filter(lambda value: value != struct_class()))
    else:
        values = SCALARS[field.type]
    if field.array:
        values = st.lists(values, max_size=ELEMENTS_MAX)
    return st.one_of(st.none(), values) if field.nullable_in(case.version) else values
