"""Gives the rows of a phone: keeps the loop on it running, and puts its times on our clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wattstep.formats.recording import FormatError
from wattstep.record.push_sources import Emit
from wattstep.record.sensors.android.clock import BURST, ClockMap, Eras, Point
from wattstep.record.sensors.android.decode import decode
from wattstep.record.sensors.android.loop import CLOCKS, Connection, Echo, Sample

LEAST_PERIOD_S = 0.1
ASK_SOON_S, ASK_EVERY_S = 0.25, 2.0  # the first rows wait for the second point
SILENT_S = 10.0  # without a single echo: the connection counts as lost
FIRST_ECHO_S = 30.0  # that the first may take, when the phone is looked at
LAST_WORDS_S = 0.8  # what the last echoes are waited for
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
LOST = 104  # connection reset
UNREADABLE = 22
# What the tools of the phone say, in the words of its C library.
_ERRORS = {
    "Permission denied": 13,
    "No such file": 2,
    "No such device": 19,
    "Try again": 11,
    "No data available": 61,
}


def _nobody(point: Point, uptime_us: int) -> None:
    """For those who do not ask for points."""


class PhoneSource:
    """The rows of one phone.

    The read at place 0 is the uncertainty of the clock and the longest time that a read has taken,
    both in ns; the others are those of `reads`, in order. A row's time is the middle of its read.

    Args:
        shell: Starts a shell on the phone: adb -s SERIAL shell.
        reads: Of each read "kind" and "argument" of the loop, "every_s", "decoder", "arguments".
        period_s: Rest between two rounds of reads.
        on_point: Told each moment that is known on both clocks, and the phone's uptime then in µs
            (0: not told), for times of the phone that do not come through this loop.
    """

    def __init__(
        self,
        shell: Sequence[str],
        reads: Sequence[Mapping[str, Any]],
        period_s: float,
        on_point: Callable[[Point, int], None] = _nobody,
    ) -> None:
        self.shell, self.reads, self.on_point = tuple(shell), tuple(reads), on_point
        self.period_s = max(period_s, LEAST_PERIOD_S)
        self._last = [0] * (len(self.reads) + 1)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Gives rows until `stop`; a lost connection is a gap, and is tried again.

        Raises:
            OSError: adb cannot be started.
        """
        wait_s = FIRST_WAIT_S
        while not stop.is_set():
            session = Session(self, emit)
            try:
                session.run(stop)
            except ConnectionError:  # a broken pipe too
                wait_s = FIRST_WAIT_S if session.points else wait_s
            if stop.is_set():
                return
            self._gap(emit)
            stop.wait(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _gap(self, emit: Emit) -> None:
        now = time.monotonic_ns()
        for place in range(len(self._last)):
            self.row(emit, place, now, LOST, None)

    def row(
        self, emit: Emit, place: int, t_ns: int, errno: int, values: Sequence[int] | None
    ) -> None:
        """Gives a row; times of one read never go back, however uncertain they are."""
        self._last[place] = t_ns = max(t_ns, self._last[place] + 1)
        emit(place, t_ns, errno, values)

    def rounds(self, every_s: float) -> int:
        """Every how many rounds a read is due."""
        return max(1, round(every_s / self.period_s))


class Session:
    """Connection to the phone, from its start to its loss."""

    def __init__(self, source: PhoneSource, emit: Emit) -> None:
        self.points = 0
        self._source, self._emit = source, emit
        self._eras = Eras()
        self._map: ClockMap | None = None
        self._asked: dict[int, int] = {}
        self._next = 0
        self._held: list[Sample] = []
        self._longest_us = 0
        self._heard = time.monotonic()
        self._due, self._rest_s = 0.0, ASK_SOON_S

    def run(self, stop: threading.Event) -> None:
        """Until `stop`, with the last echoes waited for.

        Raises:
            ConnectionError: The connection is lost; what had come was given.
            OSError: adb cannot be started.
        """
        source = self._source
        reads = [(source.rounds(r["every_s"]), r["kind"], r["argument"]) for r in source.reads]
        connection = Connection(source.shell, source.period_s, reads)
        try:
            while not stop.is_set():
                self._turn(connection)
            self._last_words(connection)
        finally:
            self._release(everything=True)
            connection.close()

    def _turn(self, connection: Connection) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._rest_s
            self._rest_s = min(2 * self._rest_s, ASK_EVERY_S)
            self._ask(connection)
        if now - self._heard > SILENT_S:
            raise ConnectionResetError(LOST, "the phone does not answer")
        self._hear(*connection.read(0.1))

    def _ask(self, connection: Connection) -> None:
        for _ in range(BURST):
            self._asked[self._next] = connection.ask(self._next)
            self._next += 1

    def _last_words(self, connection: Connection) -> None:
        """A last point, so that the last rows lie between two."""
        self._ask(connection)
        end = time.monotonic() + LAST_WORDS_S
        while self._asked and time.monotonic() < end:
            self._hear(*connection.read(0.05))

    def _hear(self, now_ns: int, records: list[Echo | Sample]) -> None:
        for record in records:
            stamp = record.stamp
            era = self._eras.era
            if self._eras.place(stamp.before_us, stamp.uptime_us, stamp.after_us) != era:
                self._new_era()
            if isinstance(record, Echo):
                self._echo(record, now_ns)
            else:
                self._held.append(record)
                self._longest_us = max(self._longest_us, stamp.after_us - stamp.before_us)

    def _new_era(self) -> None:
        """The phone's clock was set: what came before goes by the old points alone."""
        self._release(everything=True)
        self._map, self._due, self._rest_s = None, 0.0, ASK_SOON_S
        self._asked.clear()

    def _echo(self, echo: Echo, now_ns: int) -> None:
        sent_ns = self._asked.pop(echo.number, None)
        if sent_ns is None:
            return
        self._heard = time.monotonic()
        if self._map is None:
            self._map = ClockMap(CLOCKS[echo.clock])
        point = self._map.echo(echo.number, echo.stamp.middle_us, sent_ns, now_ns)
        if point is None:
            return
        self.points += 1
        stamp = echo.stamp
        ahead = stamp.middle_us - stamp.uptime_us
        self._source.on_point(point, point.device_us - ahead if stamp.uptime_us else 0)
        row = [point.uncertainty_ns, self._longest_us * 1000]
        self._source.row(self._emit, 0, point.host_ns, 0, row)
        self._longest_us = 0
        self._release()
        self._map.forget()

    def _release(self, *, everything: bool = False) -> None:
        """Gives the rows that lie between two points; at the end all of them."""
        later = []
        for sample in self._held:
            at = None if self._map is None else self._map.host_ns(sample.stamp.middle_us)
            if self._map is None or at is None:
                # Nothing says yet when it was; if nothing ever does, the gap stands for it.
                later.append(sample)
            elif everything or self._map.reaches(sample.stamp.middle_us):
                self._row(sample, at)
            else:
                later.append(sample)
        self._held = [] if everything else later

    def _row(self, sample: Sample, t_ns: int) -> None:
        if sample.read >= len(self._source.reads):
            return  # garbage that looks like a record
        read = self._source.reads[sample.read]
        errno, values = 0, None
        if sample.status:
            errno = next((code for text, code in _ERRORS.items() if text in sample.text), 5)
        else:
            try:
                values = decode(read["decoder"], read["arguments"], sample.text)
            except FormatError:
                errno = UNREADABLE
        self._source.row(self._emit, sample.read + 1, t_ns, errno, values)


def open_source(
    *, shell: Sequence[str], reads: Sequence[Mapping[str, Any]], period_s: float
) -> PhoneSource:
    """As `SensorRead.push_source` names it."""
    return PhoneSource(shell, reads, period_s)


def measure_clock(shell: Sequence[str]) -> tuple[str, int] | None:
    """Clock that the phone's loop goes by, a key of `CLOCKS`, and the uncertainty in ns; or None.

    Raises:
        OSError: adb cannot be started, or the connection ends.
    """
    # The loop ends after its rest, which is waited for.
    connection = Connection(shell, LEAST_PERIOD_S, ())
    try:
        asked = {number: connection.ask(number) for number in range(BURST)}
        echoes: list[tuple[int, str]] = []
        end = time.monotonic() + FIRST_ECHO_S
        while len(echoes) < BURST and time.monotonic() < end:
            now_ns, records = connection.read(0.1)
            for record in records:
                if isinstance(record, Echo) and record.number in asked:
                    half = (now_ns - asked[record.number]) // 2 + CLOCKS[record.clock]
                    echoes.append((half, record.clock))
    finally:
        connection.close()
    if not echoes:
        return None
    half, clock = min(echoes)
    return clock, half
