"""What Kafka's tools say of the broker itself: versions, features, quorum, cluster, log directories."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

Both = Callable[..., tuple[str, str]]
pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]
VERSIONS = re.compile(r"^\s*(\w+)\((\d+)\): (.+?),?$", re.MULTILINE)
# What one broker without groups, transactions, security and reassignment has to serve.
EXPECTED = {
    *("Produce", "Fetch", "ListOffsets", "Metadata", "ApiVersions", "CreateTopics", "DeleteTopics", "DeleteRecords"),
    *("InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs", "AlterConfigs", "DescribeLogDirs"),
    *("CreatePartitions", "IncrementalAlterConfigs", "DescribeCluster", "DescribeProducers", "DescribeQuorum"),
    *("DescribeTopicPartitions", "ListConfigResources"),
}


def test_api_versions(both: Both):
    """The same versions as Apache Kafka for every key that is served, and the latest of them usable by its client."""
    own, kafkas = both("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", "{bootstrap}")
    kafkas_by_name = {name: text for name, _, text in VERSIONS.findall(kafkas)}
    served = {name: text for name, _, text in VERSIONS.findall(own) if "UNSUPPORTED" not in text}
    assert set(served) >= EXPECTED
    assert served == {name: kafkas_by_name[name] for name in served}


def test_features(both: Both):
    own, kafkas = both("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", "{bootstrap}", "describe")
    pattern = re.compile(
        r"Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)"
    )
    found = {name: rest for name, *rest in pattern.findall(own)}
    expected = {name: rest for name, *rest in pattern.findall(kafkas)}
    assert found["metadata.version"][2] == expected["metadata.version"][2]
    assert set(found) <= set(expected)


@pytest.mark.parametrize("view", ["--status", "--replication"])
def test_metadata_quorum(both: Both, view: str):
    """The same fields; one voter that leads, follows nobody and lags behind nothing."""
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    own, kafkas = both(tool, "--bootstrap-server", "{bootstrap}", "describe", view)
    if view == "--status":
        fields = [re.findall(r"^(\w+):", each, re.MULTILINE) for each in (own, kafkas)]
        assert re.search(r"LeaderId:\s+1\b", own)
        assert re.search(r"MaxFollowerLag:\s+0\b", own)
    else:
        fields = [each.splitlines()[0].split() for each in (own, kafkas)]
        assert re.search(r"^1\s.*Leader\s*$", own, re.MULTILINE)
    assert fields[0] == fields[1]


def test_cluster_id(both: Both):
    own, kafkas = both("org.apache.kafka.tools.ClusterTool", "cluster-id", "--bootstrap-server", "{bootstrap}")
    assert own == kafkas == "Cluster ID: ID\n"


def test_cluster_endpoints(both: Both):
    own, kafkas = both("org.apache.kafka.tools.ClusterTool", "list-endpoints", "--bootstrap-server", "{bootstrap}")
    assert own == kafkas


def test_log_directories(both: Both):
    topics = "org.apache.kafka.tools.TopicCommand"
    both(topics, "--bootstrap-server", "{bootstrap}", "--create", "--topic", "sized", "--partitions", "1")
    both(
        "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", "{bootstrap}", "--topic", "sized", text="x\n"
    )  # fmt: skip
    tool = "org.apache.kafka.tools.LogDirsCommand"
    described = both(tool, "--bootstrap-server", "{bootstrap}", "--describe", "--topic-list", "sized")
    parsed = [json.loads(each[each.index("{") :]) for each in described]
    assert parsed[0] == parsed[1]
    (directory,) = parsed[0]["brokers"][0]["logDirs"]
    assert directory["error"] is None
    assert directory["partitions"][0]["partition"] == "sized-0"
    assert directory["partitions"][0]["size"] > 0
