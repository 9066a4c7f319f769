"""A broker of the simulated network that wants to know who asks, and a client's world beside it.

It serves ApiVersions, SASL and Metadata, and holds clients to Kafka's rules: nothing but SASL before authentication and
during a renewal, and no request after the end of a session. Its SCRAM is written apart from the client's.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from barnabas.errors import ErrorCode
from barnabas.protocol import apis
from barnabas.protocol.apis import ApiKey
from barnabas.protocol.framing import Output, append_response, decode_request_header
from barnabas.protocol.message import DecodeError, Message
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.runtime.frame_reader import FrameBuffers, FrameReader
from barnabas.runtime.interfaces import Runtime, Socket
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.runtime.tls_socket import TlsSocket
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.simulation.network import NetworkProfile, SimulatedNetwork
from barnabas.simulation.runtime import simulated_runtime
from barnabas.simulation.trace import Trace

CERTIFICATES = Path(__file__).resolve().parent.parent / "data" / "tls"
HOST, PORT = "localhost", 9092
WAIT_MS_MAX = 60_000.0  # of virtual time
SERVED = (ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
SASL = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class World:
    """A virtual loop with a network; `run` fails the test where anything complained."""

    def __init__(self, profile: NetworkProfile | None = None) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, now_ms=1_800_000_000_000)
        self.network = SimulatedNetwork(self.loop, Random(7), Trace(self.loop.time), profile or NetworkProfile())
        self.complaints: list[object] = []
        self.loop.set_exception_handler(lambda _loop, context: self.complaints.append(context))

    def runtime(self) -> Runtime:
        return simulated_runtime(
            loop=self.loop,
            clock=self.clock,
            disk=MemoryDisk(now_ms=self.clock.now_ms),
            network=self.network.host("client"),
            random=Random(8),
            sync_ms=lambda: 1.0,
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        end_ms = self.clock.monotonic_ms() + WAIT_MS_MAX
        while not condition():
            assert self.clock.monotonic_ms() < end_ms, "it does not come about"
            await self.clock.sleep(10)

    def run(self, main: Callable[[], Awaitable[None]]) -> None:
        async def scenario() -> None:
            await main()

        self.loop.run(scenario())
        assert self.complaints == []


class Scram:
    """RFC 5802 as the server has it."""

    def __init__(self, mechanism: str, password: str) -> None:
        self.hash_name = HASHES[mechanism]
        self.salted = hashlib.pbkdf2_hmac(self.hash_name, password.encode(), b"a salt", 4096)
        self.said = b""

    def first(self, client_first: bytes) -> bytes:
        self.bare = client_first.removeprefix(b"n,,")
        nonce = self.bare.partition(b",r=")[2]
        self.said = b"r=%s+server,s=%s,i=4096" % (nonce, b64encode(b"a salt"))
        return self.said

    def final(self, client_final: bytes) -> bytes | None:
        """None where the client does not know the password."""
        without_proof, _, proof = client_final.partition(b",p=")
        signed = b",".join((self.bare, self.said, without_proof))
        key = self._mac(self.salted, b"Client Key")
        signature = self._mac(hashlib.new(self.hash_name, key).digest(), signed)
        if bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True)) != key:
            return None
        return b"v=" + b64encode(self._mac(self._mac(self.salted, b"Server Key"), signed))

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self.hash_name).digest()


class ServerTls(TlsSocket):
    """The other end of TLS."""

    def __init__(self, socket: Socket, context: ssl.SSLContext) -> None:
        super().__init__(socket, ssl.create_default_context(), "unused")
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)


def server_context(*, wants_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.pem")
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATES / "authority.pem")
    return context


class SecuredBroker:
    def __init__(
        self,
        world: World,
        *,
        mechanisms: tuple[str, ...] = (),
        passwords: dict[str, str] | None = None,
        lifetime_ms: int = 0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.world = world
        self.mechanisms = mechanisms
        self.passwords = passwords or {}
        self.lifetime_ms = lifetime_ms
        self.context = context
        self.sessions: list[Session] = []
        world.network.host(HOST).listen(HOST, PORT).start(self._accept)

    def _accept(self, socket: Socket) -> None:
        if self.context is None:
            self.sessions.append(Session(self, socket))
        else:
            self.world.loop.create_task(self._secure(ServerTls(socket, self.context)))

    async def _secure(self, socket: ServerTls) -> None:
        try:
            await socket.handshake()
        except OSError:
            socket.close()
        else:
            self.sessions.append(Session(self, socket))


class Session:
    """One connection. `requests` are the names of what was asked on it, in order."""

    def __init__(self, broker: SecuredBroker, socket: Socket) -> None:
        self.requests: list[str] = []
        self.tokens: list[bytes] = []  # what clients said in SaslAuthenticate
        self.closed_by_broker = False
        self.delay_ms = 0.0  # of answers to SaslHandshake
        self._broker = broker
        self._socket = socket
        self._is_authenticated = not broker.mechanisms
        self._ends_ms: float | None = None
        self._mechanism = ""
        self._scram: Scram | None = None
        self._frames = FrameReader(
            socket=socket,
            buffers=FrameBuffers(),
            frame_bytes_max=1 << 20,
            handle=self._handle,
            paused=lambda: self.closed_by_broker,
        )
        socket.on_readable(self._readable)

    def close(self) -> None:
        self.closed_by_broker = True
        self._socket.close()

    def _readable(self) -> None:
        try:
            if not self._frames.receive():
                self._socket.close()
        except BlockingIOError:
            return
        except (OSError, DecodeError):
            self.close()

    def _handle(self, frame: memoryview) -> None:
        header = decode_request_header(frame, 0)
        request, _end = apis.request_class(header.api_key).decode(frame, header.end, header.api_version)
        self.requests.append(ApiKey(header.api_key).name)
        if not self._may(header.api_key):
            self.close()
            return
        response = self._answer(request)
        out = Output()
        append_response(out, response, header.api_key, header.api_version, header.correlation_id)
        delay_ms = self.delay_ms if header.api_key == ApiKey.SASL_HANDSHAKE else 0.0
        self._broker.world.loop.call_later(delay_ms / 1000, lambda: self._socket.send(bytes(out)))

    def _may(self, api_key: int) -> bool:
        if self._ends_ms is not None and self._broker.world.clock.monotonic_ms() >= self._ends_ms:
            return api_key in SASL
        return self._is_authenticated or api_key in (*SASL, ApiKey.API_VERSIONS)

    def _answer(self, request: Message) -> Message:
        match request:
            case SaslHandshakeRequest():
                return self._handshake(request.mechanism)
            case SaslAuthenticateRequest():
                return self._authenticate(bytes(request.auth_bytes))
        if type(request).API_KEY == ApiKey.METADATA:
            return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host=HOST, port=PORT)], controller_id=1)
        served = [
            ApiVersion(api_key=key, min_version=apis.api(key).min_version, max_version=apis.api(key).max_stable_version)
            for key in SERVED
            if self._broker.mechanisms or key not in SASL
        ]
        return ApiVersionsResponse(api_keys=served)

    def _handshake(self, mechanism: str) -> Message:
        self._is_authenticated = False
        self._mechanism = mechanism
        known = mechanism in self._broker.mechanisms
        code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=list(self._broker.mechanisms))

    def _authenticate(self, said: bytes) -> Message:
        self.tokens.append(said)
        answer = self._scrammed(said) if self._mechanism in HASHES else self._checked(said)
        if answer is None:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed"
            )
        if self._is_authenticated and self._broker.lifetime_ms:
            self._ends_ms = self._broker.world.clock.monotonic_ms() + self._broker.lifetime_ms
        lifetime_ms = self._broker.lifetime_ms if self._is_authenticated else 0
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

    def _checked(self, said: bytes) -> bytes | None:
        """PLAIN and OAUTHBEARER."""
        if self._mechanism == "PLAIN":
            _authority, username, password = said.decode().split("\0")
            is_right = self._broker.passwords.get(username) == password
        elif said == b"\x01":
            return None
        else:
            is_right = said == f"n,,\x01auth=Bearer {self._broker.passwords['token']}\x01\x01".encode()
            if not is_right:
                return b'{"status":"invalid_token"}'
        self._is_authenticated = is_right
        return b"" if is_right else None

    def _scrammed(self, said: bytes) -> bytes | None:
        if self._scram is None:
            username = said.partition(b"n=")[2].partition(b",")[0].decode()
            self._scram = Scram(self._mechanism, self._broker.passwords.get(username, "nobody's"))
            return self._scram.first(said)
        scram, self._scram = self._scram, None
        final = scram.final(said)
        self._is_authenticated = final is not None
        return final
