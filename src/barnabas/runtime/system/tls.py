"""TLS contexts of clients, made of PEM that lies in files of this machine or is given as text.

Always holds: peers must prove who they are, by TLS 1.2 or newer. What cannot be used raises ValueError with words for
people, which never repeat what was given. A key that is given as text lies in a file that only its owner may read, for
the moment in which OpenSSL takes it: it takes keys from files only.
Does not know: names of settings.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Callable

CERTIFICATE = "CERTIFICATE"
PRIVATE_KEY = "PRIVATE KEY"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_LINE_CHARACTERS = 64
_BINARY_STORES = (  # by their first bytes
    (b"\xfe\xed\xfe\xed", "JKS"),
    (b"\xce\xce\xce\xce", "JCEKS"),
    (b"\x30\x82", "PKCS12 (or another binary form)"),
    (b"\x30\x83", "PKCS12 (or another binary form)"),
)


class BinaryStore(ValueError):
    """A store of keys that is not PEM."""


def client_context(*, check_host_name: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_host_name
    return context


def trust(context: ssl.SSLContext, certificates: str) -> None:
    """Authorities, as the text of their certificates."""
    try:
        context.load_verify_locations(cadata=_blocks(certificates, CERTIFICATE))
    except ssl.SSLError as error:
        raise ValueError(f"a certificate in it cannot be read: {_reason(error)}") from None


def present(context: ssl.SSLContext, chain: str, key: str, password: str | None) -> None:
    """The certificates of the chain, the own one first, and the private key."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(_blocks(key, PRIVATE_KEY) + _blocks(chain, CERTIFICATE))
        file.flush()
        present_file(context, file.name, password)


def present_file(context: ssl.SSLContext, path: str, password: str | None) -> None:
    """As `present`, of a file that has both."""
    content = read_pem(path)
    for kind in (PRIVATE_KEY, CERTIFICATE):
        _blocks(content, kind)
    try:
        context.load_cert_chain(path, password=_password(password))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ValueError("the private key does not belong to the first certificate") from None
        why = "" if password is None else "; perhaps the password of the key is wrong"
        raise ValueError(f"the key or a certificate cannot be read: {_reason(error)}{why}") from None


def read_pem(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
    for magic, kind in _BINARY_STORES:
        if content.startswith(magic):
            raise BinaryStore(f"{path} is {kind}, and only PEM can be read")
    return content.decode("utf-8", "replace")


def _blocks(text: str, wanted: str) -> str:
    """Those of this kind, with lines of their own: in a properties file people write them in one line."""
    parts: list[str] = []
    for kind, content in _BLOCK.findall(text):
        if not kind.endswith(wanted):
            continue
        if ":" in content:  # of the older kind, with headers of its own
            parts.append(f"-----BEGIN {kind}-----{content}-----END {kind}-----\n")
            continue
        characters = "".join(content.split())
        lines = [characters[at : at + _LINE_CHARACTERS] for at in range(0, len(characters), _LINE_CHARACTERS)]
        parts.append("\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""]))
    if not parts:
        raise ValueError(f"there is no {wanted.lower()} in it; one begins with -----BEGIN {wanted}-----")
    return "".join(parts)


def _password(password: str | None) -> Callable[[], str]:
    """Asked for only where the key is encrypted. Without it OpenSSL would ask at the terminal, and wait."""

    def answer() -> str:
        if password is None:
            raise ValueError("the private key is encrypted, and its password is not given")
        return password

    return answer


def _reason(error: ssl.SSLError) -> str:
    return error.reason.lower().replace("_", " ") if error.reason else "OpenSSL does not say why"
