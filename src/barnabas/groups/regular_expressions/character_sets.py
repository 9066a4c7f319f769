"""Sets of characters, of all of Unicode: topic names are ASCII, transactional ids may hold anything.

Always holds: membership costs a few lookups, however large the class in the pattern was. Of ASCII a set knows each
character; of the rest it knows ranges and kinds (categories and scripts).
Differs from RE2: Python's tables hold no scripts, so a character beyond ASCII is of the script that its Unicode name
begins with.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.groups.regular_expressions import classes

Range = tuple[str, str]  # first and last, both included
_LAST_OF_ASCII = "\x7f"


class Kind(NamedTuple):
    """A category or script by RE2's name for it, or its complement."""

    name: str
    fold_case: bool
    negated: bool

    def has(self, character: str) -> bool:
        cases = other_cases(character) if self.fold_case else (character,)
        return any(classes.is_of_kind(each, self.name) for each in cases) != self.negated


class CharacterSet(NamedTuple):
    ascii: frozenset[str]
    ranges: tuple[Range, ...] = ()  # ascending, apart from each other
    folded: tuple[Range, ...] = ()  # likewise; a character belongs to them if another case of it does
    kinds: frozenset[Kind] = frozenset()
    negated: bool = False  # of what is beyond ASCII

    def has(self, character: str) -> bool:
        if character <= _LAST_OF_ASCII:
            return character in self.ascii
        return self._is_named(character) != self.negated

    def _is_named(self, character: str) -> bool:
        return (
            _is_within(character, self.ranges)
            or (bool(self.folded) and any(_is_within(each, self.folded) for each in other_cases(character)))
            or any(kind.has(character) for kind in self.kinds)
        )


EVERYTHING = CharacterSet(classes.CHARACTERS, kinds=frozenset({Kind("Any", False, False)}))
ALL_BUT_NEWLINE = EVERYTHING._replace(ascii=classes.CHARACTERS - {"\n"})


def between(first: str, last: str, *, fold_case: bool) -> CharacterSet:
    """The characters from first to last, both included."""
    of_ascii = classes.between(first, last, fold_case)
    if fold_case:
        return CharacterSet(of_ascii, folded=((first, last),))
    return CharacterSet(of_ascii, ranges=((first, last),) if last > _LAST_OF_ASCII else ())


def named(of_ascii: frozenset[str], kind: str | None, *, fold_case: bool, negated: bool) -> CharacterSet:
    """A class by its name; `kind` is None where all its characters are ASCII."""
    folded = classes.both_cases(of_ascii) if fold_case else of_ascii
    shown = classes.complement(folded) if negated else folded
    if kind is not None:
        return CharacterSet(shown, kinds=frozenset({Kind(kind, fold_case, negated)}))
    if negated:
        return CharacterSet(shown, kinds=EVERYTHING.kinds)
    return CharacterSet(shown, folded=_merged((each, each) for each in folded) if fold_case else ())


def union(parts: Iterable[CharacterSet], *, negated: bool) -> CharacterSet:
    """Of parts that are not negated themselves, as those of a bracket."""
    found = list(parts)
    of_ascii = frozenset().union(*(part.ascii for part in found))
    return CharacterSet(
        classes.complement(of_ascii) if negated else of_ascii,
        _merged(each for part in found for each in part.ranges),
        _merged(each for part in found for each in part.folded),
        frozenset(kind for part in found for kind in part.kinds),
        negated,
    )


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _is_within(character: str, ranges: tuple[Range, ...]) -> bool:
    place = bisect_right(ranges, character, key=lambda each: each[0]) - 1
    return place >= 0 and character <= ranges[place][1]


def other_cases(character: str) -> tuple[str, ...]:
    """The character and all that differ from it in case alone."""
    larger = classes.LARGER_ORBITS.get(character)
    if larger is not None:
        return tuple(larger)
    cases = (character, character.lower(), character.upper())
    return tuple(each for each in dict.fromkeys(cases) if len(each) == 1)
