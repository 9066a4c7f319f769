"""Settings of security: what they demand of each other, JAAS, and that no secret is ever repeated."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.security_jaas import parse
from barnabas.client.security_settings import Credentials, credentials
from barnabas.client.security_tls import context_of
from barnabas.client.settings import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from barnabas.config.validation import ConfigError

TLS = Path(__file__).resolve().parent.parent.parent / "data" / "tls"
SECRET = "S3cret-of-mine"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
NO_CERTIFICATE = "-----BEGIN CERTIFICATE----- AAAA -----END CERTIFICATE-----"
USER = {"sasl_username": "alice", "sasl_password": SECRET}
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}


def config(**given: Any) -> AdminConfig:
    return AdminConfig(bootstrap_servers="localhost", **given)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN_MODULE} required username="alice" password="s";', {"username": "alice", "password": "s"}),
        (f"{PLAIN_MODULE} required username='alice' password='s' ;", {"username": "alice", "password": "s"}),
        (f"{PLAIN_MODULE} required username=alice password=s;", {"username": "alice", "password": "s"}),
        (
            f'  {PLAIN_MODULE}\n  REQUIRED\n  username = "alice"\n  password="s";\n',
            {"username": "alice", "password": "s"},
        ),
        (f'{PLAIN_MODULE} required password="a=b;c d\'e\\"f\\\\g\\n";', {"password": "a=b;c d'e\"f\\g\n"}),
        (f"kafkashaded.{PLAIN_MODULE} required;", {}),
    ],
)
def test_jaas(text: str, options: dict[str, str]) -> None:
    assert parse(text) == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        SECRET,
        f'{PLAIN_MODULE} required password="{SECRET}"',
        f'{PLAIN_MODULE} password="{SECRET}";',
        f'{PLAIN_MODULE} required password="{SECRET};',
        f"{PLAIN_MODULE} required password={SECRET} and more;",
        f'{PLAIN_MODULE} required password="{SECRET}"; {PLAIN_MODULE} required;',
    ],
)
def test_what_is_no_jaas_is_not_repeated(text: str) -> None:
    with pytest.raises(
        ConfigError, match="sasl_jaas_config: the value is not allowed; it must have the form"
    ) as caught:
        config(**SASL, sasl_jaas_config=text)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN_MODULE), ("SCRAM-SHA-256", SCRAM_MODULE), ("SCRAM-SHA-512", SCRAM_MODULE)],
)
def test_credentials_are_the_same_from_jaas_and_by_name(mechanism: str, module: str) -> None:
    both = {"security_protocol": "sasl_ssl", "sasl_mechanism": mechanism}
    wanted = Credentials(mechanism=mechanism, username="alice", password=SECRET)
    assert credentials(config(**both, **USER)) == wanted
    jaas = f'{module} required username="alice" password="{SECRET}";'
    assert credentials(config(**both, sasl_jaas_config=jaas)) == wanted


@pytest.mark.parametrize("kind", [AdminConfig, ProducerConfig, ConsumerConfig])
def test_every_client_has_them_by_kafkas_names_too(kind: type[ClientConfig]) -> None:
    found = kind(
        **{
            "bootstrap.servers": "localhost",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": SECRET,
            "ssl.truststore.type": "pem",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert (found.security_protocol, found.ssl_endpoint_identification_algorithm) == ("SASL_SSL", "")


def test_plaintext_is_the_default_and_checks_host_names_where_it_is_not() -> None:
    assert config().security_protocol == "PLAINTEXT"
    assert config(security_protocol="SSL").ssl_endpoint_identification_algorithm == "https"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security_protocol": "TLS"}, "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism is missing; SASL_SSL needs one of PLAIN"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "one of PLAIN, SCRAM-SHA-256"),
        (SASL, "sasl_username is missing; PLAIN needs a username and a password"),
        ({**SASL, "sasl_username": "alice"}, "sasl_password is missing"),
        ({**SASL, "sasl_username": "alice", "sasl_password": f"a\0{SECRET}"}, "code 0"),
        ({**SASL, "sasl_jaas_config": f'{PLAIN_MODULE} required password="{SECRET}";'}, "username is missing"),
        ({**SASL, "sasl_jaas_config": f"{PLAIN_MODULE} required x={SECRET};"}, "only the options username"),
        ({**SASL, "sasl_jaas_config": f"{SCRAM_MODULE} required;"}, "needs PlainLoginModule, not ScramLoginModule"),
        ({**SASL, "sasl_jaas_config": f"{SECRET.replace('-', '')} required;"}, "not another login module"),
        ({**SASL, **USER, "sasl_jaas_config": f"{PLAIN_MODULE} required;"}, "give sasl_jaas_config alone"),
        ({**SASL, **USER, "sasl_oauthbearer_token": SECRET}, "needs sasl_mechanism=OAUTHBEARER, not PLAIN"),
        ({**SASL, "sasl_mechanism": "OAUTHBEARER"}, "sasl_oauthbearer_token is missing; OAUTHBEARER needs it"),
        ({**SASL, **USER, "sasl_mechanism": "OAUTHBEARER"}, "sasl_username: give sasl_oauthbearer_token alone"),
        ({**SASL, "sasl_oauthbearer_token": 5}, "sasl_oauthbearer_token: the value is not allowed; it must be text"),
        (USER, "sasl_username: this needs security_protocol=SASL_SSL or SASL_PLAINTEXT"),
        ({**USER, "security_protocol": "SSL"}, "sasl_username: this needs security_protocol=SASL_SSL"),
        ({**SASL, **USER, "ssl_key_password": SECRET}, "ssl_key_password: this needs security_protocol=SSL"),
        ({"security_protocol": "SSL", "ssl_truststore_type": "JKS"}, "only PEM is supported; convert it: keytool"),
        ({"security_protocol": "SSL", "ssl_keystore_type": "PKCS12"}, "then openssl pkcs12 -in"),
        ({"ssl_truststore_password": SECRET}, "ssl_truststore_password has no meaning here: a truststore is PEM"),
        ({"ssl_keystore_password": SECRET}, "its key has ssl_key_password"),
        (
            {"security_protocol": "SSL", "ssl_truststore_location": "f", "ssl_truststore_certificates": SECRET},
            "ssl_truststore_certificates: give these or ssl_truststore_location, not both",
        ),
        ({"security_protocol": "SSL", "ssl_keystore_location": "f", "ssl_keystore_key": SECRET}, "not both"),
        ({"security_protocol": "SSL", "ssl_keystore_key": SECRET}, "need each other"),
        ({"security_protocol": "SSL", "ssl_key_password": SECRET}, "there is no key"),
        ({"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "x"}, "it must be https, or empty"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_without_a_secret(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**given)
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_secrets_are_shown_nowhere() -> None:
    found = config(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        **USER,
        ssl_truststore_certificates=SECRET,
        ssl_keystore_key=SECRET,
        ssl_keystore_certificate_chain=SECRET,
        ssl_key_password=SECRET,
    )
    assert SECRET not in repr(found)
    assert "sasl.username='alice'" in repr(found)
    assert SECRET not in repr(credentials(found))


def test_a_token_may_be_a_function() -> None:
    found = config(**{**SASL, "sasl_mechanism": "OAUTHBEARER"}, sasl_oauthbearer_token=lambda: SECRET)
    token = credentials(found).token
    assert callable(token)
    assert token() == SECRET
    assert SECRET not in repr(found)


# Certificates


def secured(**given: Any) -> AdminConfig:
    return config(security_protocol="SSL", **given)


def in_one_line(name: str) -> str:
    return (TLS / name).read_text().replace("\n", " ")


def test_certificates_come_from_files_or_as_text() -> None:
    of_files = context_of(
        secured(
            ssl_truststore_location=str(TLS / "authority.pem"),
            ssl_keystore_location=str(TLS / "client-encrypted.pem"),
            ssl_key_password="key-secret",
        )
    )
    of_text = context_of(
        secured(
            ssl_truststore_certificates=in_one_line("authority.pem"),
            ssl_keystore_key=in_one_line("client.pem"),
            ssl_keystore_certificate_chain=in_one_line("client.pem").partition("-----END PRIVATE KEY-----")[2],
            ssl_endpoint_identification_algorithm="",
        )
    )
    assert of_files.get_ca_certs() == of_text.get_ca_certs() != []
    assert of_files.check_hostname
    assert not of_text.check_hostname


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ssl_truststore_location": "{}/missing.pem"}, "ssl_truststore_location: {}/missing.pem cannot be read"),
        ({"ssl_truststore_location": "{}/store.jks"}, "store.jks is JKS, and only PEM can be read; convert it"),
        ({"ssl_keystore_location": "{}/store.p12"}, "is PKCS12 (or another binary form), and only PEM can"),
        ({"ssl_truststore_location": "{}/empty.pem"}, "there is no certificate in it"),
        ({"ssl_truststore_certificates": SECRET}, "ssl_truststore_certificates: there is no certificate in it"),
        ({"ssl_truststore_certificates": NO_CERTIFICATE}, "cannot be read"),
        ({"ssl_keystore_location": "{}/empty.pem"}, "there is no private key in it"),
        ({"ssl_keystore_location": str(TLS / "authority.pem")}, "there is no private key in it"),
        ({"ssl_keystore_location": str(TLS / "client-encrypted.pem")}, "encrypted, and its password is not given"),
        (
            {"ssl_keystore_location": str(TLS / "client-encrypted.pem"), "ssl_key_password": SECRET},
            "perhaps the password of the key is wrong",
        ),
        (
            {
                "ssl_keystore_key": in_one_line("server.pem"),
                "ssl_keystore_certificate_chain": in_one_line("authority.pem"),
            },
            "ssl_keystore_key: the private key does not belong to the first certificate",
        ),
    ],
    ids=lambda each: str(each)[:60],
)
def test_certificates_that_cannot_be_used(tmp_path: Path, given: dict[str, str], words: str) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "store.p12").write_bytes(b"\x30\x82\x0a\x00")
    settings = {name: value.replace("{}", str(tmp_path)) for name, value in given.items()}
    with pytest.raises(ConfigError) as caught:
        context_of(secured(**settings))
    assert words.replace("{}", str(tmp_path)) in str(caught.value)
    assert SECRET not in str(caught.value)


def test_errors_cross_processes() -> None:
    from barnabas.client.errors import AuthenticationError, TlsError
    from barnabas.errors import ErrorCode

    for error in (AuthenticationError(ErrorCode.SASL_AUTHENTICATION_FAILED, "words"), TlsError("words")):
        found = pickle.loads(pickle.dumps(error))
        assert (type(found), str(found), found.retriable) == (type(error), str(error), False)
