"""The clients for scripts: the same ones, on an event loop in a thread of their own.

    from barnabas.client.synchronous import Producer

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("greetings", b"hello")
        producer.send("greetings", b"hello").result()     # a future, as from `concurrent.futures`

Each method of the asyncio client is here under its name and waits for its end; what would be awaited has `result()`,
`async with` is `with`, `async for` is `for`. Constructing starts. Always holds: the client is touched by its own thread
only; an interrupted wait cancels what was waited for. Does not know: what the clients do.
"""

import asyncio
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

from barnabas import client
from barnabas.client.errors import IllegalStateError, KafkaTimeoutError
from barnabas.runtime.system.event_loop import new_event_loop

CLOSE_SECONDS_MAX: Final = 10.0  # at the end of a program that closed nothing
_FACES: Final = ("Admin", "Consumer", "Producer")
_BEGIN_AND_END: Final = ("__aenter__", "__aexit__")

Admin: Any
Consumer: Any
Producer: Any


class Loop:
    """An event loop that runs in a thread until it is stopped."""

    def __init__(self, name: str) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def wait_for(self, work: Coroutine[Any, Any, Any], timeout_seconds: float | None = None) -> Any:
        """What it returns or raises. Interrupted, for instance from the keyboard, it is cancelled."""
        if self.is_here:
            work.close()
            raise IllegalStateError(
                "a callback of this client cannot wait for it; it can call what does not wait, as seek, pause and "
                "commit_async, and the asyncio client can do the rest"
            )
        if not self.is_running:
            work.close()
            raise client.errors.ClientClosedError("this client is closed; make a new one")
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result(timeout_seconds)
        except TimeoutError:
            if running.done():
                raise
            running.cancel()
            raise KafkaTimeoutError(f"not within {timeout_seconds} s") from None
        except BaseException:
            running.cancel()
            raise

    @property
    def is_here(self) -> bool:
        """Whether the caller is a callback of the client."""
        return threading.current_thread() is self._thread

    @property
    def is_running(self) -> bool:
        """Not in a process that was forked: threads stay behind."""
        return self._thread.is_alive()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS_MAX)
        if not self._thread.is_alive():
            self._loop.close()


class Waiting:
    """What an asyncio client would have awaited."""

    def __init__(self, face: "Face", awaited: Any) -> None:
        self._face = face
        self._awaited = awaited

    def result(self, timeout: float | None = None) -> Any:
        """Waits, for at most so many seconds."""

        async def wait() -> Any:
            return await self._awaited

        return self._face._loop.wait_for(wait(), timeout)

    def done(self) -> bool:
        return bool(self._face._call(self._awaited.done))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            self.result(timeout)
        except KafkaTimeoutError:
            raise
        except client.errors.KafkaError as error:
            return error
        return None

    def __len__(self) -> int:
        return len(self._awaited)

    def __getitem__(self, index: Any) -> Any:
        return self._face._translate(self._awaited[index])


class Context:
    """`async with` as `with`."""

    def __init__(self, face: "Face", manager: Any) -> None:
        self._face = face
        self._manager = manager

    def __enter__(self) -> Any:
        return self._face._call(self._manager.__aenter__)

    def __exit__(self, *error: object) -> Any:
        return self._face._call(self._manager.__aexit__, *error)


class Face:
    """One client. Its methods are made from those of the asyncio class by `face_of`."""

    ASYNC_CLASS: type

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._loop = Loop(f"barnabas-{self.ASYNC_CLASS.__name__.lower()}")
        try:
            self._client = self._loop.wait_for(self._make(args, settings))
        except BaseException:
            self._loop.stop()
            raise
        self._finalize = weakref.finalize(self, _end, self._loop, self._client)

    async def _make(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        made = self.ASYNC_CLASS(*args, **settings)
        try:
            await made.start()
        except BaseException:
            await made.close()
            raise
        return made

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Ends the client and its thread."""
        if self._loop.is_here:
            raise IllegalStateError("a callback of this client cannot close it; let the thread that made it do so")
        if self._finalize.detach() is None or not self._loop.is_running:
            return
        try:
            self._call(self._client.close, *args, **kwargs)
        finally:
            self._loop.stop()

    def __enter__(self) -> "Face":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(self._client)

    def _iterate(self, source: Any) -> Iterator[Any]:
        if not hasattr(source, "__aiter__"):
            raise TypeError(f"{type(source).__name__} cannot be iterated over")
        iterator = self._call(lambda: _Kept(source.__aiter__())).kept
        while True:
            try:
                yield self._call(iterator.__anext__)
            except StopAsyncIteration:
                return

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def run() -> Any:
            found = function(*args, **kwargs)
            return await found if inspect.iscoroutine(found) else found

        if self._loop.is_here and not inspect.iscoroutinefunction(function):
            return self._translate(function(*args, **kwargs))
        return self._translate(self._loop.wait_for(run()))

    def _translate(self, found: Any) -> Any:
        """What only works in an event loop, as what works without."""
        if found is getattr(self, "_client", None):
            return self
        if all(hasattr(found, name) for name in _BEGIN_AND_END):
            return Context(self, found)
        if hasattr(found, "__aiter__"):
            return self._iterate(found)
        return Waiting(self, found) if hasattr(found, "__await__") else found


class _Kept:
    """Something that shall not be translated."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept


def _end(loop: Loop, asynchronous: Any) -> None:
    """For a client that nobody closed, when it is thrown away or the program ends."""
    if not loop.is_running:
        return
    try:
        loop.wait_for(asynchronous.close(), CLOSE_SECONDS_MAX)
    finally:
        loop.stop()


def face_of(asynchronous: type) -> type:
    """The class for scripts that does what this class for asyncio does."""
    members: dict[str, Any] = {"ASYNC_CLASS": asynchronous, "__doc__": asynchronous.__doc__}
    for name, member in inspect.getmembers(asynchronous):
        if name.startswith("_") or name in ("start", "close"):
            continue
        if isinstance(member, property):
            members[name] = property(functools.partial(_read, name=name), doc=member.__doc__)
        elif callable(member):
            members[name] = _method(name, member)
    return type(asynchronous.__name__, (Face,), members)


def _method(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Face, *args: Any, **kwargs: Any) -> Any:
        return self._call(getattr(self._client, name), *args, **kwargs)

    return method


def _read(self: Face, *, name: str) -> Any:
    return self._call(lambda: getattr(self._client, name))


@functools.cache
def _face(name: str) -> type:
    return face_of(getattr(client, name))


def __getattr__(name: str) -> Any:
    if name in _FACES:
        return _face(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(_FACES)
