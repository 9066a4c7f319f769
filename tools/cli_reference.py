"""Writes docs/cli.md from the commands themselves: `python -m tools.cli_reference`.

The page is committed, and a test says that it is current.
"""

import sys
from pathlib import Path
from typing import Any

from barnabas.cli.app import command
from barnabas.cli.main import COMMANDS, SECTIONS
from barnabas.cli.text import Exit

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEADER = """# The command line

*Written by `make generate` from the commands in the code; a test says that it is current.*

`barnabas COMMAND`, and for most things `barnabas NOUN VERB`. `up` and `broker` come with `pip install barnabas`; the
others need `pip install 'barnabas[cli]'`. All of them work with Apache Kafka as well, but for those that start brokers
and read files.

- **Brokers** are named by `--bootstrap-server`, or by the variable `BARNABAS_BOOTSTRAP`; else it is `localhost:9092`.
- **How to speak to them**, for instance by which security protocol: `--command-config FILE`, with properties of the
  client by Kafka's names. What an option says counts for more than the file; the file may name the brokers too.
- **For machines**: `--json` prints one document, or one object a line where records are printed, in a shape that
  stays: names may be added, none is taken away. An error is then `{"error": {"code": ..., "message": ...}}` on
  standard error, and what failed among several things is listed under `failed`.
- **In a pipe** nothing is coloured or cut, and lists of topics and groups are names alone.
- **Completion** of commands, options, topics and groups: `barnabas --install-completion`.
"""


def page() -> str:
    lines = [HEADER, "## Exit codes", "| code | meaning |", "|---|---|"]
    lines += [f"| {int(each)} | {_cell(each.meaning)} |" for each in Exit]
    for title, names in SECTIONS.items():
        lines += ["", f"## {title[0].upper()}{title[1:]}"]
        for name in names:
            lines += _described(f"barnabas {name}", command(name), COMMANDS[name])
    return "\n".join(lines) + "\n"


def _described(path: str, found: Any, summary: str) -> list[str]:
    verbs = getattr(found, "commands", None)
    if verbs is None:
        return _verb(path, found, "###")
    lines = ["", f"### `{path}`", f"{found.help or summary}"]
    for name, each in verbs.items():
        lines += _verb(f"{path} {name}", each, "####")
    return lines


def _verb(path: str, found: Any, level: str) -> list[str]:
    arguments = [each for each in found.params if each.param_type_name == "argument"]
    options = [each for each in found.params if each.param_type_name == "option" and not each.hidden]
    words = " ".join(_argument(each) for each in arguments)
    lines = ["", f"{level} `{' '.join(part for part in (path, words, '[OPTIONS]') if part)}`"]
    lines += [" ".join(part.split()) for part in (found.help or "").split("\n\n")]
    rows = [(f"`{each.metavar or each.name}`", each.help or "", "") for each in arguments]
    rows += [(_option(each), each.help or "", _default(each)) for each in options]
    if rows:
        lines += ["", "| | | default |", "|---|---|---|"]
        lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    if found.epilog:
        lines += ["", "```", *found.epilog.splitlines(), "```"]
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _argument(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).strip("[]")
    text = f"{name}..." if parameter.nargs != 1 else name
    return text if parameter.required else f"[{text}]"


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(parameter.opts, key=len, reverse=True))
    return names if parameter.is_flag else f"{names} `{parameter.metavar or parameter.name.upper()}`"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return f"`{parameter.show_default}`"
    if parameter.is_flag or parameter.default is None or parameter.show_default is False:
        return ""
    return f"`{parameter.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} written\n")
