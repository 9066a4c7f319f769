"""TLS in front of a broker that has none: a proxy in a thread that deciphers what comes in.

Holds: its port is taken before `start`, so that the broker can be told to advertise it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType

CERTIFICATES = Path(__file__).resolve().parent.parent / "data" / "tls"
CHUNK_BYTES = 1 << 16
START_SECONDS_MAX = 60.0


class TlsProxy:
    """`with TlsProxy() as proxy: ...; proxy.start(port_of_the_broker)`. Clients must show a certificate."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._serving = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, target_port: int) -> None:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(target_port)), name="tls-proxy")
        self._thread.start()
        assert self._serving.wait(START_SECONDS_MAX)

    async def _serve(self, target_port: int) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATES / "server.pem")
        context.load_verify_locations(CERTIFICATES / "authority.pem")
        context.verify_mode = ssl.CERT_REQUIRED

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target_port)
            await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))

        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with await asyncio.start_server(serve, sock=self._listening, ssl=context):
            self._serving.set()
            await self._end.wait()

    def __enter__(self) -> TlsProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._end is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()
        self._listening.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # one of both has left, and the other hears of it
    finally:
        writer.close()
