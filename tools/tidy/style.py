"""Lengths, headers and habits of single files."""

import ast
import re
from collections.abc import Iterable

from tools.tidy.source import Module

FUNCTION_LINES_MAX = 60  # one screen
FILE_LINES_MAX = 600
HEADER_LINES_MAX = 15  # longer ones are documentation, and go stale in code
_MARKERS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")


def long_functions(modules: Iterable[Module]) -> list[str]:
    return [
        module.complaint(node.lineno, f"{node.name} has {length} lines; at most {FUNCTION_LINES_MAX}")
        for module in modules
        if not module.is_generated
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def long_files(modules: Iterable[Module]) -> list[str]:
    return [
        module.complaint(1, f"the file has {length} lines; at most {FILE_LINES_MAX}")
        for module in modules
        if not module.is_generated and (length := len(module.text.splitlines())) > FILE_LINES_MAX
    ]


def missing_headers(modules: Iterable[Module]) -> list[str]:
    """Every module opens with what it owns."""
    complaints: list[str] = []
    for module in modules:
        header = ast.get_docstring(module.tree, clean=False)
        if not header or not header.strip():
            complaints.append(module.complaint(1, "the module has no docstring"))
        elif len(header.splitlines()) > HEADER_LINES_MAX:
            complaints.append(module.complaint(1, f"the docstring is longer than {HEADER_LINES_MAX} lines"))
    return complaints


def markers(modules: Iterable[Module]) -> list[str]:
    """Notes to self. What is left to do belongs to an issue."""
    return [
        module.complaint(number, "a note of something left to do")
        for module in modules
        for number, line in enumerate(module.text.splitlines(), start=1)
        if _MARKERS.search(line)
    ]


def swallowed_errors(modules: Iterable[Module]) -> list[str]:
    """`except` that catches everything and does nothing."""
    return [
        module.complaint(node.lineno, "an error is swallowed")
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node) and _does_nothing(node.body)
    ]


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    return caught is None or (isinstance(caught, ast.Name) and caught.id in ("Exception", "BaseException"))


def _does_nothing(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in body
    )
