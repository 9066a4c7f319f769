"""The real network, which can be cut: what a dead process had dialled is closed, and it dials no more."""

import asyncio

from barnabas.runtime.system.network import SystemNetwork, SystemSocket


class SeverableNetwork(SystemNetwork):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._dialled: list[SystemSocket] = []  # some of them closed by now; a broker dials few
        self._is_cut = False

    async def connect(self, host: str, port: int) -> SystemSocket:
        connected = await super().connect(host, port)
        self._dialled.append(connected)
        if self._is_cut:
            connected.close()
            raise ConnectionRefusedError("this process is dead")
        return connected

    def cut(self) -> None:
        self._is_cut = True
        for dialled in self._dialled:
            dialled.close()
