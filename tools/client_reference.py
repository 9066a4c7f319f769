"""Writes docs/client.md from the client's docstrings and settings: `python -m tools.client_reference`.

The page is committed, and a test says that it is current.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from barnabas import client
from barnabas.client import errors, settings
from barnabas.client.admin.base import AdminBase
from barnabas.config.setting import Setting
from tools.pages import DOCS, GENERATED, table

PAGE = DOCS / "client.md"
HEADER = f"""# The Python client

{GENERATED}

`barnabas.client` has a producer, a consumer and an admin client for asyncio. They speak Kafka's protocol, to Barnabas
and to Apache Kafka alike. `barnabas.client.synchronous` has the same three for scripts: the same names, settings and
results, called without `await`, iterated with `for` and entered with `with`.

Settings are keyword arguments: Kafka's names, with underscores for dots. A name that no setting has fails with the
closest one that there is; so does a value of the wrong type or out of range, with what is allowed.
"""
CLASSES = ("Producer", "Consumer", "Admin")
_INNER = re.compile(r"Owns .*?(?=Always holds:|\Z)|Does not know:.*", re.DOTALL)  # sentences for who changes the module
TITLES = ("setting", "type", "default", "allowed", "what it does")


def page() -> str:
    parts = [HEADER]
    for name in CLASSES:
        found = getattr(client, name)
        module = import_module(found.__module__)
        parts += [f"## {name}", described(module.__doc__), *methods(found), *own_settings(name)]
    parts += ["## Settings of all clients", *table(TITLES, map(setting_row, settings.ClientConfig.SETTINGS.values()))]
    parts += ["## Values", *values()]
    parts += [
        "## Errors",
        described(errors.__doc__),
        *table(("error", "is a", "when"), map(error_row, error_classes())),
    ]
    return "\n".join(parts)


def described(text: str | None) -> str:
    """A module's docstring for who does not read the module: examples are marked as such."""
    lines: list[str] = []
    for block in re.split(r"\n\n", inspect.cleandoc(text or "")):
        if block.startswith("    "):
            lines += ["```python", textwrap.dedent(block), "```", ""]
        else:
            lines += [_INNER.sub("", block).strip(), ""]
    return "\n".join(lines)


def methods(found: type[Any]) -> Iterator[str]:
    for node in definitions(found):
        awaited = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
        if any(ast.unparse(each) == "asynccontextmanager" for each in node.decorator_list):
            awaited = "async with "
        is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
        arguments = "" if is_property else f"({parameters(node)})"
        returned = "" if node.returns is None else f" → {ast.unparse(unquoted(node.returns))}"
        yield f"**`{awaited}{node.name}{arguments}{'' if returned == ' → None' else returned}`**  "
        yield f"{' '.join((ast.get_docstring(node) or '').split())}\n"


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """All but `self`."""
    node.args.args = node.args.args[1:]
    for each in (*node.args.args, *node.args.kwonlyargs):
        each.annotation = each.annotation and unquoted(each.annotation)
    return ast.unparse(node.args)


def unquoted(annotation: ast.expr) -> ast.expr:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def definitions(found: type[Any]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Public methods, of what is most basic first, each in the order of its source."""
    seen: set[str] = set()
    for each in reversed(found.__mro__[:-1]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(each)))
        assert isinstance(tree.body[0], ast.ClassDef)
        for node in tree.body[0].body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_for_users(each, node.name):
                if node.name not in seen:
                    yield node
                seen.add(node.name)


def is_for_users(found: type[Any], name: str) -> bool:
    """What the parts of the admin client share is for them; what is only declared is described where it is done."""
    if getattr(getattr(found, name), "__isabstractmethod__", False):
        return False
    if found is AdminBase:
        return name in ("start", "close")
    return not name.startswith(("_", "to_"))


def own_settings(name: str) -> list[str]:
    config = getattr(settings, f"{name}Config")
    shared = settings.ClientConfig.SETTINGS
    own = [setting for setting_name, setting in config.SETTINGS.items() if setting != shared.get(setting_name)]
    if not own:
        return []
    return [f"### Settings of the {name.lower()}", *table(TITLES, map(setting_row, own))]


def setting_row(setting: Setting) -> tuple[str, ...]:
    default = setting.encode(setting.default)
    return (
        f"`{setting.attribute}`",
        setting.type.name.lower(),
        "none" if default is None else f"`{default}`" if default else "empty",
        "" if setting.allowed is None else setting.allowed.words,
        setting.help,
    )


def values() -> Iterator[str]:
    for name in sorted(set(dir(client)) - {*CLASSES, "errors"}):
        found = getattr(client, name)
        fields = [each for each in fields_of(found) if not each.startswith("_")]
        told = f": {', '.join(f'`{each}`' for each in fields)}" if fields else ""
        yield f"- **`{name}`**{told}. {' '.join((inspect.getdoc(found) or '').split())}"
    yield ""


def fields_of(found: type[Any]) -> Iterable[str]:
    for name in ("_fields", "__dataclass_fields__", "__slots__"):
        fields: Iterable[str] = getattr(found, name, ())
        if fields:
            return fields
    return ()


def error_classes() -> list[type[Exception]]:
    return [found for found in vars(errors).values() if isinstance(found, type) and found.__module__ == errors.__name__]


def error_row(found: type[Exception]) -> tuple[str, ...]:
    return f"`{found.__name__}`", f"`{found.__bases__[0].__name__}`", " ".join((inspect.getdoc(found) or "").split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} written\n")
