"""Apache Kafka with a listener of each kind, and what clients must set for each of them.

The user alice has the password PASSWORD by PLAIN and by SCRAM. The listener SSL wants certificates of clients, SASL_SSL
has fewer mechanisms than SASL_PLAINTEXT, and there a session by SCRAM-SHA-512 ends after SESSION_MS unless renewed.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from apache_kafka import QUICK_SERVER_FLAGS, ApacheKafka, free_port

CERTIFICATES = Path(__file__).resolve().parent.parent / "data" / "tls"
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = {
    "SASL_PLAINTEXT": ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "SASL_SSL": ("PLAIN", "SCRAM-SHA-512"),
}
PASSWORD = "alice-secret"
SESSION_MS = 2000
_SECURITY = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f'{_SECURITY}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
}


def secured_kafka(directory: Path, config: Mapping[str, object]) -> tuple[ApacheKafka, dict[str, str]]:
    """Not started; and where each kind of listener is."""
    port, controller_port = free_port(), free_port()
    addresses = {"PLAINTEXT": f"127.0.0.1:{port}", **{each: f"127.0.0.1:{free_port()}" for each in PROTOCOLS}}
    advertised = ",".join(f"{protocol}://{address}" for protocol, address in addresses.items())
    settings: dict[str, object] = {
        "listeners": f"{advertised},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": advertised,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in addresses) + ",CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": CERTIFICATES / "server.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": CERTIFICATES / "authority.pem",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms": SESSION_MS,
        # As `barnabas up` has it: members of the new protocol hear of each other by heartbeats.
        "group.consumer.assignment.interval.ms": 0,
        "group.consumer.heartbeat.interval.ms": 500,
        "group.consumer.min.heartbeat.interval.ms": 500,
        **config,
    }
    for protocol, mechanisms in MECHANISMS.items():
        listener = f"listener.name.{protocol.lower()}"
        settings[f"{listener}.sasl.enabled.mechanisms"] = ",".join(mechanisms)
        for mechanism in mechanisms:
            settings[f"{listener}.{mechanism.lower()}.sasl.jaas.config"] = _MODULES[mechanism]
    users = [f"{mechanism}=[name=alice,password={PASSWORD}]" for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    arguments = [word for user in users for word in ("--add-scram", user)]
    kafka = ApacheKafka(directory, settings, port=port, format_arguments=arguments, flags=QUICK_SERVER_FLAGS)
    return kafka, addresses


def client_settings(protocol: str, mechanism: str | None = None, password: str = PASSWORD) -> dict[str, str]:
    """By Kafka's names, as the text of a properties file has them."""
    found = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(CERTIFICATES / "authority.pem")}
    if protocol == "SSL":
        found["ssl.keystore.location"] = str(CERTIFICATES / "client-encrypted.pem")
        found["ssl.key.password"] = "key-secret"
    if mechanism == "OAUTHBEARER":
        found |= {"sasl.mechanism": mechanism, "sasl.oauthbearer.token": unsecured_token(password)}
    elif mechanism is not None:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        jaas = f'{_SECURITY}.{module} required username="alice" password="{password}";'
        found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    return found


def unsecured_token(password: str) -> str:
    """As Kafka takes it where nobody has set up another check; too old where the password is not the right one."""
    now = time.time()
    claims = {"sub": "alice", "iat": now - 10, "exp": now + 3600 if password == PASSWORD else now - 3600}
    parts = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, claims))
    return f"{'.'.join(parts)}."
