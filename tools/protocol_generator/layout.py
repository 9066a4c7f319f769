"""What a message looks like on the wire in one version, and which versions look the same.

Always holds: two versions with equal layouts can share one encode and one decode function.
Does not know: Python code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tools.protocol_generator.grammar import FIXED_FORMATS, FIXED_SIZES, Field, Message, Struct, Versions


class FieldLayout(NamedTuple):
    """`element` is the structure's layout where the field is one or holds many; None for primitives."""

    field: Field
    present: bool
    nullable: bool
    compact: bool
    element: StructLayout | None

    @property
    def tagged(self) -> bool:
        return self.present and self.field.tag is not None


class StructLayout(NamedTuple):
    name: str
    flexible: bool
    fields: tuple[FieldLayout, ...]

    @property
    def untagged(self) -> list[FieldLayout]:
        return [each for each in self.fields if each.present and each.field.tag is None]

    @property
    def tagged(self) -> list[FieldLayout]:
        """In the order in which they are written."""
        found = [each for each in self.fields if each.tagged]
        return sorted(found, key=lambda each: -1 if each.field.tag is None else each.field.tag)

    @property
    def absent(self) -> list[FieldLayout]:
        return [each for each in self.fields if not each.present]


def layouts(message: Message) -> list[tuple[StructLayout, list[int]]]:
    """Each distinct layout with the versions that share it, in the order of their first version."""
    found: dict[StructLayout, list[int]] = {}
    for version in message.versions.all():
        found.setdefault(struct_layout(message, message.root, version), []).append(version)
    return list(found.items())


def struct_layout(message: Message, struct: Struct, version: int) -> StructLayout:
    flexible = message.flexible_in(version)
    fields = []
    for field in struct.fields:
        present = version in field.versions
        element = None
        if present and field.is_struct:
            element = struct_layout(message, message.structs[field.type], version)
        compact = flexible and not field.never_compact
        fields.append(FieldLayout(_without_versions(field), present, field.nullable_in(version), compact, element))
    return StructLayout(struct.name, flexible, tuple(fields))


def _without_versions(field: Field) -> Field:
    """Layouts are compared: what differs only in the versions at which it came or went must not count."""
    nullable = None if field.nullable is None else Versions(0, 0)
    return replace(field, versions=Versions(0, 0), nullable=nullable)


def struct_size_min(layout: StructLayout) -> int:
    """The fewest bytes that the structure can take."""
    return sum(field_size_min(each) for each in layout.untagged) + (1 if layout.flexible else 0)


def field_size_min(layout: FieldLayout) -> int:
    field = layout.field
    if field.array:
        return 1 if layout.compact else 4
    if layout.element is not None:
        return 1 if layout.nullable else struct_size_min(layout.element)
    if field.type in FIXED_FORMATS:
        return FIXED_SIZES[FIXED_FORMATS[field.type]]
    return 1 if layout.compact else 2 if field.type == "string" else 4


def element_size_min(layout: FieldLayout) -> int:
    """The fewest bytes that one element of an array can take."""
    if layout.element is not None:
        return max(1, struct_size_min(layout.element))
    return field_size_min(scalar(layout))


def scalar(layout: FieldLayout) -> FieldLayout:
    """One element of an array of primitives: elements are never null."""
    return layout._replace(
        field=replace(layout.field, array=False, nullable=None, tag=None, default=None), nullable=False
    )
