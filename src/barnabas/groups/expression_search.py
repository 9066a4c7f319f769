"""The search for topics that regular expressions match, in slices, so that it never stops the broker for long.

Always holds: a slice costs about `WORK_PER_SLICE` steps, whatever the expressions; those that an attacker made cost
many slices, and others are served between them.
"""

from collections.abc import Iterable, Iterator, Sequence

from barnabas.groups.regular_expressions import InvalidExpression, compile_expression

WORK_PER_SLICE = 20_000  # characters and instructions looked at: some milliseconds


class ExpressionSearch:
    """`found` holds the matches by expression, whole once `run` has returned True."""

    def __init__(self, expressions: Iterable[str], names: Iterable[str], version: int) -> None:
        self.version = version  # of the metadata that is searched
        self.found: dict[str, set[str]] = {expression: set() for expression in expressions}
        self._slices = self._search(list(names))

    def run(self) -> bool:
        """One slice. Whether it was the last one."""
        return next(self._slices, True)

    def _search(self, names: Sequence[str]) -> Iterator[bool]:
        spent = 0
        for expression, matches in self.found.items():
            try:
                automaton = compile_expression(expression)
            except InvalidExpression:
                continue  # accepted by another broker, once: it matches nothing here
            for name in names:
                state = automaton.start
                for character in name:
                    work_before = automaton.work
                    state = automaton.advance(state, character)
                    spent += 1 + automaton.work - work_before
                    if spent >= WORK_PER_SLICE:
                        spent = 0
                        yield False
                    if not state.instructions:
                        break
                else:
                    if automaton.accepts(state):
                        matches.add(name)
