"""Writes the decode function of one layout: flat, with everything inline but the rare cases.

A run of fixed-width fields is one `unpack_from`, which also checks that the bytes are there. The first byte of a varint
belongs to the run before it: it is always there, and mostly it is the whole varint. Where the run ends in such a byte,
`position` is left on it, so that a value of `size - 1` bytes lies from `position + 1` to `position + size`.
"""

from __future__ import annotations

import re

from tools.protocol_generator.code import INT32_COUNT_READY, Code, struct_name
from tools.protocol_generator.grammar import FIXED_FORMATS, FIXED_SIZES
from tools.protocol_generator.layout import FieldLayout, StructLayout, element_size_min
from tools.protocol_generator.names import default_expression, variable


class DecodeWriter(Code):
    def __init__(self) -> None:
        super().__init__()
        self.tag_depth = 0

    def function(self, name: str, layout: StructLayout) -> list[str]:
        with self.block(f"def {name}(view: memoryview, position: int) -> tuple[{layout.name}, int]:"):
            self.line("end = len(view)")
            self.struct("message", layout)
            self.flush()
            self.line("return message, position")
        if not any(re.search(r"\bend\b", line) for line in self.lines[2:]):
            del self.lines[1]
        return self.lines

    # Runs

    def flush(self) -> None:
        """Reads the run; `position` is then after it."""
        text, targets, size = self.take_pending()
        if text:
            self.unpack(text, targets)
            self.line(f"position += {size}")

    def flush_varint(self, target: str, slow: str = "read_uvarint") -> None:
        """Reads the run and the varint that follows it; `position` is then on the varint's last byte."""
        self.pending.append(("B", target))
        text, targets, size = self.take_pending()
        self.unpack(text, targets)
        if size > 1:
            self.line(f"position += {size - 1}")
        with self.block(f"if {target} > 127:"):
            self.line(f"{target}, position = {slow}(view, position)")

    def unpack(self, text: str, targets: list[str]) -> None:
        if text == "B":
            self.line(f"{targets[0]} = view[position]")
        elif text == "?":
            self.line(f"{targets[0]} = view[position] != 0")
        elif len(targets) == 1:
            self.line(f"({targets[0]},) = {struct_name('unpack', text)}(view, position)")
        else:
            self.line(f"{', '.join(targets)} = {struct_name('unpack', text)}(view, position)")

    # Structures

    def struct(self, owner: str, layout: StructLayout) -> None:
        self.line(f"{owner} = new({layout.name})")
        for field in layout.absent:
            self.line(f"{owner}.{field.field.name} = {default_expression(field.field)}")
        for field in layout.untagged:
            self.value(f"{owner}.{field.field.name}", field)
        if layout.flexible:
            self.tags(owner, layout.tagged)

    def tags(self, owner: str, tagged: list[FieldLayout]) -> None:
        if not tagged and not self.pending:
            with self.block("if view[position]:"):
                self.line("position = skip_tags(view, position, end)")
            with self.block("else:"):
                self.line("position += 1")
            return
        for field in tagged:
            self.line(f"{owner}.{field.field.name} = {default_expression(field.field)}")
        if not tagged:
            self.pending.append(("B", "tags"))
            self.flush()
            with self.block("if tags:"):
                self.line("position = skip_tags(view, position - 1, end)")
            return
        self.flush_varint("tags")
        self.line("position += 1")
        with self.block("if tags:"):
            self.known_tags(owner, tagged)

    def known_tags(self, owner: str, tagged: list[FieldLayout]) -> None:
        depth, self.tag_depth = self.tag_depth, self.tag_depth + 1
        tag_end = f"tag_end_{depth}" if depth else "tag_end"
        with self.block("for _ in range(tags):"):
            self.line(f"tag, position, {tag_end} = read_tag(view, position, end)")
            for index, field in enumerate(tagged):
                with self.block(f"{'if' if index == 0 else 'elif'} tag == {field.field.tag}:"):
                    self.tagged_value(f"{owner}.{field.field.name}", field)
                    self.flush()
                    with self.block(f"if position != {tag_end}:"):
                        self.line(f'raise DecodeError("{field.field.name}: its size as a tagged field is wrong")')
            with self.block("else:"):
                self.line(f"position = {tag_end}")
        self.tag_depth = depth

    def tagged_value(self, target: str, field: FieldLayout) -> None:
        """A nullable structure is marked differently where it is tagged: 0 for null, 1 for a value."""
        if field.element is None or field.field.array or not field.nullable:
            self.value(target, field)
            return
        self.line("size = view[position]")
        self.line("position += 1")
        with self.block("if size == 0:"):
            self.line(f"{target} = None")
        with self.block("elif size == 1:"):
            self.nested(target, field.element)
            self.flush()
        with self.block("else:"):
            self.line(f'raise DecodeError(f"{field.field.name}: neither null nor a structure: {{size}}")')

    # Values

    def value(self, target: str, field: FieldLayout) -> None:
        if field.field.array:
            self.array(target, field)
        elif field.element is not None:
            self.nested_or_null(target, field, field.element)
        elif field.field.type in FIXED_FORMATS:
            self.pending.append((FIXED_FORMATS[field.field.type], target))
        else:
            self.variable_size(f"{target} = {{}}", field)

    def nested_or_null(self, target: str, field: FieldLayout, element: StructLayout) -> None:
        if not field.nullable:
            self.nested(target, element)
            return
        self.pending.append(("b", "size"))
        self.flush()
        with self.block("if size < 0:"):
            self.line(f"{target} = None")
        with self.block("else:"):
            self.nested(target, element)
            self.flush()

    def nested(self, target: str, element: StructLayout) -> None:
        owner = variable(element.name)
        self.struct(owner, element)
        self.line(f"{target} = {owner}")

    def variable_size(self, statement: str, field: FieldLayout) -> None:
        """A string, bytes or records; `statement` has a place for the value."""
        name, kind = field.field.name, field.field.type
        expression = {
            "string": 'str(view[start:position], "utf-8", "kafka")',  # the handler is in `message`
            "bytes": "bytes(view[start:position])",
            "records": "view[start:position]",
        }[kind]
        if field.compact:
            self.flush_varint("size", "read_string_size" if kind == "string" else "read_uvarint")
            null, advance = "size == 0", ("start = position + 1", "position += size")
        else:
            self.pending.append(("h" if kind == "string" else "i", "size"))
            self.flush()
            null, advance = "size < 0", ("start = position", "position += size")
        beyond = "position > end"
        if field.nullable:
            with self.block(f"if {null}:"):
                self.line(statement.format("None"))
                if field.compact:
                    self.line("position += 1")
            self.line("else:")
            self.depth += 1
        for text in advance:
            self.line(text)
        with self.block(f"if {beyond}:" if field.nullable else f"if {beyond} or {null}:"):
            self.line(f'raise DecodeError(f"{name}: {kind} of size field {{size}}, with {{end - start}} bytes left")')
        self.line(statement.format(expression))
        if field.nullable:
            self.depth -= 1

    def array(self, target: str, field: FieldLayout) -> None:
        """`count` is the number of elements once it has been checked against the bytes that are left."""
        if field.compact:
            self.flush_varint("count")
            self.line("position += 1")
            self.line("count -= 1")
        else:
            self.pending.append(("i", "count"))
            self.flush()
        if field.nullable:
            with self.block("if count < 0:"):
                self.line(f"{target} = None")
            self.line("else:")
            self.depth += 1
        size_min = element_size_min(field)
        needed = "count" if size_min == 1 else f"count * {size_min}"
        refused = f"{needed} > end - position" + ("" if field.nullable else " or count < 0")
        with self.block(f"if {refused}:"):
            self.line(
                f'raise DecodeError(f"{field.field.name}: {{count}} elements, with {{end - position}} bytes left")'
            )
        self.elements(target, field)
        if field.nullable:
            self.depth -= 1

    def elements(self, target: str, field: FieldLayout) -> None:
        kind = field.field.type
        if kind == "uuid":
            self.line("start = position")
            self.line("position += count * 16")
            self.line(f"{target} = [bytes(view[at : at + 16]) for at in range(start, position, 16)]")
        elif kind in FIXED_FORMATS:
            code = FIXED_FORMATS[kind]
            values = f'unpack_from(f">{{count}}{code}", view, position)'
            if kind == "int32":
                values = f"UNPACK_INT32[count](view, position) if count < {INT32_COUNT_READY} else {values}"
            self.line(f"{target} = list({values})")
            self.line(f"position += count * {FIXED_SIZES[code]}" if FIXED_SIZES[code] > 1 else "position += count")
        else:
            self.line(f"{target} = []")
            with self.block("for _ in range(count):"):
                if field.element is None:
                    self.variable_size(f"{target}.append({{}})", field._replace(nullable=False))
                else:
                    owner = variable(field.element.name)
                    self.struct(owner, field.element)
                    self.flush()
                    self.line(f"{target}.append({owner})")
