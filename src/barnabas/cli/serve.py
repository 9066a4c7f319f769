"""`barnabas up` and `barnabas broker`: one broker as a process of its own."""

import argparse
import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator

from barnabas.cli.main import DATA_DIRECTORY
from barnabas.cli.text import WILDCARDS, Exit, bracketed, failed
from barnabas.config.broker import BrokerConfig
from barnabas.config.properties import Given, load, read_file, read_option
from barnabas.config.validation import ConfigError
from barnabas.log.checkpoint import CheckpointError
from barnabas.runtime.interfaces import Disk
from barnabas.runtime.system.event_loop import WatchedEventLoop
from barnabas.server.broker import Broker
from barnabas.server.quorum.metadata_log import MetadataUnavailable
from barnabas.server.replicas.log_directory import DirectoryFailed, DirectoryInUse, DirectoryMismatch

logger = logging.getLogger(__name__)

PID_FILE_NAME = "pid"
MEMORY_DIRECTORY = "/memory"  # a path on a disk that exists only in this process


def up(options: argparse.Namespace) -> int:
    if options.memory and options.data is not None:
        return failed("--memory keeps nothing, so --data has no meaning beside it", Exit.USAGE)
    directory = f"{options.data or DATA_DIRECTORY}/node-{options.node_id}"
    settings = {
        "node.id": str(options.node_id),
        "listeners": f"PLAINTEXT://{bracketed(options.host)}:{options.port}",
        "log.dirs": MEMORY_DIRECTORY if options.memory else os.path.abspath(directory),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # Whoever tries things out has few consumers and does not want to wait for them: members of consumer groups
        # learn of each other by heartbeats, which Kafka has every 5 s.
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    given = [Given(name, text, "barnabas up") for name, text in settings.items()]
    return _serve(options, lambda: given, memory=options.memory)


def broker(options: argparse.Namespace) -> int:
    def read_settings() -> list[Given]:
        with open(options.file, encoding="utf-8") as file:
            return read_file(file.read(), options.file)

    return _serve(options, read_settings, memory=False)


def _serve(options: argparse.Namespace, read_settings: Callable[[], list[Given]], *, memory: bool) -> int:
    # Several brokers of one supervisor write to one place: each says which it is.
    who = f"node {options.node_id} " if options.command == "up" and options.supervised else ""
    logging.basicConfig(
        level=options.log_level.upper(),
        stream=sys.stderr,
        format=f"%(asctime)s %(levelname)s {who}%(name)s: %(message)s",
    )
    try:
        settings = read_settings()
    except FileNotFoundError as error:
        return failed(f"there is no file {error.filename}", Exit.NOT_FOUND)
    except OSError as error:
        return failed(f"{error.filename}: {error.strerror}")
    except (ConfigError, UnicodeDecodeError) as error:
        return failed(str(error), Exit.USAGE)
    try:
        options_given = [read_option(option) for option in options.config]
        overridden = {given.name for given in options_given}
        given = [each for each in settings if each.name not in overridden] + options_given
        loaded = load(given, lenient=options.lenient)
        for warning in loaded.warnings:
            logger.warning("%s", warning)
        loop = WatchedEventLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            if options.command == "up":
                code = runner.run(_run(loaded.config, memory, options.supervised))
            else:
                code = runner.run(_run(_reachable(loaded.config), memory, supervised=False))
        logger.info("the longest turn of the event loop took %d ms: %s", *loop.watchdog.longest)
        return code
    except ConfigError as error:
        return failed(str(error), Exit.USAGE)
    except (DirectoryInUse, DirectoryMismatch, CheckpointError, MetadataUnavailable) as error:
        return failed(str(error))
    except DirectoryFailed as error:
        return failed(f"cannot start: {error}{_remedy(error.__cause__)}")
    except OSError as error:
        return failed(f"cannot start: {error}{_remedy(error)}")


def _remedy(error: BaseException | None) -> str:
    """What to do where that is known."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "; free some space on that volume, or name a directory on another one, and start again"
    return ""


async def _run(config: BrokerConfig, memory: bool, supervised: bool) -> int:
    from barnabas.runtime.system import system_runtime

    disk: Disk | None = None
    if memory:
        from barnabas.runtime.memory_disk import MemoryDisk

        disk = MemoryDisk()
    _raise_descriptor_limit()
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[bool] = loop.create_future()  # to stop; whether the others go on, and take over

    def ask_to_stop(others_go_on: bool) -> None:
        if not asked.done():
            asked.set_result(others_go_on)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop, True)
    if supervised:
        _at_end_of_input(loop, lambda: ask_to_stop(False))
    node = Broker(config, system_runtime(loop, disk))
    starting = asyncio.ensure_future(node.start())
    await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():  # for instance, the other voters are not there yet
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return 0
    starting.result()
    with contextlib.nullcontext() if memory else _pid_file(config):
        _quieten_garbage_collector()
        print("ready", ",".join(f"{bracketed(host)}:{port}" for host, port in node.addresses), flush=True)
        await asyncio.wait((asked, node.failed), return_when=asyncio.FIRST_COMPLETED)
        code = failed(f"stops: {_why(node.failed.result())}") if node.failed.done() else 0
        try:
            await node.stop(hand_over=asked.result() if asked.done() else True)
        except OSError as error:  # for instance a full disk; the next start recovers
            code = failed(f"did not stop in good order: {error}")
    return code


def _why(failure: Exception) -> str:
    if isinstance(failure, DirectoryFailed):
        return str(failure)
    return f"the metadata cannot be written or carried out: {failure}"


def _at_end_of_input(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """The supervisor holds the other end of the pipe, and writes nothing: it stops, or died."""
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 1):
            loop.remove_reader(descriptor)
            callback()

    loop.add_reader(descriptor, readable)


def _reachable(config: BrokerConfig) -> BrokerConfig:
    """A node among others must be told to them by an address that they can dial: as in Kafka, the name of its host
    stands for an empty one. Alone it needs none, for clients are told what they dialled."""
    voters = config.controller_quorum_voters
    if config.advertised_listeners or not (len(voters) > 1 or config.controller_quorum_bootstrap_servers):
        return config
    listeners = [each for each in config.listeners if each.listener_name not in config.controller_listener_names]
    if all(each.host not in WILDCARDS for each in listeners):
        return config
    import socket

    host = socket.gethostname()
    advertised = ",".join(str(each._replace(host=host) if each.host in WILDCARDS else each) for each in listeners)
    return BrokerConfig({**config.overrides, "advertised.listeners": advertised})


@contextlib.contextmanager
def _pid_file(config: BrokerConfig) -> Iterator[None]:
    path = os.path.join(config.data_directory, PID_FILE_NAME)
    with open(f"{path}.new", "w", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    os.replace(f"{path}.new", path)  # whoever reads it finds a whole number
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


def _raise_descriptor_limit() -> None:
    """Logs and connections need many; the soft limit is often 1024 where the hard one is far higher."""
    import resource

    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses «unlimited»; the soft limit then stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _quieten_garbage_collector() -> None:
    """What was built at start lives until the end: looking at it again and again would only cost latency."""
    gc.collect()
    gc.freeze()
