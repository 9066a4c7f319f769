"""A regular expression as a tree. Groups are gone: nothing here ever asks what a group has matched."""

from collections.abc import Sequence
from enum import Enum

from barnabas.groups.regular_expressions.character_sets import CharacterSet

# A tree may not be higher: what walks it does so by recursion. The number is far above any pattern that people write.
HEIGHT_MAX = 250
# Instructions of the whole program. `.{0,1000}`, the largest repetition that RE2 has, takes half of it.
SIZE_MAX = 4_000


class InvalidExpression(Exception):
    """The pattern is not one of RE2's, or asks for more than an automaton may cost here."""


class Boundary(Enum):
    """What holds between two characters, without taking any."""

    BEGIN = "begin of the name"
    END = "end of the name"
    BEGIN_OF_LINE = "begin of a line"
    END_OF_LINE = "end of a line"
    WORD = "word boundary"
    NOT_WORD = "no word boundary"


class Node:
    """`size` is the number of instructions that the node will need, known before any is made."""

    __slots__ = ("height", "size")

    def __init__(self, size: int, height: int) -> None:
        if size > SIZE_MAX:
            raise InvalidExpression("the expression is too large")
        if height > HEIGHT_MAX:
            raise InvalidExpression("the expression nests too deep")
        self.size = size
        self.height = height


class Characters(Node):
    """One character of a set, which may be empty: then it never matches."""

    __slots__ = ("characters",)

    def __init__(self, characters: CharacterSet) -> None:
        super().__init__(1, 1)
        self.characters = characters


class Assertion(Node):
    __slots__ = ("boundary",)

    def __init__(self, boundary: Boundary) -> None:
        super().__init__(1, 1)
        self.boundary = boundary


class Concatenation(Node):
    """One after another; of nothing: the empty text."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Node]) -> None:
        super().__init__(sum(part.size for part in parts), 1 + max((part.height for part in parts), default=0))
        self.parts = parts


class Choice(Node):
    __slots__ = ("options",)

    def __init__(self, options: Sequence[Node]) -> None:
        assert len(options) > 1
        super().__init__(sum(option.size + 1 for option in options) - 1, 1 + max(option.height for option in options))
        self.options = options


class Repeat(Node):
    """Greedy or not is the same here: either the whole name matches or it does not."""

    __slots__ = ("least", "most", "part")

    def __init__(self, part: Node, least: int, most: int | None) -> None:
        copies = least + 1 if most is None else most
        super().__init__(max(part.size, 1) * max(copies, 1) + copies + 1, part.height + 1)
        self.part = part
        self.least = least
        self.most = most  # None: as often as you like
