"""A TCP proxy on loopback that delays, cuts or half-opens connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from kraal.broker.broker import HOST

DELAY_S: Final = 0.25
"""Delay of each chunk of data in each direction."""
_CHUNK_BYTES: Final = 65_536
_TIMEOUT_S: Final = 10.0

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Mode(Enum):
    """The treatment of connections by the proxy."""

    STRAIGHT = "forwards all data"
    DELAY = "forwards all data with a delay"
    CUT = "aborts all connections and refuses new ones"
    HALF_OPEN = "keeps all connections, accepts new ones, and forwards no data"


class Proxy:
    """A proxy that listens on a free port and forwards connections to another port. Runs in its own thread."""

    def __init__(self, target: int) -> None:
        """Start listening; each incoming connection is forwarded to the port `target`."""
        self._target = target
        self._mode = Mode.STRAIGHT
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._flows = asyncio.Event()
        self.port: int = self._run_in_loop(self._listen())

    def set_mode(self, mode: Mode) -> None:
        """Switch to a mode.

        After `HALF_OPEN`, every second connection delivers the data that was held back, as after a network outage. All
        other connections are aborted, as if a router had lost their state.
        """
        self._run_in_loop(self._set(mode))

    def close(self) -> None:
        """Abort all connections and stop listening."""
        self._run_in_loop(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()

    def _run_in_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_TIMEOUT_S)

    async def _listen(self) -> int:
        self._flows.set()
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _set(self, mode: Mode) -> None:
        previous_mode, self._mode = self._mode, mode
        if mode is Mode.CUT:
            self._abort(self._writers)
        elif previous_mode is Mode.HALF_OPEN:
            self._abort(self._writers[::4])  # each connection has two writers
        if mode is Mode.HALF_OPEN:
            self._flows.clear()
        else:
            self._flows.set()

    async def _close(self) -> None:
        self._mode = Mode.CUT
        self._abort(self._writers)
        self._flows.set()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        # Last, because asyncio would otherwise leak connections that it is still accepting.
        self._server.close()

    def _abort(self, writers: list[asyncio.StreamWriter]) -> None:
        for writer in list(writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._flows.wait()
            target = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        if self._mode is Mode.CUT:
            self._abort([writer, target[1]])
        else:
            await self._forward((reader, writer), target)

    async def _forward(self, client: _Streams, target: _Streams) -> None:
        """Forward data in both directions until one side closes its connection; then close the other one."""
        writers = [client[1], target[1]]
        self._writers += writers
        pumps = [
            asyncio.ensure_future(self._pump(*streams))
            for streams in ((client[0], target[1]), (target[0], client[1]))
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for writer in writers:
                self._writers.remove(writer)
                writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK_BYTES):
                if self._mode is Mode.DELAY:
                    await asyncio.sleep(DELAY_S)
                await self._flows.wait()
                writer.write(chunk)
                await writer.drain()
