"""Clients and a broker that wants to know who asks, in virtual time: SASL, its renewal, TLS, and what goes wrong."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "support"))

from secured_broker import CERTIFICATES, HOST, PORT, SecuredBroker, Session, World, server_context

from barnabas.client.cluster import ANY, Cluster
from barnabas.client.errors import AuthenticationError, BrokersUnreachableError, KafkaError, TlsError
from barnabas.client.settings import AdminConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.runtime.interfaces import Socket

SECRET = "S3cret-of-mine"
PASSWORDS = {"alice": SECRET, "token": SECRET}
TRUSTED = {"ssl_truststore_location": str(CERTIFICATES / "authority.pem")}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def sasl(mechanism: str, password: str = SECRET, **settings: Any) -> dict[str, Any]:
    who = {"sasl_oauthbearer_token": password}
    if mechanism != "OAUTHBEARER":
        who = {"sasl_username": "alice", "sasl_password": password}
    return {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, **who, **settings}


def cluster(world: World, **settings: Any) -> Cluster:
    return Cluster(AdminConfig(bootstrap_servers=f"{HOST}:{PORT}", **settings), runtime=world.runtime())


def start(broker: Callable[[World], SecuredBroker], **settings: Any) -> SecuredBroker:
    """A client that starts and stops."""
    world = World()
    made = broker(world)

    async def scenario() -> None:
        async with cluster(world, **settings):
            pass

    world.run(scenario)
    return made


def refused(broker: Callable[[World], SecuredBroker], **settings: Any) -> tuple[KafkaError, SecuredBroker]:
    """A client that cannot start: why, and what the broker has seen."""
    world = World()
    made = broker(world)
    errors: list[KafkaError] = []

    async def scenario() -> None:
        client = cluster(world, **settings)
        try:
            await client.start()
        except KafkaError as error:
            errors.append(error)
        finally:
            await client.close()

    world.run(scenario)
    (error,) = errors
    assert SECRET not in repr(error)
    assert SECRET not in str(error)
    return error, made


# SASL


def wants(*mechanisms: str, **facts: Any) -> Callable[[World], SecuredBroker]:
    return lambda world: SecuredBroker(world, mechanisms=mechanisms, passwords=PASSWORDS, **facts)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sasl_is_said_before_anything_else(mechanism: str) -> None:
    broker = start(wants(*MECHANISMS), **sasl(mechanism))
    rounds = 2 if mechanism.startswith("SCRAM") else 1
    expected = ["API_VERSIONS", "SASL_HANDSHAKE", *["SASL_AUTHENTICATE"] * rounds, "METADATA"]
    assert [session.requests for session in broker.sessions] == [expected]


async def fetched_elsewhere() -> str:
    await asyncio.sleep(0)
    return SECRET


@pytest.mark.parametrize("token", [lambda: SECRET, fetched_elsewhere])
def test_a_function_gives_the_token(token: Callable[[], Any]) -> None:
    broker = start(wants("OAUTHBEARER"), **sasl("OAUTHBEARER", token))  # type: ignore[arg-type]
    assert broker.sessions[0].requests[-1] == "METADATA"


def test_a_function_that_has_no_token() -> None:
    def nothing() -> str:
        raise RuntimeError("the identity provider is down")

    error, _broker = refused(wants("OAUTHBEARER"), **sasl("OAUTHBEARER", nothing))  # type: ignore[arg-type]
    assert isinstance(error, AuthenticationError)
    assert "the identity provider is down" in str(error)


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_function_that_has_no_token_for_a_moment(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """It had one when the client started: who asks again is served, and nobody is told to give up."""
    world = World()
    wants("OAUTHBEARER")(world)
    troubles = 0

    async def token() -> str:
        nonlocal troubles
        if troubles:
            troubles -= 1
            await asyncio.sleep(3600 if how == "hangs" else 0)
            raise RuntimeError("the identity provider is down")
        return SECRET

    async def scenario() -> None:
        nonlocal troubles
        async with cluster(world, **sasl("OAUTHBEARER", token), request_timeout_ms=5000) as client:  # type: ignore[arg-type]
            troubles = 2
            node_id = next(iter(client.brokers))
            await client.retry(
                lambda: client.request(node_id, MetadataRequest(topics=[]), purpose="fetch"),
                what="metadata",
                timeout_ms=60_000,
            )
            assert troubles == 0

    world.run(scenario)
    assert "it is called again" in caplog.text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_not_tried_again(mechanism: str) -> None:
    error, broker = refused(wants(*MECHANISMS), **sasl(mechanism, f"not {SECRET}"))
    assert isinstance(error, AuthenticationError)
    assert (error.code, error.retriable) == (ErrorCode.SASL_AUTHENTICATION_FAILED, False)
    assert f"localhost:9092: the broker refuses {'the token' if mechanism == 'OAUTHBEARER' else 'user alice'}" in str(
        error
    )
    assert len(broker.sessions) == 1


def test_a_mechanism_that_is_not_enabled() -> None:
    error, broker = refused(wants("PLAIN", "SCRAM-SHA-512"), **sasl("SCRAM-SHA-256"))
    assert error.code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert "SCRAM-SHA-256 is not enabled; the broker offers PLAIN, SCRAM-SHA-512" in str(error)
    assert len(broker.sessions) == 1


def test_a_broker_that_wants_no_authentication() -> None:
    error, _broker = refused(SecuredBroker, **sasl("PLAIN"))
    assert error.code == ErrorCode.ILLEGAL_SASL_STATE
    assert "set security_protocol=PLAINTEXT" in str(error)


def test_a_broker_that_wants_authentication() -> None:
    error, _broker = refused(wants("PLAIN"))
    assert isinstance(error, BrokersUnreachableError)
    assert "has its listener another security_protocol?" in str(error)


# Renewal


def renewing(
    main: Callable[[World, SecuredBroker, Cluster], Coroutine[Any, Any, None]], lifetime_ms: int = 10_000
) -> SecuredBroker:
    world = World()
    broker = wants("SCRAM-SHA-256", lifetime_ms=lifetime_ms)(world)

    async def scenario() -> None:
        async with cluster(world, **sasl("SCRAM-SHA-256")) as client:
            await main(world, broker, client)

    world.run(scenario)
    return broker


async def ask(client: Cluster) -> None:
    await client.request(ANY, MetadataRequest(topics=[]))


def test_a_session_is_renewed_on_its_connection_before_it_ends() -> None:
    async def main(world: World, _broker: SecuredBroker, client: Cluster) -> None:
        for _second in range(60):
            await world.clock.sleep(1000)
            await ask(client)

    broker = renewing(main)
    assert not any(session.closed_by_broker for session in broker.sessions)
    by_handshakes = sorted(session.requests.count("SASL_HANDSHAKE") for session in broker.sessions)
    assert by_handshakes[-1] in (7, 8)  # once each 8.5 to 9.5 s


def test_an_idle_session_is_renewed_too() -> None:
    async def main(world: World, broker: SecuredBroker, client: Cluster) -> None:
        await ask(client)
        await world.clock.sleep(60_000)
        count = len(broker.sessions)
        await ask(client)
        assert len(broker.sessions) == count

    broker = renewing(main)
    assert not any(session.closed_by_broker for session in broker.sessions)


def test_requests_wait_while_a_session_is_renewed() -> None:
    """The broker would close the connection if one came between."""

    async def main(world: World, broker: SecuredBroker, client: Cluster) -> None:
        await ask(client)
        session = broker.sessions[-1]
        session.delay_ms = 500.0
        handshakes = session.requests.count("SASL_HANDSHAKE")
        await world.until(lambda: session.requests.count("SASL_HANDSHAKE") > handshakes)
        asked = [asyncio.ensure_future(ask(client)) for _ in range(3)]
        await world.clock.sleep(100)
        assert session.requests[-1] == "SASL_HANDSHAKE"
        await asyncio.gather(*asked)
        assert session.requests[-5:] == ["SASL_AUTHENTICATE"] * 2 + ["METADATA"] * 3

    broker = renewing(main)
    assert not any(session.closed_by_broker for session in broker.sessions)


def test_who_waits_is_told_that_a_renewal_was_refused() -> None:
    async def main(world: World, broker: SecuredBroker, client: Cluster) -> None:
        await ask(client)
        broker.passwords = {"alice": "another"}
        session = broker.sessions[-1]
        session.delay_ms = 500.0
        await world.until(lambda: session.requests.count("SASL_HANDSHAKE") > 1)
        with pytest.raises(AuthenticationError, match="the broker refuses user alice"):
            await ask(client)
        with pytest.raises(AuthenticationError, match="the broker refuses user alice"):
            await ask(client)

    renewing(main)


def test_a_closed_client_renews_nothing() -> None:
    async def main(world: World, _broker: SecuredBroker, client: Cluster) -> None:
        await ask(client)
        await client.close()
        await world.clock.sleep(60_000)

    broker = renewing(main)
    assert all(session.requests.count("SASL_HANDSHAKE") == 1 for session in broker.sessions)


# TLS


def with_tls(**facts: Any) -> Callable[[World], SecuredBroker]:
    context = server_context(wants_certificate=facts.pop("wants_certificate", False))
    return lambda world: SecuredBroker(world, context=context, **facts)


def test_tls() -> None:
    broker = start(with_tls(), security_protocol="SSL", **TRUSTED)
    assert broker.sessions[0].requests == ["API_VERSIONS", "METADATA"]


def test_tls_and_sasl() -> None:
    broker = with_tls(mechanisms=("SCRAM-SHA-512",), passwords=PASSWORDS)
    made = start(broker, **sasl("SCRAM-SHA-512", security_protocol="SASL_SSL"), **TRUSTED)
    assert made.sessions[0].requests[-1] == "METADATA"


def test_a_broker_that_wants_certificates() -> None:
    mine = {"ssl_keystore_location": str(CERTIFICATES / "client.pem")}
    broker = start(with_tls(wants_certificate=True), security_protocol="SSL", **TRUSTED, **mine)
    assert broker.sessions[0].requests == ["API_VERSIONS", "METADATA"]
    error, _broker = refused(with_tls(wants_certificate=True), security_protocol="SSL", **TRUSTED)
    assert isinstance(error, TlsError)
    assert "check ssl_keystore_location" in str(error)


def test_a_broker_that_is_not_trusted() -> None:
    stranger = {"ssl_truststore_location": str(CERTIFICATES / "stranger.pem")}
    error, _broker = refused(with_tls(), security_protocol="SSL", **stranger)
    assert isinstance(error, TlsError)
    assert not error.retriable
    assert "localhost:9092: the broker's certificate is not trusted" in str(error)
    assert "ssl_truststore_location" in str(error)


def test_a_certificate_for_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secured_broker.HOST", "elsewhere")
    monkeypatch.setitem(globals(), "HOST", "elsewhere")
    error, _broker = refused(with_tls(), security_protocol="SSL", **TRUSTED)
    assert isinstance(error, TlsError)
    assert "the broker's certificate is not for this host" in str(error)
    start(with_tls(), security_protocol="SSL", ssl_endpoint_identification_algorithm="", **TRUSTED)


def test_tls_to_a_plain_listener() -> None:
    error, _broker = refused(SecuredBroker, security_protocol="SSL", **TRUSTED)
    assert isinstance(error, BrokersUnreachableError)
    assert "it looks like a listener without TLS: is security_protocol=PLAINTEXT meant?" in str(error)


@pytest.mark.parametrize("settings", [{}, sasl("PLAIN")], ids=["plain", "sasl"])
def test_plaintext_to_a_tls_listener(settings: dict[str, Any]) -> None:
    """OpenSSL only closes such a connection."""
    error, _broker = refused(with_tls(), **settings)
    assert isinstance(error, BrokersUnreachableError)
    assert "has its listener another security_protocol?" in str(error)


class JavaTls(SecuredBroker):
    """Answers a client that does not speak TLS as Kafka does: with an alert."""

    def _accept(self, socket: Socket) -> None:
        self.sessions.append(Session(self, socket))
        socket.send(bytes.fromhex("15030300020250"))
        socket.close()


@pytest.mark.parametrize("settings", [{}, sasl("PLAIN")], ids=["plain", "sasl"])
def test_plaintext_to_a_tls_listener_of_kafka(settings: dict[str, Any]) -> None:
    error, broker = refused(JavaTls, **settings)
    assert isinstance(error, TlsError)
    assert "localhost:9092: the broker speaks TLS here; set security_protocol=SSL or SASL_SSL" in str(error)
    assert len(broker.sessions) == 1
