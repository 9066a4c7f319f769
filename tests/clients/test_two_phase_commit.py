"""Transactions that an outside coordinator ends (KIP-939), as far as Kafka 4.3 has them: behind two switches.

Apache Kafka 4.3.1 gives the same answers: BARNABAS_TEST_2PC_BOOTSTRAP names a broker that has both switches on,
BARNABAS_TEST_UNSTABLE_BOOTSTRAP one that has the first alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
import transaction_wire as transactions
from broker_process import BrokerProcess, wait_until
from transaction_wire import add, describe, end
from wire import Wire, create_topic

from barnabas.errors import ErrorCode as E
from barnabas.protocol.apis import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

ID = "two-phase"
UNSTABLE = {"unstable.api.versions.enable": "true"}
BOTH = {**UNSTABLE, "transaction.two.phase.commit.enable": "true"}
NO_TIMEOUT_MS = (1 << 31) - 1
TOO_LONG_MS = 900_001


@pytest.fixture
def wire() -> Iterator[Wire]:
    address = os.environ.get("BARNABAS_TEST_2PC_BOOTSTRAP")
    if address is not None:
        with Wire(address) as wire:
            yield wire
        return
    with BrokerProcess(config=BOTH) as broker, Wire(broker.address) as wire:
        yield wire


def init(wire: Wire, transactional_id: str = ID, *, timeout_ms: int = 60_000, **asked: bool) -> InitProducerIdResponse:
    transactions.await_coordinator(wire, transactional_id)
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **asked)
    return ask_until(lambda: wire.call(request, 6))


def ask_until(ask: Callable[[], InitProducerIdResponse]) -> InitProducerIdResponse:
    """Kafka has no producer ids at hand for a moment after its start."""
    answers = [ask()]

    def is_there() -> bool:
        if answers[-1].error_code == E.COORDINATOR_LOAD_IN_PROGRESS:
            answers.append(ask())
        return answers[-1].error_code != E.COORDINATOR_LOAD_IN_PROGRESS

    wait_until(is_there, "there are producer ids")
    return answers[-1]


def latest_version(wire: Wire) -> int:
    told = wire.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    (latest,) = [each.max_version for each in told.api_keys if each.api_key == ApiKey.INIT_PRODUCER_ID]
    return int(latest)


def test_the_version_is_offered(wire: Wire) -> None:
    assert latest_version(wire) == 6


@pytest.mark.parametrize("timeout_ms", [1, 60_000, TOO_LONG_MS, NO_TIMEOUT_MS, 0, -1])
def test_a_transaction_in_two_phases_has_no_timeout(wire: Wire, timeout_ms: int) -> None:
    name = f"{ID}-{timeout_ms}"
    given = init(wire, name, timeout_ms=timeout_ms, enable2_pc=True)
    assert given.error_code == E.NONE
    assert (given.ongoing_txn_producer_id, given.ongoing_txn_producer_epoch) == (-1, -1)
    assert describe(wire, name).transaction_timeout_ms == NO_TIMEOUT_MS


def test_others_keep_their_bound(wire: Wire) -> None:
    assert init(wire, timeout_ms=TOO_LONG_MS).error_code == E.INVALID_TRANSACTION_TIMEOUT
    assert init(wire, timeout_ms=0).error_code == E.INVALID_TRANSACTION_TIMEOUT
    assert init(wire).error_code == E.NONE
    assert describe(wire, ID).transaction_timeout_ms == 60_000


@pytest.mark.parametrize("enable2_pc", [False, True])
def test_what_was_prepared_cannot_be_kept(wire: Wire, enable2_pc: bool) -> None:
    answer = init(wire, enable2_pc=enable2_pc, keep_prepared_txn=True)
    assert (answer.error_code, answer.producer_id) == (E.UNSUPPORTED_VERSION, -1)


def test_without_an_id_nothing_of_it_counts(wire: Wire) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, enable2_pc=True, keep_prepared_txn=True
    )
    assert wire.call(request, 6).error_code == E.NONE


def test_anybody_who_knows_the_epoch_ends_it(wire: Wire) -> None:
    create_topic(wire, "two-phase")
    given = init(wire, "ended", enable2_pc=True)
    producer = (given.producer_id, given.producer_epoch)
    assert add(wire, "ended", producer, {"two-phase": [0]}) == {("two-phase", 0): E.NONE}
    assert end(wire, "ended", producer, commit=True, version=5).error_code == E.NONE
    assert end(wire, "ended", producer, commit=True, version=5).error_code in (E.NONE, E.CONCURRENT_TRANSACTIONS)


def test_a_producer_that_comes_back_without_it_has_a_timeout_again(wire: Wire) -> None:
    assert init(wire, "changes", enable2_pc=True).error_code == E.NONE
    assert init(wire, "changes").error_code == E.NONE
    assert describe(wire, "changes").transaction_timeout_ms == 60_000


@pytest.fixture
def unpermitted() -> Iterator[Wire]:
    """To a broker that knows the version and does not allow what it is for."""
    address = os.environ.get("BARNABAS_TEST_UNSTABLE_BOOTSTRAP")
    if address is not None:
        with Wire(address) as wire:
            yield wire
        return
    with BrokerProcess(config=UNSTABLE) as broker, Wire(broker.address) as wire:
        yield wire


def test_who_may_not_is_told_so(unpermitted: Wire) -> None:
    wire = unpermitted
    assert latest_version(wire) == 6
    assert init(wire, enable2_pc=True).error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    both = init(wire, enable2_pc=True, keep_prepared_txn=True)
    assert both.error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert init(wire, keep_prepared_txn=True).error_code == E.UNSUPPORTED_VERSION
    assert init(wire).error_code == E.NONE
