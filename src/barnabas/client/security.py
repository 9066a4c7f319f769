"""How one client secures its connections: TLS around the socket, then SASL as the first requests.

Authentication that the broker gives an end to (KIP-368) is renewed before that end, on the same connection, while other
requests wait. Always holds: the TLS context is made once; a failure that a further attempt would only repeat is an
AuthenticationError, and no error has a secret in it.
Does not know: where brokers are, what other requests mean.
"""

import asyncio
import logging
import ssl
from base64 import b64encode
from collections.abc import Callable, Generator
from typing import Final

from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.client.errors import AuthenticationError, KafkaError, TlsError, UnsupportedVersionError, error_of
from barnabas.client.security_scram import scram
from barnabas.client.security_settings import OAUTHBEARER, Credentials, credentials, uses_sasl, uses_tls
from barnabas.client.security_tls import context_of
from barnabas.client.settings import ClientConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.runtime.interfaces import Address, Runtime, Socket
from barnabas.runtime.tls_socket import TlsSocket

logger = logging.getLogger(__name__)

HANDSHAKE_VERSION: Final = 1  # since then the mechanism's bytes travel in requests, which can say what is wrong
ROUNDS_MAX: Final = 4  # no mechanism here needs more than two
NONCE_BYTES: Final = 24
RENEWAL_WINDOW: Final = (0.85, 0.95)  # of a lifetime, as Kafka's clients have it: not everybody at the same moment
RENEWAL_MS_MIN: Final = 1000  # brokers do not take a second renewal within a second

Best = Callable[[int, int], int]  # the best version of an API, from a least one on


class TokenMissing(ConnectionLost):
    """There is no token at the moment, and so no connection."""


class Security:
    def __init__(self, config: ClientConfig, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime
        self._timeout_ms = config.request_timeout_ms
        self._credentials: Credentials | None = credentials(config) if uses_sasl(config) else None
        self._context: ssl.SSLContext | None = context_of(config) if uses_tls(config) else None
        self._has_certificate = bool(config.ssl_keystore_location or config.ssl_keystore_key)
        self._has_had_token = False  # the function that returns it has done so
        self._renewals: dict[asyncio.Task[None], None] = {}  # under way; an event loop itself does not keep them

    # TLS

    async def secure(self, socket: Socket, address: Address) -> Socket:
        """What to read and write in the place of the socket. The caller closes that one where this fails."""
        if self._context is None:
            return socket
        host, port = address
        secured = TlsSocket(socket, self._context, host)
        try:
            await secured.handshake()
        except ssl.SSLError as error:
            raise TlsError(f"{host}:{port}: {_words(error)}") from error
        except OSError as error:
            without = "PLAINTEXT" if self._credentials is None else "SASL_PLAINTEXT"
            raise ConnectionLost(
                f"{host}:{port}: {error}; it looks like a listener without TLS: is security_protocol={without} meant?"
            ) from error
        return secured

    def explain(self, lost: ConnectionLost, where: str) -> None:
        """Raises what says more of a new connection that was lost: in TLS 1.3 a client is refused only then."""
        if isinstance(lost.__cause__, ssl.SSLError):
            raise TlsError(f"{where}: {_words(lost.__cause__)}") from lost
        if self._context is not None and not self._has_certificate and not isinstance(lost, TokenMissing):
            raise ConnectionLost(f"{where}: {lost}; perhaps it wants a certificate (ssl_keystore_location)") from lost

    # SASL

    async def authenticate(self, connection: ClientConnection, best: Best, where: str) -> None:
        """`where` names the broker in errors."""
        used = self._credentials
        if used is None:
            return
        await self._agree(connection, best, where, used.mechanism)
        version = best(SaslAuthenticateRequest.API_KEY, 0)
        dialogue = await self._dialogue(used)
        said = next(dialogue)
        for _round in range(ROUNDS_MAX):
            request = SaslAuthenticateRequest(auth_bytes=said)
            response = await connection.request_ahead(request, version, self._timeout_ms)
            if response.error_code != ErrorCode.NONE:
                raise _refused(response.error_code, response.error_message, where, used)
            try:
                said = dialogue.send(bytes(response.auth_bytes))
            except StopIteration:
                self._renew_in_time(connection, best, where, response.session_lifetime_ms)
                return
            except AuthenticationError as error:
                raise AuthenticationError(error.code, f"{where}: {error.message}") from None
        raise _error(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{where}: authentication by {used.mechanism} does not end")

    async def _agree(self, connection: ClientConnection, best: Best, where: str, mechanism: str) -> None:
        without = "PLAINTEXT" if self._context is None else "SSL"
        useless = f"{where}: this listener has no authentication; set security_protocol={without} and no sasl settings"
        try:
            version = best(SaslHandshakeRequest.API_KEY, HANDSHAKE_VERSION)
        except UnsupportedVersionError:
            raise _error(ErrorCode.ILLEGAL_SASL_STATE, useless) from None
        request = SaslHandshakeRequest(mechanism=mechanism)
        response = await connection.request_ahead(request, version, self._timeout_ms)
        match response.error_code:
            case ErrorCode.NONE:
                return
            case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                offered = ", ".join(response.mechanisms) or "none"
                words = f"{where}: sasl_mechanism {mechanism} is not enabled; the broker offers {offered}"
                raise _error(ErrorCode.UNSUPPORTED_SASL_MECHANISM, words)
            case ErrorCode.ILLEGAL_SASL_STATE:
                raise _error(ErrorCode.ILLEGAL_SASL_STATE, useless)
        raise error_of(response.error_code, about=where)

    async def _dialogue(self, used: Credentials) -> Generator[bytes, bytes, None]:
        if used.mechanism == OAUTHBEARER:
            return _bearer(await self._token(used))
        if used.mechanism == "PLAIN":
            return _plain(used.username, used.password)
        nonce = b64encode(self._runtime().random.randbytes(NONCE_BYTES)).decode()
        return scram(used.mechanism, used.username, used.password, nonce)

    async def _token(self, used: Credentials) -> str:
        given = used.token
        if isinstance(given, str):
            return given
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                token = await self._runtime().offload(given)  # it may well ask somebody over the network
                found: str = token if isinstance(token, str) else await token
        except Exception as error:
            words = f"sasl_oauthbearer_token: the function that returns it failed: {error!r}"
            if not self._has_had_token:
                raise _error(ErrorCode.SASL_AUTHENTICATION_FAILED, words) from error
            # It worked before, so whom it asks may be back soon: this connection is not made, and then tried again.
            logger.warning("%s; it is called again", words)
            raise TokenMissing(words) from error
        self._has_had_token = True
        return found

    # Renewal

    def _renew_in_time(self, connection: ClientConnection, best: Best, where: str, lifetime_ms: int) -> None:
        if lifetime_ms <= 0:
            return
        delay_ms = max(lifetime_ms * self._runtime().random.uniform(*RENEWAL_WINDOW), RENEWAL_MS_MIN)

        def begin() -> None:
            renewal = asyncio.ensure_future(self._renew(connection, best, where))
            self._renewals[renewal] = None
            renewal.add_done_callback(lambda done: self._renewals.pop(done))

        connection.call_later(delay_ms, begin)

    async def _renew(self, connection: ClientConnection, best: Best, where: str) -> None:
        connection.hold()
        try:
            await self.authenticate(connection, best, where)
        except KafkaError as error:
            connection.close(error)  # whoever waits on it is told why
        except Exception as error:
            logger.exception("the authentication at %s cannot be renewed", where)
            connection.close(ConnectionLost(f"{where}: the authentication cannot be renewed: {error!r}"))
        finally:
            connection.release()


def _plain(username: str, password: str) -> Generator[bytes, bytes, None]:
    yield f"\0{username}\0{password}".encode()


def _bearer(token: str) -> Generator[bytes, bytes, None]:
    """RFC 7628. Where the broker refuses, it says why before it fails the request that follows."""
    reason = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if reason:
        yield b"\x01"
        raise _error(ErrorCode.SASL_AUTHENTICATION_FAILED, f"the token is refused: {str(reason, 'utf-8', 'replace')}")


def _error(code: ErrorCode, words: str) -> AuthenticationError:
    return AuthenticationError(code, words)


def _refused(code: int, message: str | None, where: str, used: Credentials) -> KafkaError:
    if code != ErrorCode.SASL_AUTHENTICATION_FAILED:
        return error_of(code, message, about=where)
    if used.mechanism == OAUTHBEARER:
        what, advice = "the token", "sasl_oauthbearer_token"
    else:
        what, advice = f"user {used.username}", "username and password (sasl_username and sasl_password, or JAAS)"
    told = f" ({message})" if message else ""
    return _error(ErrorCode(code), f"{where}: the broker refuses {what} by {used.mechanism}{told}; check {advice}")


def _words(error: ssl.SSLError) -> str:
    """What happened and what to do, of OpenSSL's reasons."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _HOST_MISMATCH:
            return (
                f"the broker's certificate is not for this host ({error.verify_message}); dial a name that is in it, "
                "or set ssl_endpoint_identification_algorithm to nothing"
            )
        return (
            f"the broker's certificate is not trusted: {error.verify_message}; give the authority that signed it as "
            "ssl_truststore_location"
        )
    reason = error.reason or str(error)
    if reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
        return "the broker does not speak TLS here; set security_protocol=PLAINTEXT or SASL_PLAINTEXT"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return (
            f"the broker refuses this client's certificate, or misses one ({reason.lower().replace('_', ' ')}); "
            "check ssl_keystore_location"
        )
    return f"TLS failed: {reason.lower().replace('_', ' ')}"


_HOST_MISMATCH: Final = (62, 64)  # OpenSSL's codes: the name of the host, its address
