"""The network in memory: order, windows, blocks, resets, ends of processes and of power."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from barnabas.runtime.interfaces import Socket
from barnabas.simulation.disk import SimulatedDisk
from barnabas.simulation.loop import VirtualClock, VirtualLoop
from barnabas.simulation.network import NetworkProfile, SimulatedNetwork
from barnabas.simulation.trace import Trace


class World:
    def __init__(self, loop: VirtualLoop, profile: NetworkProfile) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.network = SimulatedNetwork(loop, Random(1), Trace(loop.time), profile)
        self.accepted: list[Socket] = []

    async def pair(self) -> tuple[Socket, Socket]:
        """A connection from host a to host b."""
        if ("b", 1) not in self.network.listeners:
            self.network.host("b").listen("b", 1).start(self.accepted.append)
        near = await self.network.host("a").connect("b", 1)
        await self.clock.sleep(100)
        return near, self.accepted[-1]

    async def receive(self, socket: Socket, size: int) -> bytes:
        """Exactly so many bytes, in virtual time."""
        received = bytearray()
        done = self.loop.create_future()
        buffer = memoryview(bytearray(1000))

        def readable() -> None:
            count = socket.receive_into(buffer[: size - len(received)])
            received.extend(buffer[:count])
            if len(received) == size or count == 0:
                socket.on_readable(None)
                done.set_result(None)

        socket.on_readable(readable)
        await done
        return bytes(received)


def run(main: Callable[[World], Awaitable[None]], profile: NetworkProfile | None = None) -> None:
    loop = VirtualLoop()
    errors: list[object] = []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))

    async def started() -> None:
        await main(World(loop, profile or NetworkProfile()))

    loop.run(started())
    assert errors == []


@pytest.mark.parametrize("fragment_rate", [0.0, 1.0])
def test_bytes_arrive_once_and_in_order(fragment_rate: float) -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        sent = bytearray()
        for number in range(100):
            data = bytes([number]) * 7
            while data:
                count = near.send(data)
                sent += data[:count]
                data = data[count:]
        before = world.clock.monotonic_ms()
        assert await world.receive(far, 700) == sent
        assert world.clock.monotonic_ms() > before

    run(main, NetworkProfile(fragment_rate=fragment_rate, spike_rate=0.5))


def test_a_full_window_holds_the_sender_back() -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        assert near.send(bytes(150)) == 100
        with pytest.raises(BlockingIOError):
            near.send(b"x")
        writable: list[float] = []
        near.on_writable(lambda: (writable.append(world.clock.monotonic_ms()), near.on_writable(None)))
        await world.clock.sleep(50)
        assert writable == []
        await world.receive(far, 60)
        await world.clock.sleep(50)
        assert len(writable) == 1
        assert near.send(bytes(100)) == 60

    run(main, NetworkProfile(window_bytes=100))


def test_what_is_sent_into_a_block_arrives_after_it() -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        world.network.block("a", "b")
        near.send(b"one")
        await world.clock.sleep(1000)
        with pytest.raises(BlockingIOError):
            far.receive_into(memoryview(bytearray(10)))
        far.send(b"back")  # the other way is open
        assert await world.receive(near, 4) == b"back"
        world.network.unblock("a", "b")
        assert await world.receive(far, 3) == b"one"

    run(main)


def test_news_of_a_read_do_not_pass_a_block_either() -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        near.send(bytes(100))
        await world.clock.sleep(10)
        world.network.block("b", "a")
        assert await world.receive(far, 100)
        with pytest.raises(BlockingIOError):
            near.send(b"x")
        world.network.unblock("b", "a")
        assert near.send(b"x") == 1

    run(main, NetworkProfile(window_bytes=100))


def test_a_close_is_the_end_after_all_bytes() -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        near.send(b"last")
        near.close()
        assert await world.receive(far, 4) == b"last"
        await world.clock.sleep(10)
        assert far.receive_into(memoryview(bytearray(10))) == 0
        far.send(b"nobody is there")
        await world.clock.sleep(10)
        with pytest.raises(ConnectionResetError):
            far.send(b"x")

    run(main)


def test_nobody_listens() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ConnectionRefusedError):
            await world.network.host("a").connect("b", 1)
        world.network.block("a", "b")
        before = world.clock.monotonic_ms()
        with pytest.raises(TimeoutError):
            await world.network.host("a").connect("b", 1)
        assert world.clock.monotonic_ms() - before == pytest.approx(10_000)

    run(main)


def test_the_kernel_closes_what_a_dead_process_had_open() -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        far.send(b"sent before")
        world.network.process_ended("b")
        assert await world.receive(near, 11) == b"sent before"
        await world.clock.sleep(10)
        assert near.receive_into(memoryview(bytearray(10))) == 0
        with pytest.raises(ConnectionRefusedError):
            await world.network.host("a").connect("b", 1)
        world.network.host("b").listen("b", 1)  # the address is free again

    run(main)


def test_a_loss_of_power_is_silent_until_somebody_asks() -> None:
    async def main(world: World) -> None:
        near, _far = await world.pair()
        world.network.power_lost("b")
        near.send(b"anybody there?")
        await world.clock.sleep(60_000)
        with pytest.raises(BlockingIOError):
            near.receive_into(memoryview(bytearray(10)))
        world.network.power_returned("b")
        near.send(b"and now?")
        await world.clock.sleep(10)
        with pytest.raises(ConnectionResetError):
            near.receive_into(memoryview(bytearray(10)))

    run(main)


def test_a_file_is_sent_as_far_as_there_is_room() -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        disk = SimulatedDisk()
        file = disk.open("/f")
        file.write(0, b"0123456789")
        assert near.send_file(file, 2, 100) == 8
        assert near.send_file(file, 10, 100) == 0
        assert await world.receive(far, 8) == b"23456789"

    run(main)


def test_whoever_does_not_read_everything_is_called_again() -> None:
    async def main(world: World) -> None:
        near, far = await world.pair()
        calls: list[int] = []
        buffer = memoryview(bytearray(1))
        far.on_readable(lambda: calls.append(far.receive_into(buffer)))
        near.send(b"abcde")
        await asyncio.wait_for(asyncio.ensure_future(world.clock.sleep(20)), 1)
        assert calls == [1] * 5

    run(main)
