"""What a fetch answers where a file of the partition is damaged."""

from __future__ import annotations

import asyncio

import pytest
from replicas import ManualClock, batch, partition

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.log.transaction_index import CorruptTransactionIndex
from barnabas.protocol.special_numbers import ACKS_ALL, READ_COMMITTED


def test_a_damaged_transaction_index_is_an_error_of_its_partition(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: object) -> None:
        raise CorruptTransactionIndex("00000000000000000000.txnindex: version 7")

    async def test() -> None:
        found = partition(clock=ManualClock())
        assert found.append(batch(3), ACKS_ALL).error == ErrorCode.NONE
        found.log.high_watermark = 3
        monkeypatch.setattr(Log, "aborted_transactions", broken)
        data = found.fetch(fetch_offset=0, size_bytes_max=1000, at_least_one=True, isolation_level=READ_COMMITTED)
        assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "version 7; a restart rebuilds it" in caplog.text

    asyncio.run(test())
