"""Reads the definitions: text in, a checked `Definition` out.

The grammar is described, with an example, in `src/barnabas/protocol/definitions/README.md`.

Always holds for what is returned: the versions of a field lie within those of the structure that holds it, every
structure that is named exists, and a tag is used once in a structure.
Does not know: Python code, bytes, files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
FIXED_SIZES = {"?": 1, "b": 1, "B": 1, "x": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}
VARIABLE_TYPES = ("string", "bytes", "records")
INDENT = 4


class GrammarError(Exception):
    """A definition that cannot be read; the message says where and why."""


class Versions(NamedTuple):
    """Both ends included, as Kafka writes them."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def within(self, other: Versions) -> bool:
        return other.first <= self.first and self.last <= other.last

    def all(self) -> range:
        return range(self.first, self.last + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    type: str  # a primitive, or the name of a structure
    array: bool
    versions: Versions
    nullable: Versions | None  # None: in no version
    tag: int | None
    default: str | None  # as written; None: the type's own
    ignorable: bool
    never_compact: bool

    def nullable_in(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable

    @property
    def is_struct(self) -> bool:
        return self.type not in FIXED_FORMATS and self.type not in VARIABLE_TYPES


@dataclass(slots=True, kw_only=True)
class Struct:
    name: str
    versions: Versions
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Message:
    """One request, response, header, record or other message, with the structures that it uses."""

    name: str
    kind: str
    key: int | None
    versions: Versions
    flexible_from: int | None
    root: Struct
    structs: dict[str, Struct] = field(default_factory=dict)

    def flexible_in(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


@dataclass(slots=True, kw_only=True)
class Definition:
    """One file. `api_key` is None where the file is not about an API."""

    module: str
    api_name: str | None = None
    api_key: int | None = None
    listeners: tuple[str, ...] = ()
    latest_version_unstable: bool = False
    messages: list[Message] = field(default_factory=list)


class Line(NamedTuple):
    number: int
    depth: int
    words: list[str]


def parse(module: str, text: str) -> Definition:
    definition = Definition(module=module)
    parser = _Parser(definition, _lines(module, text))
    try:
        parser.parse()
    except (GrammarError, ValueError, IndexError) as error:
        raise GrammarError(f"{module}:{parser.line_number}: {error}") from error
    for message in definition.messages:
        _check(module, message)
    return definition


def _lines(module: str, text: str) -> list[Line]:
    lines = []
    for number, raw in enumerate(text.split("\n"), 1):
        content = raw.split("#", 1)[0].rstrip()
        if not content:
            continue
        spaces = len(content) - len(content.lstrip(" "))
        if spaces % INDENT:
            raise GrammarError(f"{module}:{number}: indentation is {INDENT} spaces a level")
        lines.append(Line(number, spaces // INDENT, content.split()))
    return lines


class _Parser:
    def __init__(self, definition: Definition, lines: list[Line]) -> None:
        self.definition = definition
        self.lines = lines
        self.position = 0  # of the next line to be read
        self.line_number = 0  # of the line being read, for errors

    def parse(self) -> None:
        while self.position < len(self.lines):
            line = self.take()
            if line.depth != 0:
                raise GrammarError("a field outside of any message")
            match line.words:
                case ["api", key, name, *rest]:
                    self.definition.api_key, self.definition.api_name = int(key), name
                    self.definition.latest_version_unstable = rest == ["unstable"]
                case ["listeners", *names]:
                    self.definition.listeners = tuple(names)
                case ["removed"]:
                    pass
                case words:
                    message = self.opening(words)
                    self.definition.messages.append(message)
                    self.body(message, message.root, 1)

    def take(self) -> Line:
        line = self.lines[self.position]
        self.position += 1
        self.line_number = line.number
        return line

    def depth_ahead(self) -> int:
        return self.lines[self.position].depth if self.position < len(self.lines) else 0

    def opening(self, words: list[str]) -> Message:
        """`request VERSIONS`, `response VERSIONS` or `KIND NAME VERSIONS [type N]`; each may end in `flexible N+`."""
        kind = words[0]
        if kind in ("request", "response"):
            if self.definition.api_name is None:
                raise GrammarError("a request or response needs an api line before it")
            name, key, rest = self.definition.api_name + kind.capitalize(), self.definition.api_key, words[1:]
        elif kind in ("header", "metadata", "key", "value", "data"):
            name, key, rest = words[1], None, words[2:]
        else:
            raise GrammarError(f"unknown word {kind!r}")
        versions, flexible_from = parse_versions(rest.pop(0), None), None
        while rest:
            option, value = rest.pop(0), rest.pop(0)
            if option == "flexible":
                flexible_from = parse_versions(value, versions).first
            elif option == "type":
                key = int(value)
            else:
                raise GrammarError(f"unknown option {option!r}")
        root = Struct(name=name, versions=versions)
        return Message(name=name, kind=kind, key=key, versions=versions, flexible_from=flexible_from, root=root)

    def body(self, message: Message, owner: Struct, depth: int) -> None:
        """Reads the fields of `owner`, which are those at `depth`, with everything below them."""
        while self.depth_ahead() >= depth:
            line = self.take()
            if line.depth > depth:
                raise GrammarError("indented deeper than the line before allows")
            if line.words[0] == "struct":
                struct = Struct(name=line.words[1], versions=message.versions)
            else:
                added = parse_field(line.words, owner.versions)
                owner.fields.append(added)
                struct = Struct(name=added.type, versions=added.versions)
            if self.depth_ahead() > depth:
                if struct.name in message.structs or struct.name in FIXED_FORMATS or struct.name in VARIABLE_TYPES:
                    raise GrammarError(f"{struct.name} is defined twice")
                message.structs[struct.name] = struct
                self.body(message, struct, depth + 1)


def parse_versions(text: str, within: Versions | None) -> Versions:
    if text.endswith("+"):
        if within is None:
            raise GrammarError(f"{text}: an open end has no meaning here")
        return Versions(int(text[:-1]), within.last)
    first, dash, last = text.partition("-")
    return Versions(int(first), int(last if dash else first))


def parse_field(words: list[str], within: Versions) -> Field:
    """`NAME TYPE [VERSIONS] [nullable VERSIONS] [tag N] [= DEFAULT] [ignorable] [never-compact]`."""
    name, type_text, *rest = words
    always_nullable = type_text.endswith("?")
    type_text = type_text.removesuffix("?")
    array = type_text.startswith("[")
    if array:
        type_text = type_text[1:-1]
    versions = within
    if rest and rest[0][0].isdigit():
        versions = parse_versions(rest.pop(0), within)
    nullable = versions if always_nullable else None
    tag, default, ignorable, never_compact = None, None, False, False
    while rest:
        word = rest.pop(0)
        if word == "nullable":
            nullable = parse_versions(rest.pop(0), versions)
        elif word == "tag":
            tag = int(rest.pop(0))
        elif word == "=":
            default = rest.pop(0)
        elif word == "ignorable":
            ignorable = True
        elif word == "never-compact":
            never_compact = True
        else:
            raise GrammarError(f"field {name}: unknown word {word!r}")
    return Field(
        name=name,
        type=type_text,
        array=array,
        versions=versions,
        nullable=nullable,
        tag=tag,
        default=default,
        ignorable=ignorable,
        never_compact=never_compact,
    )


def _check(module: str, message: Message) -> None:
    for struct in (message.root, *message.structs.values()):
        where = f"{module}: {message.name}: {struct.name}"
        tags = [each.tag for each in struct.fields if each.tag is not None]
        names = [each.name for each in struct.fields]
        if len(tags) != len(set(tags)) or len(names) != len(set(names)):
            raise GrammarError(f"{where}: a name or a tag is used twice")
        for each in struct.fields:
            if not each.versions.within(struct.versions):
                raise GrammarError(f"{where}.{each.name}: versions beyond those of {struct.name}")
            if each.nullable is not None and not each.nullable.within(each.versions):
                raise GrammarError(f"{where}.{each.name}: nullable in versions that do not have it")
            if each.tag is not None and not message.flexible_in(each.versions.first):
                raise GrammarError(f"{where}.{each.name}: tagged in a version that is not flexible")
            if each.is_struct and each.type not in message.structs:
                raise GrammarError(f"{where}.{each.name}: no structure named {each.type}")
