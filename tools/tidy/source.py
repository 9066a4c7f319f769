"""Python files as the checks see them: a name, a path and a syntax tree.

Complaints are lines of the form `path:line: what is wrong`, so that an editor can jump to them.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent.parent
SOURCE = REPOSITORY / "src"
GENERATED = "barnabas.protocol.messages"


class Module(NamedTuple):
    name: str  # barnabas.log.segment
    path: str
    text: str
    tree: ast.Module

    @property
    def is_generated(self) -> bool:
        return self.name.startswith(f"{GENERATED}.")

    def complaint(self, line: int, words: str) -> str:
        return f"{self.path}:{line}: {words}"


class Import(NamedTuple):
    """One thing that a module imports, at whatever place in it."""

    name: str  # barnabas.log.segment, or barnabas.log.segment.Segment
    line: int


def module(name: str, text: str, path: str | None = None) -> Module:
    return Module(name, path or f"{name.replace('.', '/')}.py", text, ast.parse(text))


@cache
def modules_under(directory: Path, root: Path) -> list[Module]:
    """All Python files below, named from `root` on; of a generated one, only what it imports."""
    return [_read(path, root) for path in sorted(directory.rglob("*.py")) if "__pycache__" not in path.parts]


def _read(path: Path, root: Path) -> Module:
    parts = path.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    if name.startswith(f"{GENERATED}."):
        text = text.partition("\nclass ")[0]
    return module(name, text, str(path.relative_to(REPOSITORY)))


def imports(found: Module) -> Iterator[Import]:
    for node in ast.walk(found.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            for alias in node.names:
                yield Import(f"{node.module}.{alias.name}", node.lineno)
