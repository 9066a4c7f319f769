"""Names and literals in the generated code."""

from __future__ import annotations

import keyword
import re

from tools.protocol_generator.grammar import Field

# Locals of the generated functions, which no structure's variable may shadow.
RESERVED = {"view", "position", "end", "size", "start", "count", "data", "out", "tag", "tags", "message", "new"}


def snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def variable(struct_name: str) -> str:
    name = snake_case(struct_name)
    return f"{name}_" if name in RESERVED or keyword.iskeyword(name) else name


def default_constant(struct_name: str) -> str:
    return f"_DEFAULT_{snake_case(struct_name).upper()}"


SCALAR_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "records": "Records",
}
SCALAR_DEFAULTS = {"bool": "False", "float64": "0.0", "string": '""', "bytes": 'b""', "uuid": "ZERO_UUID"}


def optional_struct(field: Field) -> bool:
    """A tagged structure that may not be null is None while it is absent: on the hot path nobody pays for defaults."""
    return field.is_struct and not field.array and field.tag is not None and field.nullable is None


def null_by_default(field: Field) -> bool:
    return field.default == "null" or field.type == "records" or optional_struct(field)


def annotation(field: Field) -> str:
    text = field.type if field.is_struct else SCALAR_TYPES.get(field.type, "int")
    if field.array:
        text = f"list[{text}]"
    if field.nullable is not None or null_by_default(field):
        text += " | None"
    return text


def fresh_default(field: Field) -> str | None:
    """The expression for a default that must be a new object each time; None where it can be shared."""
    if null_by_default(field):
        return None
    if field.array:
        return "[]"
    return f"{field.type}()" if field.is_struct else None


def shared_default(field: Field) -> str:
    if null_by_default(field):
        return "None"
    if field.default is None:
        return SCALAR_DEFAULTS.get(field.type, "0")
    if field.type == "bool":
        return field.default.capitalize()
    if field.type == "string":
        return repr(field.default)
    return field.default


def default_expression(field: Field) -> str:
    return fresh_default(field) or shared_default(field)


def differs_from_default(field: Field, value: str) -> str:
    """A condition that holds where `value` is not the field's default."""
    if optional_struct(field):
        return f"{value} is not None and {value} != {default_constant(field.type)}"
    if null_by_default(field):
        return f"{value} is not None"
    if field.array:
        return value if field.nullable is None else f"{value} != []"
    if field.is_struct:
        return f"{value} != {default_constant(field.type)}"
    if field.type == "bool":
        return value if field.default is None else f"not {value}"
    return f"{value} != {shared_default(field)}"
