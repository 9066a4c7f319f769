"""The golden dialogues of consumer groups, request by request over the wire.

Against Barnabas here; BARNABAS_TEST_BOOTSTRAP names another broker, and compat/kafka-tools plays them to Apache Kafka.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from live_consumer_script import differences

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts" / "consumer_groups"
# Those that need no long wait, and no settings or failures that only a test's own shard can have.
PLAYED = ["join", "fenced", "bad_requests", "offsets", "upgrade", "upgrade_during_rebalance", "downgrade_static"]


@pytest.mark.parametrize("name", PLAYED)
def test_answers_are_those_that_are_written_down(bootstrap: str, name: str) -> None:
    assert differences((SCRIPTS / f"{name}.txt").read_text(encoding="utf-8"), bootstrap) == []
