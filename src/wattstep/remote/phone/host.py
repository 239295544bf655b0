"""An Android phone as an execution host: any command runs there while it is sampled; `adb://SERIAL`."""

from __future__ import annotations

import shlex
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any

from wattstep.errors import (
    InvalidValueError,
    RecordingError,
    WattstepError,
    before_recording,
    error_of,
)
from wattstep.record.hosts import Target, parse_target
from wattstep.record.hosts.phone import check_options, find_serial
from wattstep.record.sensors.android import probe
from wattstep.remote.phone.following import Following, JobFollowing, Stop
from wattstep.remote.phone.job import Job, Phone, new_folder
from wattstep.remote.phone.recording import PhoneRecording, own_reads
from wattstep.remote.phone.runner import (
    PROGRAM,
    Runner,
    check_abi,
    find_runner,
    how_to_build,
    version_of,
)
from wattstep.remote.phone.steps import parse_output_marker
from wattstep.remote.phone.training import PLAN, PhoneTraining, TrainingFollowing
from wattstep.remote.ssh import ConnectionLostError
from wattstep.schema.channel import Present
from wattstep.schema.settings import parse_duration, parse_power_model
from wattstep.store.files import new_name
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.progress import Progress
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings

ASK_EVERY_S = 1.0
PATIENCE_S = 120.0  # that a lost phone is waited for
LEASE_S = 180.0  # that the phone goes on for while nobody asks, before it clears itself
TERMINATION_S = 5.0
STOPPING = (signal.SIGINT, signal.SIGTERM)


def open_execution_host(target: Target, say: Callable[[str], None]) -> PhoneHost:
    """As `OPENERS` names it; the options adb= and runner= give another command, and what trains there.

    Raises:
        InvalidValueError: An option is unknown.
        RecordingError: There is no adb, no phone, or there are several and none was named.
    """
    check_options(target.options)
    adb = target.options.get("adb", "adb")
    return PhoneHost(
        find_serial(target.name, adb), say, adb=adb, runner=target.options.get("runner")
    )


class PhoneHost:
    """A phone on a cable or in the same network, on which commands run one at a time.

    Args:
        serial: As `adb devices` lists it; it stands in nothing that is recorded or said.
        say: Takes lines for the user.
        adb: The command.
        runner: Folder of the runner for trainings, or None.
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
        runner: str | None = None,
        root: str = "",
        patience_s: float = PATIENCE_S,
        lease_s: float = LEASE_S,
        ask_every_s: float = ASK_EVERY_S,
    ) -> None:
        self._serial, self._say, self._adb, self._root = serial, say, adb, root
        self._runner = runner
        self._patience_s, self._lease_s, self._ask_every_s = patience_s, lease_s, ask_every_s

    def train(
        self,
        settings: TrainingSettings,
        on_progress: Callable[[Progress], None],
        on_warning: Callable[[str], None],
        limit: MemoryLimit | None,
    ) -> Path:
        """Trains what was exported for MNN, by the runner that the user brought; see `ExecutionHost.train`.

        Ctrl-C ends the training on the phone; what was recorded is kept.

        Raises:
            InvalidValueError: Something that is asked for cannot be had on a phone, or the runner is
                missing, or does not fit; nothing was started.
            RecordingError: The phone cannot be reached, was lost, or trains something else.
            KeyboardInterrupt: The user stopped it.
        """
        training = PhoneTraining.of(settings, limit)
        runner = find_runner(self._runner)
        phone = Phone(self._serial, self._adb)
        _check_phone(phone, runner)
        on_progress(Progress(stage="preparing"))
        out = Path(settings.out or str(Path("runs") / new_name(settings.workload)))
        recording = PhoneRecording(out, parse_duration(settings.interval))
        folder = new_folder()
        start = f'cd "$0" && LD_LIBRARY_PATH=. exec ./{PROGRAM} {PLAN}'
        with _or_discarded(recording):
            command = ("sh", "-c", start, self._root + folder)
            job = Job(phone, command, self._lease_s, self._root, folder)
        following = TrainingFollowing(
            recording, job, phone, training, on_progress, self._patience_s, self._say
        )
        with _or_discarded(recording, lambda: self._clear(job, following)):
            version = self._send(job, training, runner)
            about = training.about(version, parse_target(settings.target).text)
            self._start(recording, job, about)
            job.go()
        code, stopped = self._follow(following, recording, job)
        if stopped:
            raise KeyboardInterrupt
        if (failure := following.failure(code)) is not None:
            kept = _advice(out)
            if not following.steps:
                shutil.rmtree(out, ignore_errors=True)
                kept = "nothing had been recorded"
            raise RecordingError(f"--target adb: {failure}; {kept}", id="runner-failed")
        return out

    def _send(self, job: Job, training: PhoneTraining, runner: Runner) -> str:
        """Puts all that the training needs on the phone, and tries it; MNN's version.

        Raises:
            InvalidValueError: The runner does not start there.
            RecordingError: The phone has no room, or cannot be reached.
        """
        with training.files(runner) as files:
            for file in files:
                job.put(file)
        return version_of(
            job.run(f"chmod 700 {PROGRAM} && LD_LIBRARY_PATH=. ./{PROGRAM} check 2>&1")
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
        with _or_discarded(recording):
            command = (settings.script, *settings.arguments)
            job = Job(phone, command, self._lease_s, self._root)
        following = Following(recording, job, phone, settings, self._patience_s, self._say)
        with _or_discarded(recording, lambda: self._clear(job, following)):
            self._start(recording, job, _describe(settings))
            job.go()
        code, stopped = self._follow(following, recording, job)
        if not stopped and (failed := _explain(code)):
            self._say(f"wattstep: {failed}")
        return code, recording.path

    def _start(self, recording: PhoneRecording, job: Job, about: Mapping[str, Any]) -> None:
        """Finds the phone's sensors, and samples them.

        Args:
            recording: The run.
            job: What will run.
            about: Fields of `RunInfo`.

        Raises:
            RecordingError: The phone cannot be reached.
        """
        more = own_reads(job.pid, job.ticks_hz)
        phone = probe(self._serial, self._adb, self._root, more)
        sensors = phone.sensors["phone"]
        if not isinstance(sensors, Present):
            raise RecordingError(f"--target adb: {sensors.reason}")
        recording.start(phone, sensors.reads, about)
        if not more:
            recording.note("the phone does not tell its clock tick: no process figures")

    def _follow(
        self, following: JobFollowing, recording: PhoneRecording, job: Job
    ) -> tuple[int, bool]:
        """Until the job has ended; then the phone is cleared, and the run closed.

        Returns:
            Its exit code, and whether the user stopped it.

        Raises:
            RecordingError: The phone was lost, or what it told is of no use; the run is closed.
        """
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
        advice = _advice(recording.path)
        if trouble is not None:
            if trouble.id == "trains-wrongly":  # of which no figure may be made
                shutil.rmtree(recording.path, ignore_errors=True)
                advice = "the run is discarded"
            also = "" if left is None else f"; {left}"
            raise error_of(
                trouble.document(), f"{trouble}{also}; {advice}", type(trouble)
            ) from trouble
        assert code is not None
        ended = recording.problem and f"recording ended early: {recording.problem}; {advice}"
        for text in (ended, left):
            if text:
                self._say(f"wattstep: {text}")
        return code, bool(stop.number)

    def _clear(self, job: Job, following: JobFollowing) -> str | None:
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


@contextmanager
def _or_discarded(
    recording: PhoneRecording, clear: Callable[[], str | None] = lambda: None
) -> Iterator[None]:
    """What fails, or is stopped, in the block leaves no run.

    Args:
        recording: The run.
        clear: Takes away what was begun on the phone; tells what is left there.
    """
    try:
        with before_recording():
            yield
    except BaseException as error:
        left = clear()
        recording.discard()
        if left and isinstance(error, WattstepError):
            raise error_of(error.document(), f"{error}; {left}", type(error)) from error
        raise


def _advice(run: Path) -> str:
    return f"what was recorded up to then is kept: wattstep report {run}"


def _describe(settings: ProfileSettings) -> dict[str, Any]:
    """Fields of `RunInfo` of a command."""
    name = PurePosixPath(settings.script).name
    return {
        "workload": name,
        "title": name,
        "engine": "a command on the phone",
        "target": parse_target(settings.target).text,
        "warmup": settings.warmup,
        "power_model": parse_power_model(settings.power_model),
    }


def _check_phone(phone: Phone, runner: Runner) -> None:
    """Refuses a runner that this phone cannot start.

    Raises:
        ConnectionLostError: The phone is not there.
        InvalidValueError: The runner is for another processor or system.
    """
    loader = runner.program.interpreter or ""
    script = (
        "exec 2>/dev/null\n"
        'printf "%s,%s|" "$(getprop ro.product.cpu.abilist)" "$(getprop ro.product.cpu.abi)"\n'
        f"[ ! -e {shlex.quote(loader)} ] || printf there"
    )
    abis, _, found = phone.ask(script).decode(errors="replace").partition("|")
    check_abi(runner, list(dict.fromkeys(abi.strip() for abi in abis.split(","))))
    if found != "there":
        raise InvalidValueError(
            f"{runner.program.path} is for another system than the phone's: its loader {loader} is not there: "
            f"{how_to_build(runner.program.abi)}",
            id="other-system",
        )


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
    if settings.keep is not None:
        raise InvalidValueError("--keep: not with a phone", id="not-on-phone")
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
