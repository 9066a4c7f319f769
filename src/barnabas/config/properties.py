"""From the text of a properties file, or of options, to a BrokerConfig, with each complaint at its line.

The notation is Java's: `#` and `!` begin comments; a key ends at `=`, `:` or white space; a line that ends with a
backslash goes on in the next; `\\t`, `\\n`, `\\r`, `\\f` and `\\uXXXX` are escapes, any other escaped character is
itself.
Does not know: files. Whoever calls has read them.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.config.broker import OLDER_NAMES, BrokerConfig
from barnabas.config.validation import ConfigError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WHITE = " \t\f"


class Given(NamedTuple):
    """One setting, and where it was given."""

    name: str
    text: str
    where: str  # «server.properties, line 12», or «--config»


class Loaded(NamedTuple):
    config: BrokerConfig
    warnings: list[str]  # settings that have no effect, and settings given twice


def read_file(text: str, origin: str) -> list[Given]:
    """The settings in the text of a properties file, in their order. ConfigError at a malformed escape."""
    given: list[Given] = []
    for line, content in _logical_lines(text):
        where = f"{origin}, line {line}"
        end = _end_of_key(content)
        rest = content[end:].lstrip(_WHITE)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_WHITE)
        given.append(Given(_unescaped(content[:end], where), _unescaped(rest, where), where))
    return given


def read_option(option: str, where: str = "--config") -> Given:
    """A setting given as `name=value`."""
    name, equals, text = option.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{where}: {option!r} must have the form name=value")
    return Given(name.strip(), text, where)


def load(given: Iterable[Given], *, lenient: bool = False) -> Loaded:
    """The config that these settings make; of two with one name the last counts.

    `unknown.judge` decides about names that are no settings here; `lenient` is for it.
    ConfigError lists everything that is wrong, one complaint a line.
    """
    chosen: dict[str, Given] = {}
    warnings: list[str] = []
    errors: list[str] = []
    for each in given:
        name = OLDER_NAMES.get(each.name, each.name)
        setting = BrokerConfig.SETTINGS.get(name)
        if setting is None:
            from barnabas.config.unknown import judge  # here, to keep starting quick

            verdict = judge(each.name, each.text, lenient=lenient)
            (errors if verdict.is_refused else warnings).append(f"{each.where}: {each.name} {verdict.words}")
            continue
        try:
            setting.decode(each.text)
        except ConfigError as error:
            errors.append(f"{each.where}: {error}")
        earlier = chosen.get(name)
        if earlier is not None:
            warnings.append(f"{each.where}: {each.name} was given before, in {earlier.where}; the last one counts")
        chosen[name] = each
    if errors:
        raise ConfigError("\n".join(errors))
    try:
        return Loaded(BrokerConfig({name: each.text for name, each in chosen.items()}), warnings)
    except ConfigError as error:
        name = str(error).partition(":")[0]
        where = f"{chosen[name].where}: " if name in chosen else ""
        raise ConfigError(f"{where}{error}") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line that says something, joined with those it goes on in, and the number at which it begins."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    number = 0
    while number < len(lines):
        first = number
        content = lines[number].lstrip(_WHITE)
        number += 1
        if not content or content[0] in "#!":
            continue
        while _goes_on(content):
            content = content[:-1]
            if number == len(lines):
                break
            content += lines[number].lstrip(_WHITE)
            number += 1
        yield first + 1, content


def _goes_on(content: str) -> bool:
    return (len(content) - len(content.rstrip("\\"))) % 2 == 1


def _end_of_key(content: str) -> int:
    position = 0
    while position < len(content):
        if content[position] in "=:" + _WHITE:
            return position
        position += 2 if content[position] == "\\" else 1
    return len(content)


def _unescaped(text: str, where: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            parts.append(character)
        elif text[position : position + 1] == "u":
            digits = text[position + 1 : position + 5]
            try:
                parts.append(chr(int(digits, 16)) if len(digits) == 4 else "")
            except ValueError:
                digits = ""
            if len(digits) != 4:
                raise ConfigError(f"{where}: \\u must be followed by four hexadecimal digits")
            position += 5
        else:
            parts.append(_ESCAPES.get(text[position : position + 1], text[position : position + 1]))
            position += 1
    return "".join(parts)
