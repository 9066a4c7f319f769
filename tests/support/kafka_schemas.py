"""Kafka's own message schemas, from wherever this machine has them.

kafka-python's wheel carries those of the client APIs, for a Kafka that may be older or newer than 4.3.1. The jars of
Apache Kafka 4.3.1 carry all of them; kafka_jars fetches them.
"""

import json
import re
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support import kafka_jars

# For programs that live for a second or two.
JAVA = ("java", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_jars.libraries()}/*")
ALL_VERSIONS = 32767
COMMENT = re.compile(r'^\s*//.*$|//[^"\n]*$', re.MULTILINE)

Schema = dict[str, Any]


def kafka_python_schemas() -> dict[str, Schema]:
    spec = find_spec("kafka")  # found, not imported: its import warns, and takes its time
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "protocol" / "schemas" / "resources"
    return {path.stem: _load(path.read_text()) for path in sorted(folder.glob("*.json"))}


def jar_schemas() -> dict[str, Schema]:
    """Empty where the jars are not on this machine."""
    schemas = {}
    for jar in sorted(kafka_jars.libraries().glob(f"kafka-*-{kafka_jars.VERSION}.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                    schema = _load(archive.read(name).decode())
                    schemas[schema["name"]] = schema
    return schemas


def _load(text: str) -> Schema:
    schema: Schema = json.loads(COMMENT.sub("", text))
    return schema


def versions(text: str | None) -> range:
    """Of `3+`, `0-12`, `5`, `none`."""
    if text is None or text == "none":
        return range(0)
    first, dash, last = text.removesuffix("+").partition("-")
    if text.endswith("+"):
        return range(int(first), ALL_VERSIONS + 1)
    return range(int(first), int(last if dash else first) + 1)


def field_versions(field: Schema) -> range:
    return versions(field.get("versions", field.get("taggedVersions")))
