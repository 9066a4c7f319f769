"""Names that are no settings here: which are refused, which are warned of, and what was probably meant."""

from __future__ import annotations

import pytest

from barnabas.config.unknown import edits, judge, near_miss


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("authorizer.class.name", "org.example.Authorizer"),
        ("security.inter.broker.protocol", "SSL"),
        ("create.topic.policy.class.name", "org.example.Policy"),
        ("alter.config.policy.class.name", "org.example.Policy"),
        ("config.providers", "file"),
        ("some.vendor.ssl.strictness", "1"),
        ("vendor.super-secret.password", "x"),
        ("vendor_fsync_always", "true"),
        ("topics.unclean.elections", "false"),
    ],
)
def test_what_could_weaken_security_or_durability_is_refused_in_any_case(name: str, text: str) -> None:
    assert judge(name, text, lenient=False).is_refused
    assert judge(name, text, lenient=True).is_refused


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("authorizer.class.name", ""),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        ("num.io.threads", "8"),
        ("ssl.keystore.location", "/k.jks"),  # Kafka's; a listener that needs it is refused itself
        ("super.users", "User:admin"),
        ("listener.name.internal.ssl.keystore.location", "/k.jks"),
        ("foo.bar", "1"),
        ("confluent.balancer.enable", "true"),
        ("my.plugin.interval.seconds", "5"),
        ("x", "1"),
        ("file.delete.delay.ms", "1000"),  # Kafka's own tests give it to brokers
        ("remote.storage.enable", "true"),
    ],
)
def test_everything_else_is_a_warning(name: str, text: str) -> None:
    assert not judge(name, text, lenient=False).is_refused


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("log.segment.byts", "log.segment.bytes"),
        ("log.segmetn.bytes", "log.segment.bytes"),
        ("log_segment_bytes", "log.segment.bytes"),
        ("Log.Segment.Bytes", "log.segment.bytes"),
        ("num.partition", "num.partitions"),
        ("auto.create.topic.enable", "auto.create.topics.enable"),
        ("min.insync.replica", "min.insync.replicas"),
        ("num.io.thread", "num.io.threads"),
        ("brokerid", "broker.id"),
        ("log.unclean.leader.election.enable", "unclean.leader.election.enable"),
        ("log.min.insync.replicas", "min.insync.replicas"),
        ("retention.hours", "log.retention.hours"),
        ("flush.messages", "log.flush.interval.messages"),
    ],
)
def test_a_near_miss_is_refused_with_what_was_meant(name: str, meant: str) -> None:
    verdict = judge(name, "1", lenient=False)
    assert verdict.is_refused
    assert verdict.words.endswith(f"did you mean {meant}?")
    assert not judge(name, "1", lenient=True).is_refused


def test_the_warning_about_a_topic_setting_names_the_default_for_topics() -> None:
    assert judge("retention.ms", "1", lenient=False) == (
        False,
        "is a setting of topics and has no effect on a broker; log.retention.ms is the default for topics",
    )


@pytest.mark.parametrize("name", ["log.cleaner.fury", "offsets.pruning.interval.ms", "id", "nodes", "foo.bar.baz"])
def test_a_name_of_its_own_is_no_near_miss(name: str) -> None:
    assert near_miss(name) is None


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [("abc", "abc", 0), ("abc", "acb", 1), ("abc", "ab", 1), ("ab", "abc", 1), ("abc", "axc", 1), ("abc", "cab", 2)],
)
def test_edits(one: str, other: str, count: int) -> None:
    assert edits(one, other, 2) == count
    assert edits(other, one, 2) == count


def test_edits_are_counted_no_further_than_asked() -> None:
    assert edits("abcdef", "uvwxyz", 2) == 3
    assert edits("abc", "abcdefgh", 2) == 3
