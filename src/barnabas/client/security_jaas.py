"""`sasl.jaas.config` as Java's clients have it: one login module, a flag, and options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

Always holds: words about what is wrong never repeat the text, for it has a password. Does not know: what a module does.
"""

import re
from typing import Final

_VALUE: Final = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s=;"']+"""
_MODULE: Final = re.compile(
    rf"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)((?:\s+[\w.-]+\s*=\s*(?:{_VALUE}))*)\s*;\s*",
    re.IGNORECASE | re.DOTALL,
)
_OPTION: Final = re.compile(rf"([\w.-]+)\s*=\s*({_VALUE})", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b"}


def parse(text: str) -> tuple[str, dict[str, str]]:
    """The class of the module without its package, and the options. ValueError with words where it is no such text."""
    found = _MODULE.fullmatch(text)
    if found is None:
        raise ValueError(
            "it must have the form org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="…" password="…"; with the semicolon, and only one module'
        )
    module, options = found.groups()
    return module.rpartition(".")[2], {name: _plain(value) for name, value in _OPTION.findall(options)}


def _plain(value: str) -> str:
    if value[0] not in "\"'":
        return value
    return _ESCAPE.sub(lambda each: _ESCAPES.get(each[1], each[1]), value[1:-1])
