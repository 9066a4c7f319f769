"""Writes the encode function of one layout: flat, with everything inline but the rare cases.

A run of fixed-width fields is one `pack`. Sizes before the flexible versions have a fixed width, and an empty section
of tagged fields is a zero byte, so both belong to runs too.
"""

from __future__ import annotations

from dataclasses import replace

from tools.protocol_generator.code import INT32_COUNT_READY, Code, struct_name
from tools.protocol_generator.grammar import FIXED_FORMATS
from tools.protocol_generator.layout import FieldLayout, StructLayout, scalar
from tools.protocol_generator.names import differs_from_default, null_by_default, variable


class EncodeWriter(Code):
    def __init__(self) -> None:
        super().__init__()
        self.out = "out"  # the buffer being written: that of a tagged field while inside of one
        self.tag_depth = 0

    def function(self, name: str, layout: StructLayout) -> list[str]:
        with self.block(f"def {name}(message: {layout.name}, out: bytearray) -> None:"):
            before = len(self.lines)
            self.struct("message", layout)
            self.flush()
            if len(self.lines) == before:
                self.line("return")
        return self.lines

    # Runs

    def flush(self) -> None:
        text, values, size = self.take_pending()
        if text == "x":
            self.line(f"{self.out}.append(0)")
        elif text and not values:
            self.line(f"{self.out} += bytes({size})")
        elif text:
            self.line(f"{self.out} += {struct_name('pack', text)}({', '.join(values)})")

    def varint(self, value: str) -> None:
        """Writes `value`, a simple expression, as an unsigned varint."""
        self.flush()
        with self.block(f"if {value} < 128:"):
            self.line(f"{self.out}.append({value})")
        with self.block("else:"):
            self.line(f"write_uvarint({self.out}, {value})")

    # Structures

    def struct(self, owner: str, layout: StructLayout) -> None:
        for field in layout.absent:
            if not field.field.ignorable:
                with self.block(f"if {differs_from_default(field.field, f'{owner}.{field.field.name}')}:"):
                    self.line(f'raise UnsupportedVersionError("no field {field.field.name}, but it is set")')
        for field in layout.untagged:
            self.value(f"{owner}.{field.field.name}", field)
        if layout.flexible:
            self.tags(owner, layout.tagged)

    def tags(self, owner: str, tagged: list[FieldLayout]) -> None:
        if not tagged:
            self.pending.append(("x", ""))
            return
        self.flush()
        conditions = [differs_from_default(each.field, f"{owner}.{each.field.name}") for each in tagged]
        if len(tagged) == 1:
            with self.block(f"if {conditions[0]}:"):
                self.line(f"{self.out}.append(1)")
                self.tagged_value(f"{owner}.{tagged[0].field.name}", tagged[0])
        else:
            with self.block(f"if {' or '.join(f'({each})' if ' and ' in each else each for each in conditions)}:"):
                self.line(f"write_uvarint({self.out}, {' + '.join(f'bool({each})' for each in conditions)})")
                for field, condition in zip(tagged, conditions, strict=True):
                    with self.block(f"if {condition}:"):
                        self.tagged_value(f"{owner}.{field.field.name}", field)
        with self.block("else:"):
            self.line(f"{self.out}.append(0)")

    def tagged_value(self, target: str, field: FieldLayout) -> None:
        outer, self.out = self.out, f"tagged_{self.tag_depth}" if self.tag_depth else "tagged"
        self.tag_depth += 1
        self.line(f"{self.out} = bytearray()")
        if field.element is not None and not field.field.array:
            if field.nullable:
                with self.block(f"if {target} is None:"):
                    self.line(f"{self.out}.append(0)")
                with self.block("else:"):
                    self.line(f"{self.out}.append(1)")
                    self.nested(target, field.element)
                    self.flush()
            else:
                self.nested(target, field.element)
        elif null_by_default(field.field):  # it is written only where it is not null
            self.value(target, field._replace(field=replace(field.field, nullable=None, default=None), nullable=False))
        else:
            self.value(target, field)
        self.flush()
        self.line(f"write_tagged({outer}, {field.field.tag}, {self.out})")
        self.tag_depth -= 1
        self.out = outer

    # Values

    def value(self, target: str, field: FieldLayout) -> None:
        if field.field.array:
            self.array(target, field)
        elif field.element is not None:
            self.nested_or_null(target, field, field.element)
        elif field.field.type == "records":
            self.flush()
            function = "write_compact_records" if field.compact else "write_records"
            self.line(f"{function}({self.out}, {target}, {field.nullable})")
        elif field.field.type in FIXED_FORMATS:
            self.fixed(target, field)
        else:
            self.variable_size(target, field)

    def fixed(self, target: str, field: FieldLayout) -> None:
        if field.field.type == "uuid":  # struct would pad or cut it without a word
            with self.block(f"if len({target}) != 16:"):
                self.line(f'raise EncodeError("{field.field.name}: a uuid has 16 bytes")')
        self.pending.append((FIXED_FORMATS[field.field.type], target))

    def nested_or_null(self, target: str, field: FieldLayout, element: StructLayout) -> None:
        if not field.nullable:
            self.refuse_null(target, field)
            self.nested(target, element)
            return
        self.flush()
        with self.block(f"if {target} is None:"):
            self.line(f"{self.out}.append(255)")
        with self.block("else:"):
            self.line(f"{self.out}.append(1)")
            self.nested(target, element)
            self.flush()

    def nested(self, target: str, element: StructLayout) -> None:
        owner = variable(element.name)
        self.line(f"{owner} = {target}")
        self.struct(owner, element)

    def refuse_null(self, target: str, field: FieldLayout) -> None:
        if field.field.nullable is not None or field.field.default == "null":
            with self.block(f"if {target} is None:"):
                self.line(f'raise EncodeError("{field.field.name}: null")')

    def variable_size(self, target: str, field: FieldLayout) -> None:
        """A string or bytes."""
        text = field.field.type == "string"
        encoded = f"{target}.encode()" if text else target
        if field.compact:
            self.flush()
            if field.nullable:
                with self.block(f"if {target} is None:"):
                    self.line(f"{self.out}.append(0)")
                self.line("else:")
                self.depth += 1
            else:
                self.refuse_null(target, field)
            self.compact_data(encoded, text)
            if field.nullable:
                self.depth -= 1
            return
        if field.nullable:
            self.line(f'data = b"" if {target} is None else {encoded}')
            self.pending.append(("h" if text else "i", f"-1 if {target} is None else len(data)"))
        else:
            self.refuse_null(target, field)
            self.line(f"data = {encoded}")
            self.pending.append(("h" if text else "i", "len(data)"))
        self.flush()
        self.line(f"{self.out} += data")

    def compact_data(self, encoded: str, text: bool) -> None:
        self.line(f"data = {encoded}")
        self.line("size = len(data)")
        with self.block("if size < 127:"):
            self.line(f"{self.out}.append(size + 1)")
        with self.block("else:"):
            self.line(f"write_string_size({self.out}, size)" if text else f"write_uvarint({self.out}, size + 1)")
        self.line(f"{self.out} += data")

    def array(self, target: str, field: FieldLayout) -> None:
        if not field.nullable:
            self.refuse_null(target, field)
        if field.compact:
            if field.nullable:
                self.flush()
                with self.block(f"if {target} is None:"):
                    self.line(f"{self.out}.append(0)")
                self.line("else:")
                self.depth += 1
            self.line(f"count = len({target})")
            self.flush()
            with self.block("if count < 127:"):
                self.line(f"{self.out}.append(count + 1)")
            with self.block("else:"):
                self.line(f"write_uvarint({self.out}, count + 1)")
            self.elements(target, field, "count")
            if field.nullable:
                self.depth -= 1
            return
        length = f"len({target})"
        self.pending.append(("i", f"-1 if {target} is None else {length}" if field.nullable else length))
        self.flush()
        if field.nullable:
            with self.block(f"if {target}:"):
                self.elements(target, field, length)
        else:
            self.elements(target, field, length)

    def elements(self, target: str, field: FieldLayout, count: str) -> None:
        kind = field.field.type
        if kind == "uuid":
            with self.block(f"for data in {target}:"):
                with self.block("if len(data) != 16:"):
                    self.line(f'raise EncodeError("{field.field.name}: a uuid has 16 bytes")')
                self.line(f"{self.out} += data")
        elif kind in FIXED_FORMATS:
            values = f'pack(f">{{{count}}}{FIXED_FORMATS[kind]}", *{target})'
            if kind == "int32":
                values = f"PACK_INT32[{count}](*{target}) if {count} < {INT32_COUNT_READY} else {values}"
            self.line(f"{self.out} += {values}")
        elif field.element is None:
            with self.block(f"for element in {target}:"):
                self.variable_size("element", scalar(field))
                self.flush()
        else:
            owner = variable(field.element.name)
            with self.block(f"for {owner} in {target}:"):
                before = len(self.lines)
                self.struct(owner, field.element)
                self.flush()
                if len(self.lines) == before:
                    self.line("pass")
