"""What a command's client is told: by the command, by its file of properties, and by options."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.options import BOOTSTRAP_DEFAULT, Connection
from barnabas.cli.session import CLIENT_ID, client_settings, stated
from barnabas.cli.text import CommandFailed, Exit
from barnabas.client.settings import AdminConfig, ConsumerConfig, ProducerConfig


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def test_without_a_file_a_client_is_told_what_is_usual() -> None:
    found = client_settings(Connection(), AdminConfig, request_timeout_ms=5)
    assert found == {"bootstrap_servers": BOOTSTRAP_DEFAULT, "client_id": CLIENT_ID, "request_timeout_ms": 5}


def test_a_file_counts_for_more_than_what_is_usual_and_less_than_options(file: Path) -> None:
    file.write_text("# of mine\nbootstrap.servers = a:1,b:2\nclient.id=me\nacks=1\n")
    found = client_settings(Connection(command_config=file), ProducerConfig, client_id="other", linger_ms=7)
    assert found == {"bootstrap_servers": "a:1,b:2", "client_id": "me", "acks": "1", "linger_ms": 7}
    named = Connection(bootstrap_server="c:3", command_config=file)
    assert client_settings(named, ProducerConfig)["bootstrap_servers"] == "c:3"
    assert found | stated(acks="0", compression_type=None) == {**found, "acks": "0"}


@pytest.mark.parametrize(
    ("line", "said"),
    [("request.timout.ms=5", "did you mean request.timeout.ms?"), ("linger.ms=5", "is not a setting of a")],
)
def test_names_that_its_client_does_not_know_are_refused_with_their_line(line: str, said: str, file: Path) -> None:
    file.write_text(f"client.id=me\n{line}\n")
    with pytest.raises(CommandFailed) as refused:
        client_settings(Connection(command_config=file), AdminConfig)
    assert str(refused.value).startswith(f"{file}, line 2: ")
    assert said in str(refused.value)
    assert refused.value.code is Exit.USAGE


def test_one_file_for_several_clients(file: Path) -> None:
    file.write_text("linger.ms=5\nfetch.min.bytes=6\n")
    kinds = (AdminConfig, ProducerConfig, ConsumerConfig)
    found = [client_settings(Connection("a:1", file), kind, *kinds) for kind in kinds]
    usual = {"bootstrap_servers": "a:1", "client_id": CLIENT_ID}
    assert found == [usual, {**usual, "linger_ms": "5"}, {**usual, "fetch_min_bytes": "6"}]
