"""Our clients and secured brokers: Barnabas behind TLS, and Apache Kafka with each protocol and mechanism."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from secured_kafka import CERTIFICATES, MECHANISMS, client_settings

from barnabas.client import Admin, Consumer, Producer
from barnabas.client.admin.topics import NewTopic
from barnabas.client.errors import AuthenticationError, TlsError
from barnabas.errors import ErrorCode
from barnabas.runtime.system.event_loop import new_event_loop
from barnabas.types import TopicPartition

WAIT_SECONDS_MAX = 120.0
VALUES = [b"%d" % number * 2000 for number in range(300)]  # answers of many TLS records
TRUSTED = {"ssl_truststore_location": str(CERTIFICATES / "authority.pem")}
_numbers = itertools.count(1)
OF_APACHE = [("SSL", None), *((protocol, each) for protocol, mechanisms in MECHANISMS.items() for each in mechanisms)]


def keywords(address: str, settings: dict[str, str]) -> dict[str, Any]:
    return {"bootstrap_servers": address, **{name.replace(".", "_"): value for name, value in settings.items()}}


async def there_and_back(given: dict[str, Any]) -> None:
    """Written, read by a group, and looked after."""
    topic = f"secured-{os.getpid()}-{next(_numbers)}"
    async with Admin(**given) as admin:
        (await admin.create_topics([NewTopic(name=topic, partitions=1)])).unwrap()
        async with Producer(**given) as producer:
            await (await producer.send_many(topic, VALUES, partition=0))
        async with Consumer(**given, group_id=topic, auto_offset_reset="earliest") as consumer:
            consumer.subscribe([topic])
            found: list[bytes | None] = []
            while len(found) < len(VALUES):
                found += [record.value for record in await consumer.poll(1000)]
            await consumer.commit()
        assert found == VALUES
        committed = await admin.list_consumer_group_offsets(topic)
        assert committed[TopicPartition(topic, 0)].offset == len(VALUES)


def run(work: Any) -> None:
    """On the event loop that programs use."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(asyncio.wait_for(work, WAIT_SECONDS_MAX))


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, new_event_loop], ids=["asyncio", "ours"])
def test_barnabas_behind_tls(behind_tls: str, loop_factory: Any) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(there_and_back(keywords(behind_tls, client_settings("SSL"))), WAIT_SECONDS_MAX))


@pytest.mark.java
@pytest.mark.parametrize(("protocol", "mechanism"), OF_APACHE)
def test_apache_kafka(apache_listeners: dict[str, str], protocol: str, mechanism: str | None) -> None:
    run(there_and_back(keywords(apache_listeners[protocol], client_settings(protocol, mechanism))))


async def refusal(given: dict[str, Any]) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as caught:
        async with Producer(**given):
            pass
    assert "guess" not in f"{caught.value!r} {caught.value}"
    return caught.value


@pytest.mark.java
@pytest.mark.parametrize("mechanism", MECHANISMS["SASL_PLAINTEXT"])
def test_apache_kafka_refuses_a_wrong_password(apache_listeners: dict[str, str], mechanism: str) -> None:
    given = keywords(apache_listeners["SASL_PLAINTEXT"], client_settings("SASL_PLAINTEXT", mechanism, "guess"))

    async def scenario() -> None:
        assert (await refusal(given)).code == ErrorCode.SASL_AUTHENTICATION_FAILED

    run(scenario())


@pytest.mark.java
def test_apache_kafka_says_what_it_offers(apache_listeners: dict[str, str]) -> None:
    given = keywords(apache_listeners["SASL_SSL"], client_settings("SASL_SSL", "SCRAM-SHA-256"))

    async def scenario() -> None:
        assert "the broker offers PLAIN, SCRAM-SHA-512" in str(await refusal(given))

    run(scenario())


@pytest.mark.java
@pytest.mark.parametrize(
    ("protocol", "settings", "words"),
    [
        ("SSL", {}, "the broker speaks TLS here"),
        ("SASL_SSL", {"security_protocol": "SSL"}, "the broker's certificate is not trusted"),
        ("SSL", {"security_protocol": "SSL", **TRUSTED}, "check ssl_keystore_location"),
    ],
    ids=["no TLS", "not trusted", "no certificate"],
)
def test_apache_kafka_and_another_idea_of_tls(
    apache_listeners: dict[str, str], protocol: str, settings: dict[str, Any], words: str
) -> None:
    async def scenario() -> None:
        error = await refusal({**settings, "bootstrap_servers": apache_listeners[protocol]})
        assert isinstance(error, TlsError)
        assert words in str(error)

    run(scenario())


@pytest.mark.java
def test_a_session_with_apache_kafka_is_renewed(apache_listeners: dict[str, str]) -> None:
    """On the connection that there is: a broker closes one whose session has ended."""
    given = keywords(apache_listeners["SASL_PLAINTEXT"], client_settings("SASL_PLAINTEXT", "SCRAM-SHA-512"))

    async def scenario() -> None:
        async with Admin(**given) as admin:
            cluster = admin.cluster
            node_id = next(iter(cluster.brokers))
            connection, _versions = await cluster.connected(node_id)
            renewals: list[None] = []
            ask = connection.request_ahead

            def counted(*arguments: Any) -> Any:
                renewals.append(None)
                return ask(*arguments)

            connection.request_ahead = counted  # type: ignore[method-assign]
            while len(renewals) < 3:  # one handshake, two rounds
                assert not connection.is_closed
                await asyncio.gather(*(admin.list_topics() for _ in range(5)))
            assert (await cluster.connected(node_id))[0] is connection

    run(scenario())
