"""A compiled expression: matches whole names, one look at each character.

States of the automaton are sets of instructions, made when they are first met and kept for the next name, as RE2 does.

Always holds: a step costs at most the size of the program, and a known step costs one lookup. At most STATES_MAX
states are kept; then all are forgotten and made anew.
"""

from __future__ import annotations

from barnabas.groups.regular_expressions.classes import WORD
from barnabas.groups.regular_expressions.nodes import Boundary
from barnabas.groups.regular_expressions.program import MATCHED, Check, Fork, Program, Take

STATES_MAX = 1_000


class State:
    __slots__ = ("accepts", "before", "following", "instructions")

    def __init__(self, instructions: tuple[int, ...], before: str) -> None:
        self.instructions = instructions  # where the automaton stands, ascending; empty: no match any more
        self.before = before  # what was before, as far as it matters: "" nothing, else "a", "-" or a newline
        self.following: dict[str, State] = {}  # by the next character
        self.accepts: bool | None = None  # whether the name may end here; None: not asked yet


class Automaton:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._states: dict[tuple[tuple[int, ...], str], State] = {}
        boundaries = {each.boundary for each in program.instructions if isinstance(each, Check)}
        self._looks_at_words = not boundaries.isdisjoint((Boundary.WORD, Boundary.NOT_WORD))
        self._looks_at_lines = Boundary.BEGIN_OF_LINE in boundaries
        self.start = State((program.start,), "")
        self.work = 0  # instructions looked at so far

    def matches(self, name: str) -> bool:
        state = self.start
        for character in name:
            state = state.following.get(character) or self.advance(state, character)
            if not state.instructions:
                return False
        return self.accepts(state)

    def advance(self, state: State, character: str) -> State:
        """The state after one more character."""
        found = state.following.get(character)
        if found is not None:
            return found
        instructions = self._program.instructions
        targets = set()
        for number in self._closure(state, character):
            instruction = instructions[number]
            if isinstance(instruction, Take) and instruction.characters.has(character):
                targets.add(instruction.target)
        before = "a" if self._looks_at_words and character in WORD else "-"
        if self._looks_at_lines and character == "\n":
            before = "\n"
        key = (tuple(sorted(targets)), before)
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= STATES_MAX:
                self._forget()
            found = self._states[key] = State(*key)
        state.following[character] = found
        return found

    def accepts(self, state: State) -> bool:
        if state.accepts is None:
            state.accepts = MATCHED in self._closure(state, "")
        return state.accepts

    def _forget(self) -> None:
        self._states.clear()
        self.start.following.clear()

    def _closure(self, state: State, after: str) -> list[int]:
        """All instructions that are reached without taking a character."""
        instructions = self._program.instructions
        reached = dict.fromkeys(state.instructions)
        waiting = list(state.instructions)
        while waiting:
            number = waiting.pop()
            if number == MATCHED:
                continue
            instruction = instructions[number]
            match instruction:
                case Fork():
                    targets = instruction.targets
                case Check() if _holds(instruction.boundary, state.before, after):
                    targets = (instruction.target,)
                case _:
                    continue
            for target in targets:
                if target not in reached:
                    reached[target] = None
                    waiting.append(target)
        self.work += len(reached)
        return list(reached)


def _holds(boundary: Boundary, before: str, after: str) -> bool:
    """`before` and `after` are the characters at both sides, empty where there is none."""
    match boundary:
        case Boundary.BEGIN:
            return not before
        case Boundary.END:
            return not after
        case Boundary.BEGIN_OF_LINE:
            return before in ("", "\n")
        case Boundary.END_OF_LINE:
            return after in ("", "\n")
        case Boundary.WORD:
            return (before in WORD) != (after in WORD)
        case Boundary.NOT_WORD:
            return (before in WORD) == (after in WORD)
