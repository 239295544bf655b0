"""An Android phone as an execution host: any command runs there while it is sampled; `adb://SERIAL`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import FrameType

from wattstep.errors import InvalidValueError, RecordingError, before_recording, error_of
from wattstep.record.hosts import Target, parse_target
from wattstep.record.hosts.phone import find_serial
from wattstep.record.sensors.android import probe
from wattstep.remote.phone.following import Following, Stop
from wattstep.remote.phone.job import (
    Job,
    Phone,
)
from wattstep.remote.phone.recording import PhoneRecording, own_reads
from wattstep.remote.phone.steps import parse_output_marker
from wattstep.remote.ssh import ConnectionLostError
from wattstep.schema.channel import Present
from wattstep.schema.settings import parse_duration, parse_power_model
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.loop import Progress
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings

ASK_EVERY_S = 1.0
PATIENCE_S = 120.0  # that a lost phone is waited for
LEASE_S = 180.0  # that the phone goes on for while nobody asks, before it clears itself
TERMINATION_S = 5.0
STOPPING = (signal.SIGINT, signal.SIGTERM)


def open_execution_host(target: Target, say: Callable[[str], None]) -> PhoneHost:
    """As `OPENERS` names it; the option adb= gives another command.

    Raises:
        InvalidValueError: An option is unknown.
        RecordingError: There is no adb, no phone, or there are several and none was named.
    """
    if unknown := set(target.options) - {"adb"}:
        raise InvalidValueError(
            f"--target adb: no option {sorted(unknown)[0]!r}: there is adb=",
            id="unknown-target-option",
        )
    adb = target.options.get("adb", "adb")
    return PhoneHost(find_serial(target.name, adb), say, adb=adb)


class PhoneHost:
    """A phone on a cable or in the same network, on which commands run one at a time.

    Args:
        serial: As `adb devices` lists it; it stands in nothing that is recorded or said.
        say: Takes lines for the user.
        adb: The command.
        root: Before the phone's paths; "" but in tests.
        patience_s: How long a lost phone is waited for.
        lease_s: How long the command goes on there while nobody asks for it.
        ask_every_s: How often the phone is asked for what the command has printed.
    """

    def __init__(
        self,
        serial: str,
        say: Callable[[str], None],
        *,
        adb: str = "adb",
        root: str = "",
        patience_s: float = PATIENCE_S,
        lease_s: float = LEASE_S,
        ask_every_s: float = ASK_EVERY_S,
    ) -> None:
        self._serial, self._say, self._adb, self._root = serial, say, adb, root
        self._patience_s, self._lease_s, self._ask_every_s = patience_s, lease_s, ask_every_s

    def train(
        self,
        settings: TrainingSettings,
        on_progress: Callable[[Progress], None],
        on_warning: Callable[[str], None],
        limit: MemoryLimit | None,
    ) -> Path:
        """Not on a phone.

        Raises:
            InvalidValueError: Always, with what works instead.
        """
        raise InvalidValueError(
            f"{settings.workload} cannot be trained on a phone: no engine of wattstep runs there "
            "yet; what works is a program that is on the phone already: wattstep profile "
            "--target adb://SERIAL COMMAND (docs/phones.md)",
            id="no-engine-on-phone",
        )

    def profile(self, settings: ProfileSettings, out: str, *sent: str) -> tuple[int, Path]:
        """Runs a command on the phone, sampled; its exit code (130 after Ctrl-C), and the run.

        Ctrl-C and SIGTERM end the command on the phone; a second one ends the waiting for it.

        Raises:
            InvalidValueError: Something that is asked for cannot be had on a phone.
            RunExistsError: The folder is taken.
            RecordingError: The phone cannot be reached, or was lost; what was recorded is kept.
        """
        if sent:
            raise InvalidValueError(
                "--with sends files to a board: put them on the phone with adb push"
            )
        _check(settings)
        phone = Phone(self._serial, self._adb)
        recording = PhoneRecording(Path(out), parse_duration(settings.interval))
        try:
            command = (settings.script, *settings.arguments)
            with before_recording():
                job = Job(phone, command, self._lease_s, self._root)
        except BaseException:
            recording.discard()
            raise
        following = Following(recording, job, phone, settings, self._patience_s, self._say)
        try:
            with before_recording():
                self._start(recording, job, settings)
                job.go()
        except BaseException:
            self._clear(job, following)
            recording.discard()
            raise
        return self._follow(following, recording, job), recording.path

    def _start(self, recording: PhoneRecording, job: Job, settings: ProfileSettings) -> None:
        """Finds the phone's sensors, and samples them.

        Raises:
            RecordingError: The phone cannot be reached.
        """
        more = own_reads(job.pid, job.ticks_hz)
        phone = probe(self._serial, self._adb, self._root, more)
        sensors = phone.sensors["phone"]
        if not isinstance(sensors, Present):
            raise RecordingError(f"--target adb: {sensors.reason}")
        name = PurePosixPath(settings.script).name
        about = {
            "workload": name,
            "title": name,
            "engine": "a command on the phone",
            "target": parse_target(settings.target).text,
            "warmup": settings.warmup,
            "power_model": parse_power_model(settings.power_model),
        }
        recording.start(phone, sensors.reads, about)
        if not more:
            recording.note("the phone does not tell its clock tick: no process figures")

    def _follow(self, following: Following, recording: PhoneRecording, job: Job) -> int:
        """Until the command has ended; then the phone is cleared, and the run closed."""
        stop, code = Stop(), None
        trouble: RecordingError | None = None
        try:
            with _told_to(stop):
                code = following.follow(self._ask_every_s, stop)
                if stop.number:
                    code = 128 + stop.number
                    recording.note("stopped by the user")
                    following.stop(TERMINATION_S)
        except KeyboardInterrupt:  # the second
            code = 128 + signal.SIGINT
        except RecordingError as error:
            trouble = error
            recording.note(str(error).removeprefix("--target adb: "))
        finally:
            recording.stop_sampling()
            following.finish(code)
            left = self._clear(job, following)
            recording.close()
        advice = f"what was recorded up to then is kept: wattstep report {recording.path}"
        if trouble is not None:
            also = "" if left is None else f"; {left}"
            raise error_of(trouble.document(), f"{trouble}{also}; {advice}") from trouble
        assert code is not None
        failed = None if stop.number else _explain(code)
        ended = recording.problem and f"recording ended early: {recording.problem}; {advice}"
        for text in (ended, left, failed):
            if text:
                self._say(f"wattstep: {text}")
        return code

    def _clear(self, job: Job, following: Following) -> str | None:
        """Leaves nothing on the phone; what is left, and when it goes, where it cannot be reached."""
        try:
            job.clear(same_boot=not following.rebooted)
        except ConnectionLostError:
            return (
                "the phone cannot be reached: the command ends and its files go by themselves, "
                f"{self._lease_s:.0f} s after the last contact"
            )
        except RecordingError as error:
            return str(error)
        return None

    def close(self) -> None:
        """Each command leaves the phone as it was."""


def _check(settings: ProfileSettings) -> None:
    """Refuses what cannot be done on a phone.

    Raises:
        InvalidValueError: Something is asked for that cannot be done; with the remedy.
    """
    if settings.module:
        raise InvalidValueError(
            f"-m {settings.script}: a phone has no Python: give the command that runs there"
        )
    if settings.trace not in ("auto", "none"):
        raise InvalidValueError(
            f"--trace {settings.trace}: the command on a phone is not traced: leave it out"
        )
    parse_output_marker(settings.step_marker)


def _explain(code: int) -> str | None:
    """Meaning of an exit code of the phone's shell; None where it is the command's own."""
    if code == 127:
        return (
            "the phone's shell found no such command, or not what it needs: give the path on the "
            "phone (adb push it to /data/local/tmp first)"
        )
    if code == 126:
        return "the phone may not run that file: adb shell chmod +x it (not on /sdcard)"
    if code > 128:
        return (
            f"the command was killed on the phone by signal {code - 128}"
            + (" (Android kills so when memory runs out)" if code == 137 else "")
            + "; what was recorded up to then is kept"
        )
    return None


@contextmanager
def _told_to(stop: Stop) -> Iterator[None]:
    """Takes the first signal to stop as a wish, so that nothing is cut off in the middle."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in STOPPING}

    def note(number: int, _: FrameType | None) -> None:
        stop.number = number
        stop.event.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield
    finally:
        restore()
