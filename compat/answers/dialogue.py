"""One broker asked, and its answers written down so that those of two brokers can be compared.

Always holds: what no two brokers share (random ids, producer ids, ports, times, the words of error messages) is taken
out or numbered in the order of its appearance, so that equal behaviour gives equal lines.
Does not know: which broker answers, nor what is asked (`answer_cases.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import group_wire
import transaction_wire
from broker_process import wait_until
from wire import Closed, Wire, create_topic, leaders

from barnabas.errors import ErrorCode
from barnabas.protocol.message import Structure

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SHORT_UUID = re.compile(r"^[0-9A-Za-z_-]{22}$")
DROPPED = {"error_message", "throttle_time_ms", "host", "port", "documentation", "cluster_id"}
NUMBERED = {"producer_id", "transaction_start_time_ms", "last_timestamp", "topic_id", "log_dir"}
ANSWER_SECONDS_MAX = 30.0


class Dialogue:
    """A case asks through this; `lines` is what it heard."""

    def __init__(self, address: str, run: str) -> None:
        self.address = address
        self.run = run  # makes names unlike those of other runs against the same broker
        self.lines: list[str] = []
        self._numbers: dict[object, str] = {}
        self._wire: Wire | None = None

    @property
    def wire(self) -> Wire:
        """For requests whose answers are not compared."""
        if self._wire is None:
            self._wire = Wire(self.address, wait_seconds=ANSWER_SECONDS_MAX)
        return self._wire

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    # What a case needs before it asks

    def name(self, word: str) -> str:
        return f"{word}-{self.run}"

    def topic(self, word: str = "topic", partitions: int = 1, **config: str) -> str:
        """A new topic that has its leaders."""
        name = self.name(word)
        create_topic(self.wire, name, partitions, **config)
        wait_until(lambda: len(leaders(self.wire, name)) == partitions, f"{name} has its leaders")
        return name

    def group(self, word: str = "group") -> str:
        name = self.name(word)
        group_wire.await_coordinator(self.wire, name)
        return name

    def transactional_id(self, word: str = "transaction") -> str:
        name = self.name(word)
        transaction_wire.await_coordinator(self.wire, name)
        return name

    # Asking

    def note(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def ask(self, request: Any, version: int) -> Any:
        """The response, which is written down; None where the broker closed the connection instead."""
        return self._heard(type(request).__name__, lambda: self.wire.call(request, version))

    def answer_to(self, frame: bytes, api_key: int, version: int) -> Any:
        """The response to a frame made by hand."""
        self.wire.send_bytes(frame)
        return self.wire.receive(api_key, version)[1]

    def expect(self, what: str, value: object) -> None:
        self.lines.append(f"{what}: {self._shown('', value)}")

    def seconds(self, what: str, call: Callable[[], Any], limit: float) -> Any:
        """What the call gives; written down is only whether it took less than `limit` seconds."""
        began = time.monotonic()
        given = call()
        self.lines.append(f"{what}: {'within' if time.monotonic() - began < limit else 'after'} {limit} s")
        return given

    def _heard(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            response = call()
        except Closed:
            self.lines.append(f"{what} -> connection closed")
            self.close()
            return None
        except TimeoutError:
            self.lines.append(f"{what} -> no answer within {ANSWER_SECONDS_MAX:g} s")
            self.close()
            return None
        self.lines.append(f"{what} -> {self._shown('', response)}")
        return response

    # Writing down

    def _shown(self, name: str, value: Any) -> str:
        if isinstance(value, Structure):
            fields = [(each, getattr(value, each)) for each in value.__slots__ if each not in DROPPED]
            return "{" + ", ".join(f"{each}={self._shown(each, given)}" for each, given in fields) + "}"
        if isinstance(value, list | tuple):
            return "[" + ", ".join(self._shown(name, each) for each in value) + "]"
        if name.startswith("error_code") or isinstance(value, ErrorCode):
            return ErrorCode(value).name
        if name in NUMBERED and value not in (-1, b"\0" * 16, "", None):
            return self._numbered(name, bytes(value) if isinstance(value, memoryview) else value)
        if isinstance(value, str):
            if SHORT_UUID.match(value):
                return self._numbered("uuid", value)
            return repr(UUID.sub(lambda found: self._numbered("uuid", found[0]), value.replace(self.run, "RUN")))
        if isinstance(value, bytes | bytearray | memoryview):
            return repr(bytes(value)) if len(value) <= 64 else f"<{len(value)} bytes>"
        return repr(value)

    def _numbered(self, name: str, value: object) -> str:
        return self._numbers.setdefault((name, value), f"<{name} {len(self._numbers) + 1}>")
