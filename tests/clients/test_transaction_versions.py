"""The transaction version of the cluster: a feature level that may be changed while transactions are open."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import transaction_wire as transactions
from broker_process import BrokerProcess, wait_until
from transaction_wire import add, begin, describe, end, init
from wire import Wire, create_topic, fetch, whole_records

from barnabas.errors import ErrorCode as E
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.server.coordinators.coordinator import java_hash

UPGRADE, SAFE_DOWNGRADE = 1, 2
PARTITIONS = 50
ID = "x"


@pytest.fixture
def wire() -> Iterator[Wire]:
    """To a broker of the test's own: the level is that of a whole cluster."""
    if "BARNABAS_TEST_BOOTSTRAP" in os.environ:
        pytest.skip("changes the whole cluster; BARNABAS_TEST_BOOTSTRAP names one that others use too")
    with BrokerProcess() as broker, Wire(broker.address) as wire:
        create_topic(wire, "t")
        transactions.await_coordinator(wire, ID)
        yield wire


def set_version(wire: Wire, level: int) -> None:
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=level)
    update.upgrade_type = UPGRADE if level > version(wire) else SAFE_DOWNGRADE
    assert wire.call(UpdateFeaturesRequest(feature_updates=[update]), 1).error_code == E.NONE
    assert version(wire) == level


def version(wire: Wire) -> int:
    told = wire.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    levels = {each.name: int(each.max_version_level) for each in told.finalized_features}
    return levels.get("transaction.version", 0)


def record_versions(wire: Wire) -> list[int]:
    partition = java_hash(ID) % PARTITIONS
    records = whole_records(fetch(wire, "__transaction_state", {partition: 0})[partition].records)
    return [int.from_bytes((record.value or b"")[:2], "big") for record in records]


def settle(wire: Wire) -> None:
    wait_until(lambda: not describe(wire, ID).transaction_state.startswith("Prepare"), "the markers are written")


@pytest.mark.parametrize("level", [0, 1])
def test_an_old_cluster_fences_in_the_old_way(wire: Wire, level: int) -> None:
    set_version(wire, level)
    producer = begin(wire, ID)
    assert add(wire, ID, producer, {"t": [0]}) == {("t", 0): E.NONE}
    assert init(wire, ID).error_code == E.CONCURRENT_TRANSACTIONS
    settle(wire)
    assert describe(wire, ID).producer_epoch == 1
    assert init(wire, ID, producer).error_code == E.PRODUCER_FENCED  # nobody was given the epoch of the fence
    assert begin(wire, ID) == (producer[0], 2)
    assert set(record_versions(wire)) == {level}


def test_a_transaction_outlives_a_change_of_the_version(wire: Wire) -> None:
    set_version(wire, 0)
    producer = begin(wire, ID)
    add(wire, ID, producer, {"t": [0]})
    set_version(wire, 2)
    assert end(wire, ID, producer, commit=True, version=4).error_code == E.NONE
    settle(wire)
    described = describe(wire, ID)
    assert (described.transaction_state, described.producer_epoch) == ("CompleteCommit", producer[1])
    assert record_versions(wire) == [0, 0, 1, 1]
    add(wire, ID, producer, {"t": [0]})
    set_version(wire, 1)
    assert end(wire, ID, producer, commit=False, version=4).error_code == E.NONE
