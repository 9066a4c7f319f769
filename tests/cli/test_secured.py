"""The command line and secured brokers: settings from --command-config, and nothing said that is secret."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from secured_kafka import PASSWORD, client_settings

from barnabas.cli.text import Exit

Run = Callable[..., Any]


def written(path: Path, settings: dict[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def there_and_back(run_alone: Run, address: str, config: str, topic: str) -> None:
    given = ("-b", address, "--command-config", config)
    run_alone("topic", "create", topic, *given)
    run_alone("produce", topic, *given, text="one\ntwo\n")
    assert run_alone("consume", topic, "--from-beginning", "--max-messages", "2", *given).out == "one\ntwo\n"
    assert topic in json.dumps(run_alone("topic", "list", "--json", *given).document)


def test_barnabas_behind_tls(run_alone: Run, behind_tls: str, name: Callable[[str], str], tmp_path: Path) -> None:
    there_and_back(
        run_alone, behind_tls, written(tmp_path / "client.properties", client_settings("SSL")), name("secured")
    )


@pytest.mark.java
def test_apache_kafka(
    run_alone: Run, apache_listeners: dict[str, str], name: Callable[[str], str], tmp_path: Path
) -> None:
    config = written(tmp_path / "client.properties", client_settings("SASL_SSL", "SCRAM-SHA-512"))
    there_and_back(run_alone, apache_listeners["SASL_SSL"], config, name("secured"))


@pytest.mark.java
@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["text", "json"])
def test_a_wrong_password(
    run_alone: Run, apache_listeners: dict[str, str], tmp_path: Path, as_json: tuple[str, ...]
) -> None:
    config = written(tmp_path / "client.properties", client_settings("SASL_PLAINTEXT", "PLAIN", f"not {PASSWORD}"))
    given = ("-b", apache_listeners["SASL_PLAINTEXT"], "--command-config", config)
    said = run_alone("topic", "list", *given, *as_json, code=Exit.FAILED)
    assert "the broker refuses user alice by PLAIN" in said.err
    assert PASSWORD not in said.err + said.out


def test_a_file_with_a_store_of_java(run_alone: Run, tmp_path: Path) -> None:
    settings = {"security.protocol": "SSL", "ssl.truststore.location": "trust.jks", "ssl.truststore.password": PASSWORD}
    config = written(tmp_path / "client.properties", settings)
    said = run_alone("topic", "list", "--command-config", config, code=Exit.USAGE)
    assert "client.properties, line 3: ssl.truststore.password has no meaning here" in said.err
    assert "keytool -list -rfc -keystore STORE > ca.pem" in " ".join(said.err.split())
    assert PASSWORD not in said.err
