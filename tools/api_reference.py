"""Writes docs/apis.md from the table of handlers and what their modules say: `python -m tools.api_reference`.

The page is committed, and a test says that it is current.
"""

import ast
import re
import sys

from barnabas.protocol.apis import ApiKey, advertised_versions, api
from barnabas.server.context import ListenerKind
from barnabas.server.dispatch import FORWARDED, HANDLERS, served_on
from tools.pages import DOCS, GENERATED, table
from tools.tidy.source import SOURCE

PAGE = DOCS / "apis.md"
HEADER = f"""# APIs

{GENERATED}

Which requests of Kafka's protocol a broker answers, and at which versions: all that Apache Kafka 4.3 has for each. A
client learns the same from ApiVersions. *Controllers* are served on the listeners of `controller.listener.names`,
*clients*, and brokers among themselves, on all others. What only the active controller may do can be asked of any
broker, who passes it on.
"""
DIFFERS = "Differs from Kafka: "
NOTES = {
    ApiKey.PRODUCE: "0 to 2 are named for librdkafka's sake, and refused, as in Kafka 4",
}


def page() -> str:
    return "\n".join(
        [
            HEADER,
            *table(("key", "API", "versions", "served to", "remarks"), map(_row, sorted(HANDLERS))),
            "## Known differences",
            *(f"- **{_name(key)}**: {words}" for key in sorted(HANDLERS) if (words := _difference(key))),
            "",
            "## Not served",
            "Kafka 4.3 has these too: "
            + ", ".join(f"{_name(key)} ({int(key)})" for key in ApiKey if key not in HANDLERS and not api(key).removed)
            + ".\n",
        ]
    )


def _row(key: ApiKey) -> tuple[str, ...]:
    first, last = advertised_versions(key)
    listeners = {"clients": ListenerKind.BROKERS, "controllers": ListenerKind.CONTROLLERS}
    remarks = ["by the active controller"] if key in FORWARDED else []
    remarks += [NOTES[key]] if key in NOTES else []
    return (
        str(int(key)),
        _name(key),
        str(first) if first == last else f"{first} to {last}",
        ", ".join(words for words, listener in listeners.items() if key in served_on(listener)),
        "; ".join(remarks),
    )


def _name(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in api(key).name.split("_"))


def _difference(key: ApiKey) -> str:
    """The sentences that its module has for it, to the end of their paragraph."""
    source = SOURCE / "barnabas" / "server" / "handlers" / f"{HANDLERS[key]}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    _before, found, rest = text.partition(DIFFERS)
    words = re.sub(r"\s+", " ", rest.partition("\n\n")[0]).strip() if found else ""
    return words[:1].upper() + words[1:]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} written\n")
