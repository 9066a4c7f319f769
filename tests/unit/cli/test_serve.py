"""A broker that must stop says why, whatever else goes wrong while it does."""

from __future__ import annotations

import argparse
import asyncio
import errno

import pytest

from barnabas.cli import serve
from barnabas.config.broker import BrokerConfig
from barnabas.server.replicas.log_directory import DirectoryFailed


class FailingBroker:
    """Its disk fails as soon as it serves, and does not take its last words either."""

    addresses = (("127.0.0.1", 9092),)

    def __init__(self, _config: BrokerConfig, _runtime: object) -> None:
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        self.failed.set_result(DirectoryFailed("the log directory failed at t-0"))

    async def stop(self, *, hand_over: bool) -> None:
        assert hand_over
        raise OSError("no space left")


def test_the_reason_is_told_though_the_end_fails_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "Broker", FailingBroker)
    assert asyncio.run(serve._run(BrokerConfig({}), memory=True, supervised=False)) == 1
    said = capsys.readouterr().err
    assert "stops: the log directory failed at t-0" in said
    assert "did not stop in good order: no space left" in said


class FullBroker(FailingBroker):
    """Its disk is full before it serves."""

    async def start(self) -> None:
        cause = OSError(errno.ENOSPC, "No space left on device")
        raise DirectoryFailed(f"the log directory /data failed at t-0: {cause}") from cause


def test_a_full_disk_at_start_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "Broker", FullBroker)
    options = argparse.Namespace(command="up", node_id=1, supervised=False, log_level="error", config=[], lenient=False)
    assert serve._serve(options, list, memory=True) == 1
    said = capsys.readouterr().err
    assert "barnabas: cannot start: the log directory /data failed at t-0: " in said
    assert "No space left on device; free some space on that volume" in said
    assert "Traceback" not in said
