"""`python -m tools.protocol_generator` writes the modules; `--check` only says which are stale, and fails if any is."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.protocol_generator.grammar import Definition, parse
from tools.protocol_generator.module import render
from tools.protocol_generator.table import render_table

PROTOCOL = Path(__file__).resolve().parents[2] / "src" / "barnabas" / "protocol"
PACKAGE = '"""Generated from `definitions/`; nothing here is edited by hand, and nothing imports all of it."""\n'


def read_definitions() -> list[Definition]:
    return [parse(path.stem, path.read_text()) for path in sorted((PROTOCOL / "definitions").glob("*.def"))]


def generate(definitions: list[Definition]) -> dict[str, str]:
    """File names in `messages/` with their text."""
    files = {f"{each.module}.py": render(each) for each in definitions if each.messages}
    files["__init__.py"] = PACKAGE
    files["_table.py"] = render_table(definitions)
    return files


def stale(files: dict[str, str]) -> list[str]:
    """Names of files that differ from what the definitions give, are missing, or should not be there."""
    folder = PROTOCOL / "messages"
    found = {path.name: path.read_text() for path in folder.glob("*.py")}
    return sorted(name for name in found.keys() | files.keys() if found.get(name) != files.get(name))


def main(arguments: list[str]) -> int:
    files = generate(read_definitions())
    changed = stale(files)
    if arguments == ["--check"]:
        for name in changed:
            print(f"stale: messages/{name}; run `make generate`", file=sys.stderr)
        return 1 if changed else 0
    folder = PROTOCOL / "messages"
    folder.mkdir(exist_ok=True)
    for name in changed:
        if name in files:
            (folder / name).write_text(files[name])
        else:
            (folder / name).unlink()
    print(f"{len(files)} modules, {len(changed)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
