"""Connections of the server: none may keep others out by doing nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_AT_ONCE: Final = 64  # requests
MOST_SILENT: Final = 32  # connections that have not sent a whole request
HEAD_S: Final = 10.0  # for a request to arrive, with its body
MOST_STALLED: Final = 32  # connections whose answer is not taken
STALLED_S: Final = 30.0  # for a reader to take more of an answer


class BoundedConnection(H11Protocol):
    """A connection that is closed where its request does not come, or its answer is not taken.

    Whoever opens more than `MOST_SILENT` connections and says nothing on them loses the oldest; so does
    whoever takes no answer, or a few bytes at a time, on more than `MOST_STALLED`.
    """

    _waits: asyncio.TimerHandle | None = None
    _stalls: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for a request."""
        super().connection_made(transport)
        self._wait()
        silent = [each for each in self._all() if each.is_silent]
        self._end_oldest(silent, lambda each: each._waits, MOST_SILENT)

    def _all(self) -> list[BoundedConnection]:
        return [each for each in self.connections if isinstance(each, BoundedConnection)]

    def _end_oldest(
        self,
        those: list[BoundedConnection],
        timer: Callable[[BoundedConnection], asyncio.TimerHandle | None],
        most: int,
    ) -> None:
        """Ends those whose timer runs longest, but for so many."""
        ends = {each: handle.when() if (handle := timer(each)) else 0.0 for each in those}
        for each in sorted(those, key=ends.__getitem__)[: max(len(those) - most, 0)]:
            each.transport.abort()
            self.connections.discard(each)

    @property
    def is_silent(self) -> bool:
        """True while no request of it is under way, or the body of one has not come."""
        waits_for_body = self.conn.their_state is h11.SEND_BODY
        return waits_for_body or self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._end_waiting()
        self._waits = self.loop.call_later(HEAD_S, self._give_up)

    def _end_waiting(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _give_up(self) -> None:
        if self.is_silent and not self.transport.is_closing():
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Reads on; a request that is whole is waited for no more."""
        super().data_received(data)
        if not self.is_silent:
            self._end_waiting()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        self._wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all waiting."""
        self._end_waiting()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Waits for a reader that does not read."""
        super().pause_writing()
        self._stalls = self.loop.call_later(STALLED_S, self.transport.abort)
        stalled = [each for each in self._all() if each._stalls is not None]
        self._end_oldest(stalled, lambda each: each._stalls, MOST_STALLED)

    def resume_writing(self) -> None:
        """It reads on."""
        if self._stalls is not None:
            self._stalls.cancel()
            self._stalls = None
        if self.flow is not None:
            super().resume_writing()
