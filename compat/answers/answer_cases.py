"""What is asked. Each function is a case: it asks one broker, and `played` gives the lines that it heard.

A case makes its own topics, groups and ids. It decides nothing by which broker answers, and compares nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from dialogue import Dialogue

CASES: dict[str, Callable[[Dialogue], None]] = {}


def case(function: Callable[[Dialogue], None]) -> Callable[[Dialogue], None]:
    CASES[function.__name__] = function
    return function


def played(name: str, address: str, run: str) -> list[str]:
    """The lines that the broker at this address gives to a case. `run` is part of all names that it makes."""
    dialogue = Dialogue(address, run)
    try:
        CASES[name](dialogue)
    finally:
        dialogue.close()
    return dialogue.lines


import group_cases  # noqa: E402, F401  # these fill CASES
import request_cases  # noqa: E402, F401
import transaction_cases  # noqa: E402, F401
