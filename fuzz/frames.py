"""Sends damaged requests to a live broker on this machine and sees that it goes on serving.

After every few cases, and at the end, a fresh connection asks for ApiVersions and must be answered. A finding is a
broker that does not answer, an answer with the wrong correlation id, or one that is no whole frame.
The broker should have nothing in it to lose: some requests are sound, and create or delete topics.
"""

import ipaddress
import random
import socket
import struct
import sys
from contextlib import suppress

from harness import arguments, mutated, run
from values import TOPIC, random_request

from barnabas.protocol.framing import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

API_VERSIONS = 18
CREATE_TOPICS = 19
ANSWER_WAIT_SECONDS = 0.05  # long enough for most answers; a long poll is simply left
ALIVE_WAIT_SECONDS = 10.0  # a sound request for a topic of a thousand partitions keeps a broker busy for seconds
CASES_BETWEEN_CHECKS = 20
ANSWER_BYTES_MAX = 100 << 20


class BrokerDown(Exception):
    """The finding: somebody's garbage took the broker away from others."""


class Fuzzer:
    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.connection: socket.socket | None = None
        self.correlation_id = 0
        self.cases = 0
        self.apis = self.check_alive()  # key, first and last version of all that the broker serves
        self.create_topic()

    def connect(self, timeout: float) -> socket.socket:
        connection = socket.create_connection(self.address, timeout)
        connection.settimeout(timeout)
        return connection

    def check_alive(self) -> list[tuple[int, int, int]]:
        out = bytearray()
        encode_request_header(out, API_VERSIONS, 0, 4711, "fuzz")
        ApiVersionsRequest().encode(out, 0)
        try:
            with self.connect(ALIVE_WAIT_SECONDS) as connection:
                connection.sendall(struct.pack(">i", len(out)) + out)
                answer = receive_frame(connection)
        except OSError as problem:
            raise BrokerDown(f"no answer to ApiVersions: {problem!r}") from problem
        if answer is None:
            raise BrokerDown("the connection was closed on a sound ApiVersions")
        assert answer[:4] == struct.pack(">i", 4711)
        response, _ = ApiVersionsResponse.decode(memoryview(answer), 4, 0)
        assert response.error_code == 0
        return [(api.api_key, api.min_version, api.max_version) for api in response.api_keys]

    def create_topic(self) -> None:
        versions = {key: last for key, _, last in self.apis}
        out = bytearray()
        version = min(versions[CREATE_TOPICS], 7)
        encode_request_header(out, CREATE_TOPICS, version, 1, "fuzz")
        topic = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)
        CreateTopicsRequest(topics=[topic], timeout_ms=10_000).encode(out, version)
        with self.connect(ALIVE_WAIT_SECONDS) as connection:
            connection.sendall(struct.pack(">i", len(out)) + out)
            receive_frame(connection)

    def case(self, chance: random.Random) -> str:
        self.cases += 1
        if self.cases % CASES_BETWEEN_CHECKS == 0:
            self.check_alive()
        frame, correlation_id = self.frame(chance)
        if self.connection is None:
            try:
                self.connection = self.connect(ANSWER_WAIT_SECONDS)
            except OSError as problem:
                raise BrokerDown(f"cannot connect: {problem!r}") from problem
        outcome = self.exchange(self.connection, frame, correlation_id)
        if outcome != "answered":
            self.disconnect()
        return outcome

    def frame(self, chance: random.Random) -> tuple[bytes, int | None]:
        """Bytes to send, and the correlation id that an answer must have, if it is still sure."""
        if chance.random() < 0.02:
            return chance.randbytes(chance.randint(1, 200)), None
        self.correlation_id += 1
        key, first, last = chance.choice(self.apis)
        version = chance.randint(first, last)
        header = bytearray()
        encode_request_header(header, key, version, self.correlation_id, chance.choice((None, "", "fuzz")))
        body = random_request(key, version, chance)
        kind = chance.random()
        if kind < 0.2:
            request = bytes(header) + body
        elif kind < 0.8:
            request = bytes(header) + mutated(body, chance)
        else:
            request = mutated(bytes(header) + body, chance)
        size = len(request)
        if chance.random() < 0.05:
            size = chance.choice((0, -1, size - 1, size + 1, 2**31 - 1, -(2**31), 100_000_000))
        sure = kind < 0.8 and size == len(request)
        return struct.pack(">i", size) + request, self.correlation_id if sure else None

    def exchange(self, connection: socket.socket, frame: bytes, correlation_id: int | None) -> str:
        try:
            connection.sendall(frame)
            answer = receive_frame(connection)
        except TimeoutError:
            return "unanswered for now"
        except ConnectionError:
            return "closed"
        if answer is None:
            return "closed"
        if correlation_id is not None:
            assert answer[:4] == struct.pack(">i", correlation_id), "an answer to something else"
        return "answered"

    def disconnect(self) -> None:
        if self.connection is not None:
            with suppress(OSError):
                self.connection.close()
            self.connection = None


def receive_frame(connection: socket.socket) -> bytes | None:
    """None where the peer closes before a frame begins; an assertion where it closes within one."""
    head = receive(connection, 4)
    if head is None:
        return None
    (size,) = struct.unpack(">i", head)
    assert 4 <= size <= ANSWER_BYTES_MAX, f"an answer of {size} bytes"
    answer = receive(connection, size)
    assert answer is not None, "the broker closed within an answer"
    return answer


def receive(connection: socket.socket, size: int) -> bytes | None:
    out = bytearray()
    while len(out) < size:
        part = connection.recv(size - len(out))
        if not part:
            return None
        out += part
    return bytes(out)


def loopback(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    numbers = {entry[4][0] for entry in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)}
    if not all(ipaddress.ip_address(number).is_loopback for number in numbers):
        sys.exit(f"{host} is not this machine: fuzz only a broker of your own, over loopback")
    return host.strip("[]"), int(port)


def main() -> None:
    options = arguments(__doc__.splitlines()[0], target=True)
    fuzzer = Fuzzer(loopback(options.address))
    run(fuzzer.case, options, slow_case_seconds=ALIVE_WAIT_SECONDS)
    fuzzer.disconnect()
    fuzzer.check_alive()
    print("the broker still answers")


if __name__ == "__main__":
    main()
