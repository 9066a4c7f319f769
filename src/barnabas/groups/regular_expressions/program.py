"""From the tree to instructions, those of Thompson's automaton.

Take(characters, target)    one character of the set, then on to target
Fork(targets)               on to all of them at once
Check(boundary, target)     on to target if that holds here
MATCHED                     instruction 0: the end
"""

from typing import NamedTuple

from barnabas.groups.regular_expressions.character_sets import CharacterSet
from barnabas.groups.regular_expressions.nodes import (
    SIZE_MAX,
    Assertion,
    Boundary,
    Characters,
    Choice,
    Concatenation,
    Node,
    Repeat,
)

MATCHED = 0


class Take(NamedTuple):
    characters: CharacterSet
    target: int


class Fork(NamedTuple):
    targets: tuple[int, ...]


class Check(NamedTuple):
    boundary: Boundary
    target: int


Instruction = Take | Fork | Check


class Program(NamedTuple):
    instructions: list[Instruction]  # the first of them stands for MATCHED and is never looked at
    start: int


def build(tree: Node) -> Program:
    instructions: list[Instruction] = [Fork(())]
    start = _build(tree, MATCHED, instructions)
    assert len(instructions) <= 2 * SIZE_MAX
    return Program(instructions, start)


def _build(node: Node, target: int, instructions: list[Instruction]) -> int:
    """Where to begin so that after the node comes `target`."""
    match node:
        case Characters():
            return _add(Take(node.characters, target), instructions)
        case Assertion():
            return _add(Check(node.boundary, target), instructions)
        case Concatenation():
            for part in reversed(node.parts):
                target = _build(part, target, instructions)
            return target
        case Choice():
            return _add(Fork(tuple(_build(option, target, instructions) for option in node.options)), instructions)
        case Repeat():
            return _repeat(node, target, instructions)
        case _:
            raise AssertionError(f"{type(node).__name__} is no node")


def _repeat(node: Repeat, target: int, instructions: list[Instruction]) -> int:
    if node.most is None:
        loop = _add(Fork(()), instructions)
        instructions[loop] = Fork((_build(node.part, loop, instructions), target))
        entry = loop
    else:
        entry = target
        for _ in range(node.most - node.least):
            entry = _add(Fork((_build(node.part, entry, instructions), target)), instructions)
    for _ in range(node.least):
        entry = _build(node.part, entry, instructions)
    return entry


def _add(instruction: Instruction, instructions: list[Instruction]) -> int:
    instructions.append(instruction)
    return len(instructions) - 1
