"""SCRAM as a client speaks it (RFC 5802, RFC 7677): the password is proven to the broker, and the broker proves that it
knows the password too.

Without channel binding, and with names and passwords as plain UTF-8, as Kafka has both.
Always holds: a dialogue that ends without an error has checked the broker's signature. Does not know: requests.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Generator
from typing import Final

from barnabas.client.errors import AuthenticationError
from barnabas.errors import ErrorCode

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN: Final = 4096  # Kafka's; fewer would let whoever pretends to be a broker find the password by trying
ITERATIONS_MAX: Final = 1 << 20  # half a second of work; Kafka itself allows 16384
_NO_CHANNEL_BINDING: Final = "n,,"


def scram(mechanism: str, username: str, password: str, nonce: str) -> Generator[bytes, bytes, None]:
    """Yields what to send, is sent the answers; AuthenticationError where an answer is not a broker's."""
    hash_name = HASHES[mechanism]
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    challenge = yield f"{_NO_CHANNEL_BINDING}{first}".encode()
    server_first = _text(challenge)
    fields = _fields(server_first)
    server_nonce = fields.get("r", "")
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise _refused("the broker's nonce does not continue the client's")
    iterations = _iterations(fields.get("i", ""))
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), _decoded(fields.get("s", "")), iterations)
    final = f"c={b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={server_nonce}"
    signed = f"{first},{server_first},{final}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, signed, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    challenge = yield f"{final},p={b64encode(proof).decode()}".encode()
    fields = _fields(_text(challenge))
    if "e" in fields:
        raise _refused(f"the broker says {fields['e']}")
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    if not hmac.compare_digest(_decoded(fields.get("v", "")), hmac.digest(server_key, signed, hash_name)):
        raise _refused("the broker does not prove that it knows the password; it may be somebody else")


def _refused(words: str) -> AuthenticationError:
    return AuthenticationError(ErrorCode.SASL_AUTHENTICATION_FAILED, words)


def _text(challenge: bytes) -> str:
    try:
        return str(challenge, "utf-8")
    except UnicodeDecodeError:
        raise _refused("the broker's answer is not of SCRAM") from None


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise _refused("the broker's answer is not of SCRAM") from None


def _iterations(text: str) -> int:
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if not ITERATIONS_MIN <= count <= ITERATIONS_MAX:
        raise _refused(f"the broker asks for {text or 'no'} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are safe")
    return count
