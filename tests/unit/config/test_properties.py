"""Properties files: Java's notation, and complaints that name the line."""

from __future__ import annotations

import pytest

from barnabas.config.properties import Given, load, read_file, read_option
from barnabas.config.validation import ConfigError


def pairs(text: str) -> list[tuple[str, str]]:
    return [(given.name, given.text) for given in read_file(text, "f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a = b", [("a", "b")]),
        ("  a:b", [("a", "b")]),
        ("a b c", [("a", "b c")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a==b", [("a", "=b")]),
        ("a=b ", [("a", "b ")]),
        ("# a=b\n! c=d\n\n \t\n", []),
        ("a=b#c", [("a", "b#c")]),
        ("a=b\\\n   c", [("a", "bc")]),
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),
        ("a=b\\\\\\\nc", [("a", "b\\c")]),
        ("a=b\\", [("a", "b")]),
        ("a\\=b=c\\:d", [("a=b", "c:d")]),
        ("a\\ b=c", [("a b", "c")]),
        ("a=\\t\\n\\r\\f\\u0041\\z", [("a", "\t\n\r\fAz")]),
        ("a=1\r\nb=2\rc=3\n", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1\\\r\n  2", [("a", "12")]),
        ("a=1\\\n# no comment", [("a", "1# no comment")]),
    ],
)
def test_notation(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_lines_are_counted_where_a_setting_begins() -> None:
    text = "# comment\n\na=1\\\n  2\\\n  3\nb=4\n"
    assert [given.where for given in read_file(text, "f")] == ["f, line 3", "f, line 6"]


@pytest.mark.parametrize("escape", ["\\u12", "\\uzzzz", "\\u"])
def test_a_bad_escape_is_named_with_its_line(escape: str) -> None:
    with pytest.raises(ConfigError, match=r"^f, line 2: .*four hexadecimal digits"):
        read_file(f"a=b\nc={escape}", "f")


def test_a_file_of_kafka_loads() -> None:
    loaded = load(
        read_file(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
            "advertised.listeners=PLAINTEXT://localhost:9092\ncontroller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            "num.network.threads=3\nlog.dirs=/tmp/x\nnum.partitions=1\nlog.retention.hours=168\n",
            "server.properties",
        )
    )
    assert loaded.config.node_id == 1
    assert loaded.config.data_directory == "/tmp/x"
    assert [warning.partition(" has no effect")[0] for warning in loaded.warnings] == [
        "server.properties, line 9: num.network.threads"
    ]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load(read_file("log.segment.byts=1\nnum.partitions=0\nsome.ssl.thing=1\nxyzzy=1\n", "f"))
    lines = str(caught.value).splitlines()
    assert lines[0] == "f, line 1: log.segment.byts is not a broker setting; did you mean log.segment.bytes?"
    assert lines[1].startswith("f, line 2: num.partitions: '0' is not allowed")
    assert lines[2].startswith("f, line 3: some.ssl.thing is refused")
    assert len(lines) == 3


def test_other_names_are_told_and_do_no_harm() -> None:
    loaded = load(read_file("num.partitions=3\nxyzzy=1\n", "f"))
    assert loaded.config.num_partitions == 3
    assert loaded.warnings == ["f, line 2: xyzzy is not a broker setting and has no effect"]


def test_lenient_loads_in_spite_of_a_typing_error() -> None:
    loaded = load(read_file("log.segment.byts=1\n", "f"), lenient=True)
    assert loaded.warnings == [
        "f, line 1: log.segment.byts is not a broker setting and has no effect; did you mean log.segment.bytes?"
    ]


def test_what_does_not_fit_together_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"^f, line 2: advertised.listeners: "):
        load(read_file("num.partitions=1\nadvertised.listeners=PLAINTEXT://0.0.0.0:1", "f"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("num.io.threads", "event loop"),
        ("zookeeper.connect", "Kafka 4 has no such setting"),
        ("listener.name.plaintext.ssl.keystore.location", "single listeners"),
        ("remote.log.storage.system.enable", "tiered storage"),
    ],
)
def test_settings_without_effect_are_told(name: str, reason: str) -> None:
    (warning,) = load([Given(name, "1", "f, line 7")]).warnings
    assert warning.startswith(f"f, line 7: {name} has no effect: ")
    assert reason in warning


def test_protection_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name is refused"):
        load([Given("authorizer.class.name", "org.example.Authorizer", "f, line 1")])
    with pytest.raises(ConfigError, match=r"security\.inter\.broker\.protocol is refused"):
        load([Given("security.inter.broker.protocol", "SSL", "f, line 1")])
    assert load([Given("security.inter.broker.protocol", "PLAINTEXT", "f, line 1")]).warnings


def test_the_last_of_two_counts_and_is_told() -> None:
    loaded = load([Given("num.partitions", "1", "f, line 1"), Given("num.partitions", "2", "--config")])
    assert loaded.config.num_partitions == 2
    assert loaded.warnings == ["--config: num.partitions was given before, in f, line 1; the last one counts"]


def test_the_older_name_of_the_node() -> None:
    assert load([Given("broker.id", "7", "f, line 1")]).config.node_id == 7


def test_options() -> None:
    assert read_option("a.b=c=d") == Given("a.b", "c=d", "--config")
    for bad in ("a.b", "=c", " =c"):
        with pytest.raises(ConfigError, match="name=value"):
            read_option(bad)
