"""The groups' offsets are compacted all the time while nodes crash and the network fails: no commit is forgotten."""

import pytest
from fresh_seeds import fresh_seed

from barnabas.log.segment_swap import SegmentSwap
from barnabas.simulation import character
from barnabas.simulation.run import Options, run_seed

SECONDS = 8
EAGER = {"log.roll.ms": "200", "log.cleaner.backoff.ms": "200", "log.cleaner.min.cleanable.ratio": "0.0"}


def test_a_fresh_seed_with_eager_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(character, "GROUP_SETTINGS", {**character.GROUP_SETTINGS, **EAGER})
    swapped = []
    replace = SegmentSwap.replace

    def counted(self: SegmentSwap, *args: object, **settings: object) -> bool:
        swapped.append(replace(self, *args, **settings))  # type: ignore[arg-type]
        return swapped[-1]

    monkeypatch.setattr(SegmentSwap, "replace", counted)
    for number, nodes in enumerate((3, 3, 1)):
        seed = fresh_seed(f"compaction {number}")
        result = run_seed(seed, Options(nodes=nodes, seconds=SECONDS))
        assert result.failure is None, (
            f"seed {seed}, {nodes} nodes: {result.failure.kind}: {result.failure.message}\n{result.failure.details}"
        )
    assert any(swapped)
