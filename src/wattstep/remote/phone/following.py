"""Output, steps and end of a command on a phone, taken in as they come."""

from __future__ import annotations

import re
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TextIO

from wattstep.errors import RecordingError
from wattstep.record.sensors.android.clock import Moment
from wattstep.record.sensors.android.loop import Sample, Stream
from wattstep.remote.phone.job import (
    BEGUN,
    CLOSED,
    COST,
    ENDED,
    ERRORS,
    FULL,
    OUTPUT,
    Answer,
    Job,
    Phone,
)
from wattstep.remote.phone.recording import PhoneRecording
from wattstep.remote.phone.steps import StepWriter, parse_output_marker
from wattstep.remote.ssh import ConnectionLostError
from wattstep.train.script import ProfileSettings

COST_SAID_S = 0.1  # of the phone's processor time: what stamping takes is said from there on
STORAGE_FULL = (
    "the phone's storage is full: what the command printed from then on is not known: free some "
    "in /data/local/tmp, or print less"
)


class Stop:
    """Request to stop, with its signal."""

    def __init__(self) -> None:
        self.number = 0
        self.event = threading.Event()


def _order(record: Sample) -> tuple[int, int, bool]:
    """By time: the uptime is never set; the command begins before what it prints."""
    return record.stamp.uptime_us, record.stamp.middle_us, record.read != BEGUN


def _processor_s(text: str) -> float:
    """User and system time of the shell and of its children by its `times`, in s."""
    times = re.findall(r"([0-9]{1,9})m([0-9]{1,9})[.,]([0-9]{1,9})s", text)
    return sum(60.0 * int(m) + int(s) + float(f"0.{part}") for m, s, part in times)


class JobFollowing(ABC):
    """Follower of a job on a phone, which takes in what it writes as that comes.

    Args:
        recording: The run.
        job: The job.
        phone: To reach it again.
        patience_s: How long a lost phone is waited for.
        say: Takes lines for the user.

    Attributes:
        rebooted: Whether the phone was started anew meanwhile.
        storage_full: What is said where the phone has no room for what the job writes.
    """

    storage_full = STORAGE_FULL

    def __init__(
        self,
        recording: PhoneRecording,
        job: Job,
        phone: Phone,
        patience_s: float,
        say: Callable[[str], None],
    ) -> None:
        self.rebooted = False
        self._say = say
        self._recording, self._job, self._phone = recording, job, phone
        self._patience_s = patience_s
        self._streams = {OUTPUT: Stream(), ERRORS: Stream()}
        self._signs: dict[int, Sample] = {}
        self._lines = 0
        self._stamping_s = 0.0
        self._code: int | None = None
        self._closed = False
        self._outages = 0

    @abstractmethod
    def _line(self, record: Sample) -> None:
        """Takes in a line that the job printed."""

    def _begun(self, record: Sample) -> None:  # noqa: B027 - most need it not
        """The job begins."""

    @abstractmethod
    def _release(self, *, everything: bool = False) -> None:
        """Hands on what lies before the newest moment on both clocks; at the end all of it."""

    def _journal(self, data: bytes) -> None:  # noqa: B027 - commands write none
        """Takes in what came of the job's own journal."""

    @abstractmethod
    def finish(self, code: int | None) -> None:
        """After the last sample: everything that is held, the end, and what the reader must know."""

    def follow(self, every_s: float, stop: Stop) -> int | None:
        """Asks until the command has ended; its exit code, or None where we were told to stop.

        Raises:
            RecordingError: The phone was lost for good, or rebooted.
        """
        while not self._closed:
            answer = self._ask(stop)
            if answer is None:
                return None
            self._process(answer)
            if not self._closed and answer.whole:
                stop.event.wait(every_s)
        if self._code is None:
            raise RecordingError("--target adb: the phone did not say how the command ended")
        return self._code

    def _ask(self, stop: Stop) -> Answer | None:
        """Next answer, however often it must be asked for; None where we were told to stop.

        Raises:
            ConnectionLostError: The phone was away for too long.
        """
        end, warned = time.monotonic() + self._patience_s, False
        while not stop.number:
            try:
                answer = self._job.follow()
            except ConnectionLostError as error:
                if time.monotonic() > end:
                    raise ConnectionLostError(
                        f"{error} (it was waited for {self._patience_s:.0f} s)",
                        id="phone-unreachable",
                    ) from error
                if not warned:
                    self._say(f"wattstep: {str(error).removeprefix('--target adb: ')}; waiting")
                    warned = True
                    self._outages += 1
                stop.event.wait(min(1.0, self._patience_s / 10))
                self._phone.reconnect()
            else:
                if warned:
                    self._say("wattstep: the phone is back")
                return answer
        return None

    def _process(self, answer: Answer) -> None:
        """Takes in an answer.

        Raises:
            RecordingError: The phone was rebooted, or the command's folder is gone.
        """
        # Two streams come one after the other: what is handed on waits for the answer after its
        # own, so that nothing older can come behind it.
        self._release()
        for record in self._records(answer):
            self._take(record)
        self._journal(answer.journal)
        if CLOSED in self._signs:
            self._closed = answer.whole
            return
        if answer.boot != self._job.boot or self._recording.clock.restarted:
            self.rebooted = True
            raise RecordingError(
                "--target adb: the phone was rebooted, and the command ended", id="phone-rebooted"
            )
        if not answer.running:
            raise RecordingError(
                "--target adb: what ran the command on the phone was ended there: no host had "
                "polled it for too long, or it was killed"
            )

    def _records(self, answer: Answer) -> list[Sample]:
        """New records of an answer, in the order of their times."""
        records = [*Stream().take(answer.signs)]  # all of them in every answer
        records = [r for r in records if isinstance(r, Sample) and r.read not in self._signs]
        records += self._streams[OUTPUT].take(answer.output)
        records += self._streams[ERRORS].take(answer.errors)
        return sorted((r for r in records if isinstance(r, Sample)), key=_order)

    def _take(self, record: Sample) -> None:
        full = FULL in self._signs  # each stream says so
        if record.read in (OUTPUT, ERRORS):
            self._lines += 1
            self._line(record)
        elif record.read == COST:
            self._stamping_s += _processor_s(record.text)
        elif record.read in (BEGUN, ENDED, CLOSED, FULL):
            self._signs[record.read] = record
        if record.read == ENDED and record.text.isdecimal():
            self._code = int(record.text)
        if record.read == FULL and not full:
            self._recording.note(self.storage_full)
            self._say(f"wattstep: {self.storage_full}")
        if record.read == BEGUN:
            self._begun(record)

    def stop(self, wait_s: float) -> None:
        """Ends the command, and takes in its last words; what cannot be had is left."""
        try:
            self._job.signal("TERM")
            end = time.monotonic() + wait_s
            while not self._closed and time.monotonic() < end:
                self._process(self._job.follow())
                time.sleep(0.1)
        except RecordingError as error:
            self._recording.note(str(error).removeprefix("--target adb: "))

    def _sign(self, number: int) -> Moment | None:
        """When the keeper said this, on our clock; None: it did not, or nothing tells."""
        sign = self._signs.get(number)
        return None if sign is None else self._recording.clock.place(sign.stamp)

    def _note_outages(self) -> None:
        if self._outages:
            self._recording.note(
                f"the phone was out of reach {self._outages} times: the command went on, its "
                "steps are known, samples have gaps"
            )


class Following(JobFollowing):
    """Follower of a user's command, whose output tells its steps.

    Args:
        recording: The run.
        job: The command.
        phone: To reach it again.
        settings: As the user gave them.
        patience_s: How long a lost phone is waited for.
        say: Takes lines for the user.
    """

    def __init__(
        self,
        recording: PhoneRecording,
        job: Job,
        phone: Phone,
        settings: ProfileSettings,
        patience_s: float,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(recording, job, phone, patience_s, say)
        self._settings = settings
        self._marker = parse_output_marker(settings.step_marker)
        self._steps = StepWriter(recording.marks, self._marker, recording.began_ns)
        self._held: list[Sample] = []
        self._worst_ns = 0

    def _begun(self, record: Sample) -> None:
        self._held.append(record)

    def _line(self, record: Sample) -> None:
        """The command's output is ours; on standard error where ours is for JSON."""
        self._held.append(record)
        to_errors = record.read == ERRORS or self._settings.script_output == "stderr"
        stream: TextIO = sys.stderr if to_errors else sys.stdout
        print(record.text, end="" if record.status else "\n", file=stream, flush=True)

    def _release(self, *, everything: bool = False) -> None:
        """Hands on what lies before the newest moment on both clocks; at the end all of it."""
        clock = self._recording.clock
        self._held.sort(key=_order)
        while self._held and (everything or clock.reaches(self._held[0].stamp)):
            self._hand_on(self._held.pop(0))

    def _hand_on(self, record: Sample) -> None:
        moment = self._recording.clock.place(record.stamp)
        if moment is None or self._recording.problem is not None:
            return
        self._worst_ns = max(self._worst_ns, moment.uncertainty_ns)
        try:
            if record.read == BEGUN:
                self._steps.begin(moment.host_ns)
                return
            steps_before = self._steps.steps
            self._steps.line(record.text, moment.host_ns)
            if steps_before == 0 and self._steps.steps:
                self._recording.save(self._within())
        except OSError as error:
            self._recording.fail(f"the run cannot be written ({error.strerror})")

    def finish(self, code: int | None) -> None:
        """After the last sample: everything that is held, the end, and what the reader must know."""
        recording, steps = self._recording, self._steps
        self._release(everything=True)
        moment, full = self._sign(ENDED), self._sign(FULL)
        if moment is not None:
            self._worst_ns = max(self._worst_ns, moment.uncertainty_ns)
        has_steps = steps.steps > 0
        if full is not None:
            recording.lost("output", full.host_ns)
        try:
            # Where its last lines are not known, what comes after the last known step is not either.
            if moment is not None and recording.problem is None and not (has_steps and full):
                steps.end(moment.host_ns)
            self._peak(moment)
        except OSError as error:
            recording.fail(f"the run cannot be written ({error.strerror})")
        if moment is None:
            recording.lost("command")
        elif not has_steps:
            recording.about(warmup=0)
        recording.about(
            options={"command": {"exit_code": code, "steps": steps.steps if has_steps else None}}
        )
        self._describe(has_steps or moment is None)

    def _peak(self, end: Moment | None) -> None:
        """The command's peak memory, and how near its end it was read.

        Raises:
            OSError: The disk is full.
        """
        begun_ns = self._steps.begun_ns
        peak = None if begun_ns is None else self._recording.peak_since(begun_ns)
        if peak is None:
            self._recording.note("no peak memory: the command was not read while it ran")
            return
        size, read_ns = peak
        self._steps.peak(size)
        note = "peak memory is that of the command's own process without its children"
        if end is not None:
            before_s = max(0, end.host_ns - read_ns) / 1e9
            note += f", read for the last time {before_s:.2f} s before its end"
        self._recording.note(note)

    def _within(self) -> str:
        return (
            "steps end at lines that the command printed, stamped on the phone: within "
            f"±{self._worst_ns / 1e6:.1f} ms of the samples"
        )

    def _describe(self, has_steps: bool) -> None:
        """Notes what the reader must know of steps, times and memory."""
        recording = self._recording
        if self._marker is not None and not has_steps:
            recording.note(
                f"no line of the output matched --step-marker {self._settings.step_marker}: "
                "the whole command counts as one step"
            )
        elif not has_steps:
            recording.note(
                "no step markers were seen: the whole command counts as one step "
                "(--step-marker output:REGEX, a line that ends a step)"
            )
        if self._worst_ns:
            recording.note(self._within())
        self._note_outages()
        if self._stamping_s >= COST_SAID_S:
            recording.note(
                f"stamping its {self._lines} lines took {self._stamping_s:.2f} s of the phone's "
                f"processor time ({1e6 * self._stamping_s / self._lines:.0f} µs a line) beside the "
                "command; where it prints faster than that, it is slowed"
            )
        streams = self._streams.values()
        unread = sum(stream.skipped + stream.unfinished for stream in streams)
        if unread and FULL not in self._signs:
            recording.note(
                f"{unread} B of what the command printed could not be read (a line longer than "
                "1 MiB, or one that was cut): a step that it told is missing"
            )
