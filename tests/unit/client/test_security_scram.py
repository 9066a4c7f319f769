"""SCRAM, with the exchanges that its specifications give as examples, and with brokers that are none."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest

from barnabas.client.errors import AuthenticationError
from barnabas.client.security_scram import ITERATIONS_MAX, scram

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_example_of_the_specification() -> None:
    dialogue = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert next(dialogue) == FIRST
    assert dialogue.send(SERVER_FIRST) == FINAL
    with pytest.raises(StopIteration):
        dialogue.send(SERVER_FINAL)


class Server:
    """The other side, as RFC 5802 has it, written apart: it knows a salted password, not the password."""

    def __init__(self, hash_name: str, password: str, iterations: int = 4096) -> None:
        self.hash_name = hash_name
        self.salt = b"a salt"
        self.iterations = iterations
        self.salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), self.salt, iterations)

    def first(self, client_first: bytes) -> bytes:
        self.bare = client_first.removeprefix(b"n,,")
        nonce = self.bare.partition(b",r=")[2]
        self.said = b"r=%s+server,s=%s,i=%d" % (nonce, b64encode(self.salt), self.iterations)
        return self.said

    def final(self, client_final: bytes) -> bytes:
        without_proof, _, proof = client_final.partition(b",p=")
        signed = b",".join((self.bare, self.said, without_proof))
        key = self._mac(self.salted, b"Client Key")
        signature = self._mac(hashlib.new(self.hash_name, key).digest(), signed)
        assert bytes(a ^ b for a, b in zip(b64decode(proof), signature, strict=True)) == key
        return b"v=" + b64encode(self._mac(self._mac(self.salted, b"Server Key"), signed))

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self.hash_name).digest()


@pytest.mark.parametrize(("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
@pytest.mark.parametrize(
    ("username", "on_the_wire"), [("bob", b"bob"), ("a=b,c", b"a=3Db=2Cc"), ("zoë", "zoë".encode())]
)
def test_both_sides_prove_that_they_know_the_password(
    mechanism: str, hash_name: str, username: str, on_the_wire: bytes
) -> None:
    server = Server(hash_name, "sécret, = ;")
    dialogue = scram(mechanism, username, "sécret, = ;", "nonce")
    first = next(dialogue)
    assert first == b"n,,n=" + on_the_wire + b",r=nonce"
    with pytest.raises(StopIteration):
        dialogue.send(server.final(dialogue.send(server.first(first))))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=%d" % (ITERATIONS_MAX + 1)), "iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "iterations"),
        (SERVER_FIRST.replace(b",i=4096", b""), "no iterations"),
        (SERVER_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b"*"), "not of SCRAM"),
        (b"\xff", "not of SCRAM"),
        (b"", "nonce"),
    ],
)
def test_a_challenge_that_no_broker_would_make(said: bytes, words: str) -> None:
    dialogue = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(dialogue)
    with pytest.raises(AuthenticationError, match=words):
        dialogue.send(said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (SERVER_FINAL.replace(b"v=6", b"v=7"), "does not prove"),
        (b"v=", "does not prove"),
        (b"", "does not prove"),
        (b"e=other-error", "other-error"),
    ],
)
def test_a_broker_that_does_not_know_the_password(said: bytes, words: str) -> None:
    dialogue = scram("SCRAM-SHA-256", "user", "pencil", NONCE)
    next(dialogue)
    dialogue.send(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match=words):
        dialogue.send(said)
