"""SCRAM, with the exchanges that its specifications give as examples, and with brokers that are none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "support"))

from secured_broker import Scram

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


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    ("username", "on_the_wire"), [("bob", b"bob"), ("a=b,c", b"a=3Db=2Cc"), ("zoë", "zoë".encode())]
)
def test_both_sides_prove_that_they_know_the_password(mechanism: str, username: str, on_the_wire: bytes) -> None:
    server = Scram(mechanism, "sécret, = ;")
    dialogue = scram(mechanism, username, "sécret, = ;", "nonce")
    first = next(dialogue)
    assert first == b"n,,n=" + on_the_wire + b",r=nonce"
    with pytest.raises(StopIteration):
        dialogue.send(server.final(dialogue.send(server.first(first))) or b"it does not know the password")


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
