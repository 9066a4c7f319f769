"""From a pattern in RE2's syntax to a tree.

    flags      (?i) (?s:…) (?-m) (?U)      groups   (…) (?:…) (?P<name>…) (?<name>…)
    repeats    * + ? {2} {2,} {2,5}, each with ? behind it; none upon another
    classes    . [a-z] [^…] [[:alpha:]] \\d \\w \\s \\pL \\p{Greek} \\P{…}
    escapes    \\n … \\x41 \\x{41} \\101 \\Q…\\E       boundaries  ^ $ \\A \\z \\b \\B

Always holds: what RE2 refuses is refused, with the reason: backreferences, looking around, \\C, \\Z, possessive
repeats. Whether a repeat is greedy, and what a group has caught, makes no difference and leaves no trace.
"""

from string import ascii_letters, digits, hexdigits, octdigits
from typing import NamedTuple, NoReturn

from barnabas.groups.regular_expressions import character_sets, classes
from barnabas.groups.regular_expressions.character_sets import CharacterSet
from barnabas.groups.regular_expressions.nodes import (
    Assertion,
    Boundary,
    Characters,
    Choice,
    Concatenation,
    InvalidExpression,
    Node,
    Repeat,
)

__all__ = ["InvalidExpression", "parse"]

REPEAT_MAX = 1000
_ALPHANUMERIC = frozenset(ascii_letters + digits)
_CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BOUNDARIES = {"A": Boundary.BEGIN, "z": Boundary.END, "b": Boundary.WORD, "B": Boundary.NOT_WORD}
_FLAGS = {"i": "fold_case", "m": "multi_line", "s": "dot_all", "U": None}
_SIMPLE_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(pattern: str) -> Node:
    return _Parser(pattern).parse()


class _Flags(NamedTuple):
    fold_case: bool = False  # i
    multi_line: bool = False  # m: ^ and $ hold at each line
    dot_all: bool = False  # s: the dot takes a newline as well


class _Group:
    """An open parenthesis: the options before the last vertical bar, and the parts since."""

    __slots__ = ("flags", "options", "parts")

    def __init__(self, flags: _Flags) -> None:
        self.flags = flags  # as they were outside
        self.options: list[Node] = []
        self.parts: list[Node] = []

    def close_option(self) -> None:
        self.options.append(self.parts[0] if len(self.parts) == 1 else Concatenation(self.parts))
        self.parts = []

    def close(self) -> Node:
        self.close_option()
        return self.options[0] if len(self.options) == 1 else Choice(self.options)


class _Parser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.flags = _Flags()
        self.open = [_Group(self.flags)]  # the innermost last; the first is the whole pattern
        self.names: set[str] = set()  # of groups
        self.repeated = False  # whether the last thing read was a repeat

    # The text

    @property
    def more(self) -> bool:
        return self.position < len(self.pattern)

    def peek(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def take(self) -> str:
        character = self.pattern[self.position]
        self.position += 1
        return character

    def skip(self, text: str) -> bool:
        """Whether the text comes next; then it is taken."""
        found = self.pattern.startswith(text, self.position)
        if found:
            self.position += len(text)
        return found

    def take_until(self, end: str) -> str | None:
        """The text before `end`, which is taken too. None, and nothing taken, where it does not come."""
        found = self.pattern.find(end, self.position)
        if found < 0:
            return None
        text = self.pattern[self.position : found]
        self.position = found + len(end)
        return text

    def fail(self, reason: str, start: int) -> NoReturn:
        raise InvalidExpression(f"{reason}: {self.pattern[start : self.position]!r}")

    # The tree

    def parse(self) -> Node:
        while self.more:
            repeated, self.repeated = self.repeated, False
            self._element(repeated)
        if len(self.open) > 1:
            raise InvalidExpression("a closing parenthesis is missing")
        return self.open[0].close()

    def _element(self, repeated: bool) -> None:
        start = self.position
        match self.take():
            case "(":
                self._open_group(start)
            case ")":
                self._close_group()
            case "|":
                self.open[-1].close_option()
            case "^":
                self._add(Assertion(Boundary.BEGIN_OF_LINE if self.flags.multi_line else Boundary.BEGIN))
            case "$":
                self._add(Assertion(Boundary.END_OF_LINE if self.flags.multi_line else Boundary.END))
            case ".":
                dot = character_sets.EVERYTHING if self.flags.dot_all else character_sets.ALL_BUT_NEWLINE
                self._add(Characters(dot))
            case "[":
                self._add(Characters(self._bracket(start)))
            case "*" | "+" | "?" as sign:
                self._repeat(start, *_SIMPLE_REPEATS[sign], repeated)
            case "{":
                counts = self._counts(start)
                if counts is None:
                    self._literal("{")
                else:
                    self._repeat(start, *counts, repeated)
            case "\\":
                self._escape(start)
            case character:
                self._literal(character)

    def _add(self, node: Node) -> None:
        self.open[-1].parts.append(node)

    def _literal(self, character: str) -> None:
        self._add(Characters(character_sets.between(character, character, fold_case=self.flags.fold_case)))

    # Groups

    def _open_group(self, start: int) -> None:
        if not self.skip("?"):
            self.open.append(_Group(self.flags))
        elif self.skip("P<") or self.skip("<"):
            name = self.take_until(">")
            if not name or not set(name) <= _ALPHANUMERIC | {"_"}:
                self.fail("a group has no valid name", start)
            if name in self.names:
                self.fail("two groups have one name", start)
            self.names.add(name)
            self.open.append(_Group(self.flags))
        else:
            self._flags(start)

    def _flags(self, start: int) -> None:
        """Whether repeats are greedy (`U`) makes no difference."""
        flags, value, seen, negated = self.flags, True, False, False
        while self.more:
            character = self.take()
            if character in _FLAGS:
                seen = True
                name = _FLAGS[character]
                flags = flags if name is None else flags._replace(**{name: value})
            elif character == "-" and not negated:
                value, seen, negated = False, False, True
            elif character in ":)" and (seen or not negated):
                if character == ":":
                    self.open.append(_Group(self.flags))
                self.flags = flags
                return
            else:
                break
        self.fail("this kind of group is not known", start)

    def _close_group(self) -> None:
        if len(self.open) == 1:
            raise InvalidExpression("a parenthesis is closed that was never opened")
        group = self.open.pop()
        self.flags = group.flags
        self._add(group.close())

    # Repeats

    def _repeat(self, start: int, least: int, most: int | None, repeated: bool) -> None:
        self.skip("?")
        if repeated:
            self.fail("a repeat follows upon another", start)
        parts = self.open[-1].parts
        if not parts:
            self.fail("there is nothing to repeat", start)
        parts[-1] = Repeat(parts[-1], least, most)
        self.repeated = True

    def _counts(self, start: int) -> tuple[int, int | None] | None:
        """Of {2} {2,} {2,5}. None, and only the brace taken, where it is none of these: then it is a plain brace."""
        after_brace = self.position
        text = self.take_until("}")
        least_text, comma, most_text = (text or "").partition(",")
        if not _is_count(least_text) or (most_text and not _is_count(most_text)):
            self.position = after_brace
            return None
        numbers = [int(each) for each in (least_text, most_text) if each]
        if max(numbers) > REPEAT_MAX or numbers[0] > numbers[-1]:
            self.fail("a repeat has no valid size", start)
        return (numbers[0], None) if comma and not most_text else (numbers[0], numbers[-1])

    # Escapes

    def _escape(self, start: int) -> None:
        if self.peek() in _BOUNDARIES and self.more:
            self._add(Assertion(_BOUNDARIES[self.take()]))
        elif self.skip("Q"):
            text = self.take_until("\\E")
            if text is None:
                text, self.position = self.pattern[self.position :], len(self.pattern)
            for character in text:
                self._literal(character)
        else:
            found = self._class_escape(start)
            if found is not None:
                self._add(Characters(found))
            else:
                self._literal(self._character_escape(start))

    def _class_escape(self, start: int) -> CharacterSet | None:
        """What \\d, \\pL and their like stand for. None, and nothing taken, where the escape is of another kind."""
        letter = self.peek()
        if letter and letter in "pP":
            self.take()
            return self._unicode_class(start, negated=letter == "P")
        group = classes.PERL.get(letter.lower())
        if group is None:
            return None
        self.take()
        return self._named(group, None, negated=letter.isupper())

    def _unicode_class(self, start: int, negated: bool) -> CharacterSet:
        name = self.take_until("}") if self.skip("{") else self.take() if self.more else None
        if name is not None and name.startswith("^"):
            name, negated = name[1:], not negated
        group = None if name is None else classes.unicode_class(name)
        if group is None:
            self.fail("there is no such class", start)
        return self._named(group, name, negated=negated)

    def _named(self, group: frozenset[str], kind: str | None, *, negated: bool) -> CharacterSet:
        return character_sets.named(group, kind, fold_case=self.flags.fold_case, negated=negated)

    def _character_escape(self, start: int) -> str:
        if not self.more:
            self.fail("the pattern ends in a backslash", start)
        character = self.take()
        if character in _CONTROL:
            return _CONTROL[character]
        if character == "x":
            return self._hexadecimal(start)
        if character == "0" or (character in octdigits and self.peek() and self.peek() in octdigits):
            text = character
            while len(text) < 3 and self.peek() and self.peek() in octdigits:
                text += self.take()
            return chr(int(text, 8))
        if character in _ALPHANUMERIC:
            self.fail("this escape is not known", start)
        return character

    def _hexadecimal(self, start: int) -> str:
        if self.skip("{"):
            text = self.take_until("}")
        else:
            text = self.pattern[self.position : self.position + 2]
            self.position += len(text)
            text = text if len(text) == 2 else None
        if not text or not set(text) <= set(hexdigits) or int(text, 16) > 0x10FFFF:
            self.fail("this escape is not known", start)
        return chr(int(text, 16))

    # Brackets

    def _bracket(self, start: int) -> CharacterSet:
        negated = self.skip("^")
        found: list[CharacterSet] = []
        first = True
        while first or self.peek() != "]":
            first = False
            found.append(self._bracket_part(start))
        self.take()
        return character_sets.union(found, negated=negated)

    def _bracket_part(self, start: int) -> CharacterSet:
        part_start = self.position
        if self.skip("[:"):
            name = self.take_until(":]")
            if name is not None:
                of_ascii = classes.POSIX.get(name.removeprefix("^"))
                if of_ascii is None:
                    self.fail("there is no such class", part_start)
                return self._named(of_ascii, None, negated=name.startswith("^"))
            self.position = part_start
        if self.skip("\\"):
            group = self._class_escape(part_start)
            if group is not None:
                return group
            self.position = part_start
        low = high = self._bracket_character(start)
        if self.peek() == "-" and not self.pattern.startswith("-]", self.position):
            self.take()
            high = self._bracket_character(start)
            if high < low:
                self.fail("a range ends before it begins", part_start)
        return character_sets.between(low, high, fold_case=self.flags.fold_case)

    def _bracket_character(self, start: int) -> str:
        if not self.more:
            self.fail("a closing bracket is missing", start)
        character_start = self.position
        character = self.take()
        return self._character_escape(character_start) if character == "\\" else character


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
