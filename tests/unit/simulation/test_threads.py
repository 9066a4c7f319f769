"""Offloaded calls of a simulated process: they overlap, one seed gives one order, and a killed one goes no further."""

from random import Random

import pytest

from barnabas.runtime.interfaces import Runtime
from barnabas.simulation.disk import SimulatedDisk
from barnabas.simulation.loop import Process, VirtualClock, VirtualLoop
from barnabas.simulation.network import NetworkProfile, SimulatedNetwork
from barnabas.simulation.runtime import simulated_runtime
from barnabas.simulation.trace import Trace


class World:
    def __init__(self, seed: int) -> None:
        self.loop = VirtualLoop()
        self.disk = SimulatedDisk()
        self.process = Process("node")
        self.operations: list[str] = []  # paths, in the order in which they were written
        self.disk.on_change = lambda kind, path: self.operations.append(path) if kind == "write" else None
        network = SimulatedNetwork(self.loop, Random(0), Trace(self.loop.time), NetworkProfile())
        self.runtime: Runtime = simulated_runtime(
            loop=self.loop,
            clock=VirtualClock(self.loop),
            disk=self.disk,
            network=network.host("node"),
            random=Random(seed),
            sync_ms=lambda: 1.0,
        )

    def write(self, path: str, times: int = 10) -> None:
        file = self.disk.open(path)
        for number in range(times):
            file.write(number, b"x")

    async def write_both(self) -> None:
        one, other = (self.runtime.offload(lambda path=path: self.write(path)) for path in ("/one", "/other"))  # type: ignore[misc]
        await one
        await other


def order(seed: int) -> list[str]:
    world = World(seed)
    world.loop.run(world.write_both())
    return world.operations


def test_calls_overlap_in_an_order_that_the_seed_decides() -> None:
    orders = [order(seed) for seed in range(5)]
    assert all(sorted(each) == ["/one"] * 10 + ["/other"] * 10 for each in orders)
    assert any(each not in (["/one"] * 10 + ["/other"] * 10, ["/other"] * 10 + ["/one"] * 10) for each in orders)
    assert orders == [order(seed) for seed in range(5)]
    assert len({tuple(each) for each in orders}) > 1


def test_the_event_loop_is_interrupted_between_two_of_its_disk_operations() -> None:
    world = World(1)

    async def main() -> None:
        offloaded = world.runtime.offload(lambda: world.write("/offloaded", 30))
        world.write("/loop", 30)
        await offloaded

    async def run() -> None:
        await world.loop.start(world.process, main())

    world.loop.run(run())
    own = [number for number, path in enumerate(world.operations) if path == "/loop"]
    assert "/offloaded" in world.operations[own[0] : own[-1]]


def test_one_that_writes_a_file_anew_waits_for_another() -> None:
    for seed in range(20):
        world = World(seed)

        async def main(world: World = world) -> None:
            calls = [
                world.runtime.offload(lambda data=data: world.disk.write_atomically("/file", data))  # type: ignore[misc]
                for data in (b"one", b"other")
            ]
            for call in calls:
                await call

        world.loop.run(main())
        assert world.disk.read_bytes("/file") in (b"one", b"other")


def test_a_killed_process_does_no_more_disk_operations() -> None:
    world = World(2)

    async def main() -> None:
        await world.runtime.offload(lambda: world.write("/file", 100))

    async def run() -> None:
        world.loop.start(world.process, main())
        while len(world.operations) < 10:
            await world.runtime.clock.sleep(0.1)
        world.loop.kill(world.process)
        await world.runtime.clock.sleep(1000)

    world.loop.run(run())
    assert 10 <= len(world.operations) < 100


def test_an_error_comes_to_the_caller() -> None:
    world = World(3)

    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            await world.runtime.offload(lambda: world.disk.size("/none"))
        assert await world.runtime.offload(lambda: 7) == 7

    world.loop.run(main())
