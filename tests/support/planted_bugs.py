"""In which seeds to look for a bug that was planted."""

from collections.abc import Callable, Iterator
from itertools import chain, count

from barnabas.simulation.character import Character, chance_of


def seeds_to_try(known: int, wanted: Callable[[Character], bool], nodes: int) -> Iterator[int]:
    """First one that found it soon when it was written down, then all of the wanted kind.

    A change of the source gives each seed another course, and the known one may miss the bug from then on: the others
    find it as well, and take several times as long.
    """
    return chain([known], (seed for seed in count() if wanted(Character.drawn(chance_of(seed), nodes))))
