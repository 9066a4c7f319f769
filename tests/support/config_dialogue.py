"""Speaks about configs with a broker in a small script language, and writes the answers down.

A script has one command a line and below it, indented, the answer. The scripts under tests/scripts/configs were
recorded from Apache Kafka 4.3.1; `python tests/support/config_dialogue.py HOST:PORT SCRIPT…` prints what another
broker answers, and with `--rewrite` records it. Kafka's brokers see a change some time after it is answered, hence
`--settle`. The encoding is kio's, which nobody here wrote.

Commands, with resources written as topic:NAME, broker:ID, logger:ID, metrics:NAME, group:NAME or NUMBER:NAME:
    create TOPIC name=value…               CreateTopics
    alter [validate] RESOURCE +name=value  IncrementalAlterConfigs: = sets, -name deletes, name+=v appends, name-=v
                                           subtracts, name=null is a null; a ; separates resources
    replace [validate] RESOURCE name=…     AlterConfigs
    describe RESOURCE name…                DescribeConfigs with synonyms
    list TYPE…                             ListConfigResources
"""

from __future__ import annotations

import argparse
import io
import itertools
import shlex
import socket
import struct
import time
from importlib import import_module
from pathlib import Path
from typing import Any

TYPES = {"topic": 2, "broker": 4, "logger": 8, "metrics": 16, "group": 32}
SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "CLIENT_METRICS_CONFIG",
    8: "GROUP_CONFIG",
}
NOT_IN_KAFKA = ("record.validation", "log.record.validation")  # left out where everything is described
VALUE_TYPES = ["UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
SECONDS_MAX = 120.0


class Dialogue:
    """One connection to a broker, and the commands of the script language."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)
        self.correlation_ids = itertools.count(1)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Dialogue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Any) -> Any:
        from kio.serial import entity_reader, entity_writer
        from kio.static.primitive import i16, i32

        correlation_id = next(self.correlation_ids)
        header = type(request).__header_schema__
        out = io.BytesIO()
        entity_writer(header)(
            out,
            header(
                request_api_key=i16(request.__api_key__),
                request_api_version=i16(request.__version__),
                correlation_id=i32(correlation_id),
                client_id="dialogue",
            ),
        )
        entity_writer(type(request))(out, request)
        frame = out.getvalue()
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = self._receive(size)
        module = import_module(type(request).__module__.replace(".request", ".response"))
        response = getattr(module, type(request).__name__.replace("Request", "Response"))
        header_answer, position = entity_reader(response.__header_schema__)(answer, 0)
        assert header_answer.correlation_id == correlation_id
        return entity_reader(response)(answer, position)[0]

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self.socket.recv(size - len(received))
            if not part:
                raise ConnectionError("the broker closed the connection")
            received += part
        return bytes(received)

    def run(self, line: str) -> list[str]:
        """The lines of the answer."""
        command, *words = shlex.split(line)
        return {
            "create": self.create,
            "alter": self.alter,
            "replace": self.replace,
            "describe": self.describe,
            "list": self.list,
        }[command](words)

    def create(self, words: list[str]) -> list[str]:
        from kio.schema.create_topics.v7 import request as schema
        from kio.static.primitive import i16, i32

        configs = tuple(
            schema.CreatableTopicConfig(name=name, value=_value(value))
            for name, _, value in (word.partition("=") for word in words[1:])
        )
        topic = schema.CreatableTopic(
            name=words[0], num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=configs
        )
        answer = self.ask(schema.CreateTopicsRequest(topics=(topic,)))
        (result,) = answer.topics
        set_somewhere = [each for each in result.configs or () if SOURCES[each.config_source] != "DEFAULT_CONFIG"]
        set_somewhere.sort(key=lambda each: each.name)
        return [_error(result), *(f"{each.name}={each.value} {SOURCES[each.config_source]}" for each in set_somewhere)]

    def alter(self, words: list[str]) -> list[str]:
        from kio.schema.incremental_alter_configs.v1 import request as schema
        from kio.static.primitive import i8

        def config(word: str) -> Any:
            operation = 0
            if word[0] == "-" and "=" not in word:
                return schema.AlterableConfig(name=word[1:], config_operation=i8(1), value=None)
            name, _, value = word.partition("=")
            if name[-1] in "+-?":
                operation = {"+": 2, "-": 3, "?": 9}[name[-1]]
                name = name[:-1]
            return schema.AlterableConfig(name=name, config_operation=i8(operation), value=_value(value))

        validate, groups = _groups(words)
        resources = tuple(
            schema.AlterConfigsResource(
                resource_type=i8(_type(group[0])),
                resource_name=group[0].partition(":")[2],
                configs=tuple(config(word) for word in group[1:]),
            )
            for group in groups
        )
        answer = self.ask(schema.IncrementalAlterConfigsRequest(resources=resources, validate_only=validate))
        return [_error(each) for each in answer.responses]

    def replace(self, words: list[str]) -> list[str]:
        from kio.schema.alter_configs.v2 import request as schema
        from kio.static.primitive import i8

        validate, groups = _groups(words)
        resources = tuple(
            schema.AlterConfigsResource(
                resource_type=i8(_type(group[0])),
                resource_name=group[0].partition(":")[2],
                configs=tuple(
                    schema.AlterableConfig(name=name, value=_value(value))
                    for name, _, value in (word.partition("=") for word in group[1:])
                ),
            )
            for group in groups
        )
        answer = self.ask(schema.AlterConfigsRequest(resources=resources, validate_only=validate))
        return [_error(each) for each in answer.responses]

    def describe(self, words: list[str]) -> list[str]:
        from kio.schema.describe_configs.v4 import request as schema
        from kio.static.primitive import i8

        resource = schema.DescribeConfigsResource(
            resource_type=i8(_type(words[0])),
            resource_name=words[0].partition(":")[2],
            configuration_keys=tuple(words[1:]) or None,
        )
        answer = self.ask(
            schema.DescribeConfigsRequest(resources=(resource,), include_synonyms=True, include_documentation=True)
        )
        (result,) = answer.results
        lines = [_error(result)] if result.error_code else []
        for entry in sorted(result.configs, key=lambda each: each.name):
            if entry.name in NOT_IN_KAFKA and entry.name not in words:
                continue
            facts = [VALUE_TYPES[entry.config_type], SOURCES[entry.config_source]]
            facts += ["read-only"] if entry.read_only else []
            facts += ["sensitive"] if entry.is_sensitive else []
            facts += [] if entry.documentation else ["undocumented"]
            lines.append(f"{entry.name}={entry.value} {' '.join(facts)}")
            lines += [f"    {each.name}={each.value} {SOURCES[each.source]}" for each in entry.synonyms]
        return lines or ["nothing"]

    def list(self, words: list[str]) -> list[str]:
        from kio.schema.list_config_resources.v1 import request as schema
        from kio.static.primitive import i8

        types = tuple(i8(int(word) if word.isdigit() else TYPES[word]) for word in words)
        answer = self.ask(schema.ListConfigResourcesRequest(resource_types=types))
        found = sorted(f"{each.resource_type}:{each.resource_name}" for each in answer.config_resources)
        return [_error(answer), *found]


def _groups(words: list[str]) -> tuple[bool, list[list[str]]]:
    validate = words[0] == "validate"
    groups: list[list[str]] = [[]]
    for word in words[1:] if validate else words:
        if word == ";":
            groups.append([])
        else:
            groups[-1].append(word)
    return validate, groups


def _type(resource: str) -> int:
    name = resource.partition(":")[0]
    return int(name) if name.isdigit() else TYPES[name]


def _value(text: str) -> str | None:
    return None if text == "null" else text


def _error(result: Any) -> str:
    name: str = result.error_code.name.upper()
    return name


def commands_and_answers(text: str) -> list[tuple[str, list[str]]]:
    """A script taken apart. Lines that begin with # and blank lines belong to nobody."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("    "):
            found[-1][1].append(line[4:])
        else:
            found.append((line, []))
    return found


def played(text: str, dialogue: Dialogue, settle: float = 0.0) -> str:
    """The script with the answers of this broker in the place of those written down.

    After a command that may change something, `settle` seconds pass."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("    "):
            continue
        lines.append(line)
        if line.strip() and not line.startswith("#"):
            lines += [f"    {answer}" for answer in dialogue.run(line)]
            if settle and not line.startswith(("describe", "list")):
                time.sleep(settle)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Speak about configs with a broker.")
    parser.add_argument("address", help="host:port")
    parser.add_argument("scripts", nargs="+", type=Path)
    parser.add_argument("--rewrite", action="store_true", help="record the answers in the scripts")
    parser.add_argument("--settle", type=float, default=0.0, help="seconds to wait after each change")
    arguments = parser.parse_args()
    for script in arguments.scripts:
        with Dialogue(arguments.address) as dialogue:
            text = played(script.read_text(), dialogue, arguments.settle)
        if arguments.rewrite:
            script.write_text(text)
        else:
            print(text)


if __name__ == "__main__":
    main()
