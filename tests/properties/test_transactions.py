"""Any dialogue with a shard of transactions keeps the promises of KIP-890."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from transaction_script import TransactionScript

NAMES = st.sampled_from(["a", "b"])
EPOCHS = st.sampled_from(["", "", "", " epoch=-1", " epoch=+1"])
VERSIONS = st.sampled_from([" version=0", " version=2"])

COMMANDS = st.one_of(
    st.builds("init {}{}".format, NAMES, st.sampled_from(["", " again"])),
    st.builds("add {} t-{}{}{}".format, NAMES, st.integers(0, 2), EPOCHS, VERSIONS),
    st.builds("commit {}{}{}".format, NAMES, EPOCHS, VERSIONS),
    st.builds("abort {}{}{}".format, NAMES, EPOCHS, VERSIONS),
    st.sampled_from(["written", "restart", "wait 5000", "wait 70000", "fail NOT_ENOUGH_REPLICAS"]),
    st.sampled_from(["settings version=0", "settings version=2", "epochs 32765", "epochs 32766"]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(COMMANDS, max_size=40))
def test_each_transaction_has_one_end(commands: list[str]) -> None:
    """The script itself checks that a replay gives the same state, and that everybody is answered once."""
    script = TransactionScript()
    script.run("init a")
    ends: dict[tuple[int, int, int], bool] = {}  # producer, epoch and start of each transaction that has ended
    for command in commands:
        if command.startswith("epochs") and script.shard.transactions["x"].state.name != "EMPTY":
            continue  # that is not what happens to a transaction
        script.run(command)
        known = script.shard.transactions["x"]
        for markers in script.markers:
            assert markers.are_of(known), "nothing else is decided while markers are on their way"
            end = (markers.producer_id, markers.producer_epoch, known.start_timestamp_ms)
            assert ends.setdefault(end, markers.committed) == markers.committed
            assert all(each in known.partitions for each in markers.partitions)
