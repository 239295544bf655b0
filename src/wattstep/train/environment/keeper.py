"""Puts a device into a state or under caps, and back afterwards whatever happens: a guardian outlives us."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.schema.processes import child_command
from wattstep.store.folder import read_plain, replacing
from wattstep.train.environment.device_state import DeviceState, nearest_clock

ORIGINALS: Final = "restore.json"  # in the sweep's folder, while the device is not as it was
CPUFREQ: Final = "sys/devices/system/cpu/cpufreq"
CLOCKS: Final = ("scaling_min_freq", "scaling_max_freq")
CAPS: Final = ("scaling_max_freq", "max_freq")  # of cores, and of a devfreq device
DETACHED: Final = "detached"
MODE: Final = "power mode"  # the name of nvpmodel's setting among the files
ANSWER_S: Final = 120.0  # nvpmodel may take a minute
PASSES: Final = 3  # a least clock above the highest is refused: written again, it is taken


class Keeper:
    """Changes settings of the device, and knows what they were.

    Before the first change of a setting its value goes into a file and to a guardian, a process
    in a session of its own that ignores signals; when this process ends, however that happens,
    the guardian puts everything back. Where even the guardian is killed, or the power fails, the
    file is left, and the next sweep into that folder puts things back first.

    Args:
        folder: Where the file goes.
        root: Of the file system; tests have a tree.
        warn: Told what could not be put back.
        detached: True if the guardian must be no child of this process, whose memory would count it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        root: Path = Path("/"),
        warn: Callable[[str], None],
        detached: bool = False,
    ) -> None:
        self._file = folder / ORIGINALS
        self._root, self._warn, self._detached = root, warn, detached
        self._originals: dict[str, str] = {}
        self._guardian: subprocess.Popen[bytes] | None = None
        if self._file.exists():
            self._mend()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def apply(self, state: DeviceState) -> None:
        """Puts the device into a state; what the state leaves open is put back first.

        Raises:
            RecordingError: A setting was not taken.
        """
        if self._originals:
            self._report(put_back(self._originals))
        if not state.changes_device:
            return
        if state.mode is not None:
            # A mode rules the clocks as well: what somebody had set them to is kept with it.
            self._keep({MODE: read_mode(), **self._clocks()})
            set_mode(state.mode)
        if state.frequency_hz is not None:
            for policy in _policies(state, self._root):
                self._hold(policy, _clock(policy, state.frequency_hz))

    def cap(self, values: Mapping[Path, int]) -> None:
        """Caps clocks.

        Args:
            values: The highest that is allowed, by file, in the file's own unit.

        Raises:
            RecordingError: One of them was not taken.
        """
        self._keep({str(path): _read(path) for path in values})
        for path, value in values.items():
            _write(path, str(value))

    def says(self, path: Path) -> int:
        """Number in a setting's file.

        Raises:
            RecordingError: It cannot be read, or is none.
        """
        text = _read(path)
        if not text.isdecimal():
            raise RecordingError(f"{path} says {text[:40]!r}, which is no number")
        return int(text)

    def close(self) -> None:
        """Puts everything back, and ends the guardian."""
        if self._guardian is None:
            return
        problems = put_back(self._originals)
        self._report(problems)
        guardian, self._guardian = self._guardian, None
        assert guardian.stdin is not None
        assert guardian.stdout is not None
        with contextlib.suppress(OSError), guardian:  # closes its pipes and waits for its end
            guardian.stdin.close()
            guardian.stdout.read()  # a detached one ends here, and not with our child
        if not problems:
            self._file.unlink(missing_ok=True)

    def _hold(self, policy: Path, clock_hz: float) -> None:
        most, least = policy / "scaling_max_freq", policy / "scaling_min_freq"
        self._keep({str(least): _read(least), str(most): _read(most)})
        value = f"{round(clock_hz / 1e3)}"
        # Neither may ever cross the other: the least is taken down before the most comes down.
        _write(least, _read(policy / "cpuinfo_min_freq"))
        _write(most, value)
        _write(least, value)
        if abs(int(_read(most)) * 1e3 - clock_hz) > 0.01 * clock_hz:
            raise RecordingError(
                f"{most} was set to {value} and says {_read(most)}: something else rules the clock"
            )

    def _clocks(self) -> dict[str, str]:
        """Limits that every clock of the cores is held between now."""
        folders = sorted((self._root / CPUFREQ).glob("policy[0-9]*"))
        return {str(f / name): _read(f / name) for f in folders for name in CLOCKS}

    def _keep(self, values: Mapping[str, str]) -> None:
        """The first value of each setting, on the disk and with the guardian before it changes."""
        new = {key: value for key, value in values.items() if key not in self._originals}
        if not new:
            return
        if self._guardian is None:
            self._guardian = _start_guardian(self._file, detached=self._detached)
        self._originals.update(new)
        _save(self._file, self._originals)
        if not _send(self._guardian, new):
            raise RecordingError(
                "the process that puts settings back ended: nothing is changed", id="keeper-ended"
            )

    def _mend(self) -> None:
        """Puts back what an earlier sweep could not."""
        try:
            left = json.loads(read_plain(self._file))
            originals = {str(key): str(value) for key, value in left.items()}
            for key, value in originals.items():
                self._check_ours(key, value)
        except (OSError, ValueError, AttributeError) as error:
            raise RecordingError(
                f"{self._file} cannot be used ({error}): an earlier sweep left settings of the "
                "device changed; set them by hand, then remove the file",
                id="unusable-restore-record",
            ) from error
        problems = put_back(originals)
        self._report(problems)
        if not problems:
            self._file.unlink()
            self._warn("settings of the device that an earlier sweep left changed were put back")

    def _check_ours(self, key: str, value: str) -> None:
        """Refuses what no sweep wrote: a folder of somebody else's must not have files written.

        Raises:
            ValueError: It is no setting of ours.
        """
        path = Path(key)
        folder = self._root / CPUFREQ
        clock = path.name in CLOCKS and path.parent.parent == folder and ".." not in path.parts
        devfreq = path.name == "max_freq" and path.parent.parent.name == "devfreq"
        if key == MODE and re.fullmatch(r"[A-Za-z0-9_]+", value):
            return
        below = path.is_relative_to(self._root / "sys/devices") and ".." not in path.parts
        if devfreq and below and value.isdecimal():
            return
        if not (clock and re.fullmatch(r"policy\d+", path.parent.name) and value.isdecimal()):
            raise ValueError(f"{key} = {value[:40]!r} is no setting that a sweep changes")

    def _report(self, problems: list[str]) -> None:
        for problem in problems:
            self._warn(f"could not be put back: {problem}; see {self._file}")


def check_state(state: DeviceState, root: Path = Path("/")) -> None:
    """Refuses early what cannot be done here.

    Raises:
        InvalidValueError: There is no such core, no clock driver, no nvpmodel, or no right.
    """
    if state.cores is not None and (absent := set(state.cores) - _online(root)):
        raise InvalidValueError(
            f"--cores: this machine has no core {min(absent)} online", id="no-such-core"
        )
    if state.mode is not None and shutil.which("nvpmodel") is None:
        raise InvalidValueError("--modes needs NVIDIA's nvpmodel, which is not here")
    if state.frequency_hz is not None:
        policies = _policies(state, root)
        if not policies:
            raise InvalidValueError(
                f"--clocks: no /{CPUFREQ}/policy*: this machine lets nobody set a clock "
                "(virtual machines and containers usually do not)",
                id="no-clock-control",
            )
        for policy in policies:
            _clock(policy, state.frequency_hz)
            if not os.access(policy / "scaling_max_freq", os.W_OK):
                raise InvalidValueError("--clocks: only root may set clocks: use sudo")


def put_back(originals: Mapping[str, str]) -> list[str]:
    """Sets every setting to its first value; says which would not take it."""
    problems: dict[str, str] = {}
    # The mode first: setting it sets the clocks, too.
    ordered = sorted(originals.items(), key=lambda pair: pair[0] != MODE)
    for _ in range(PASSES):
        problems = {}
        for key, value in ordered:
            with _into(problems, key):
                if key == MODE:
                    if read_mode() != value:
                        set_mode(value)
                elif (before := _read(Path(key))) != value:
                    _write(Path(key), value)
                    after = _read(Path(key))
                    if after != value and not _is_raised(key, before, after, value):
                        problems[key] = f"{key} says {after}, it was {value}"
        if not problems:
            return []
    return list(problems.values())


def _is_raised(key: str, before: str, after: str, value: str) -> bool:
    """True if a cap was taken, and something else (heat) keeps the clock below it for the moment."""
    numbers = [before, after, value]
    if Path(key).name not in CAPS or not all(number.isdecimal() for number in numbers):
        return False
    return int(before) < int(after) < int(value)


def read_mode() -> str:
    """The number of nvpmodel's power mode.

    Raises:
        RecordingError: It does not say.
    """
    output = _nvpmodel("-q")
    numbers = [line.strip() for line in output.splitlines() if line.strip().isdigit()]
    if not numbers:
        raise RecordingError(f"nvpmodel -q says no number of a mode: {output.strip()[:80]!r}")
    return numbers[-1]


def set_mode(mode: str) -> None:
    """Sets nvpmodel's power mode, by number or name.

    Raises:
        RecordingError: It was not taken; some modes need a restart of the board.
    """
    _nvpmodel("-m", mode)
    output = _nvpmodel("-q")
    if mode not in re.split(r"[\s:]+", output):
        raise RecordingError(
            f"nvpmodel did not take mode {mode} (some need a restart of the board); it says "
            f"{' '.join(output.split())[:80]!r}",
            id="mode-not-taken",
        )


def guard() -> int:
    """Entry of the guardian: takes first values on standard input, puts them back at its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    if sys.argv[2:] == [DETACHED] and os.fork():
        os._exit(0)
    originals: dict[str, str] = {}
    for line in sys.stdin:
        if line.endswith("\n"):
            originals.update(json.loads(line))
            os.write(1, b"kept\n")
    if not put_back(originals) and originals:
        Path(sys.argv[1]).unlink(missing_ok=True)
    return 0


def _policies(state: DeviceState, root: Path) -> list[Path]:
    """The clocks of the cores that are used; those of all where the state does not say."""
    folders = sorted((root / CPUFREQ).glob("policy[0-9]*"))
    if state.cores is None:
        return folders
    return [f for f in folders if _related(f) & set(state.cores)]


def _clock(policy: Path, wanted_hz: float) -> float:
    """The clock of a policy that comes next to the wanted one.

    Raises:
        InvalidValueError: It has none that is low enough.
    """
    low = int(_read(policy / "cpuinfo_min_freq")) * 1e3
    high = int(_read(policy / "cpuinfo_max_freq")) * 1e3
    table = policy / "scaling_available_frequencies"
    offered = [float(word) * 1e3 for word in _read(table).split()] if table.exists() else []
    if not offered and low * 0.99 <= wanted_hz:
        return min(max(wanted_hz, low), high)
    clock = nearest_clock(wanted_hz, offered)
    if clock is None or wanted_hz > high * 1.01:
        raise InvalidValueError(
            f"--clocks {wanted_hz / 1e6:g}MHz: {policy.name} goes from {low / 1e6:g} to "
            f"{high / 1e6:g} MHz",
            id="out-of-range",
        )
    return clock


def _start_guardian(file: Path, *, detached: bool) -> subprocess.Popen[bytes]:
    arguments = [str(file), *([DETACHED] if detached else [])]
    return subprocess.Popen(
        child_command("wattstep.train.environment.keeper:guard", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(os.environ),
        start_new_session=True,  # a signal to the terminal's group, or its end, must not reach it
    )


def _send(guardian: subprocess.Popen[bytes], values: Mapping[str, str]) -> bool:
    """Sends values to the guardian. True if it has taken them."""
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    try:
        guardian.stdin.write(json.dumps(dict(values)).encode() + b"\n")
        guardian.stdin.flush()
    except OSError:  # it is gone
        return False
    return bool(guardian.stdout.readline())


def _nvpmodel(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["nvpmodel", *arguments],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False,
            env=dict(os.environ),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RecordingError(f"nvpmodel cannot be asked: {error}") from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise RecordingError(f"nvpmodel {' '.join(arguments)}: {(words or ['failed'])[-1]}")
    return done.stdout.decode(errors="replace")


def _online(root: Path) -> set[int]:
    text = _read(root / "sys/devices/system/cpu/online")
    return {core for part in text.split(",") for core in _range(part)}


def _related(policy: Path) -> set[int]:
    return {int(word) for word in _read(policy / "related_cpus").split()}


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error


def _write(path: Path, value: str) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(file, "wb", buffering=0) as opened:
            opened.write(f"{value}\n".encode())
            with contextlib.suppress(OSError):  # of a plain file; the kernel's have no length
                opened.truncate()
    except OSError as error:
        raise RecordingError(f"{path} does not take {value}: {error.strerror or error}") from error


def _save(file: Path, originals: Mapping[str, Any]) -> None:
    with replacing(file) as opened:
        opened.write(json.dumps(dict(originals), indent=1).encode())


@contextlib.contextmanager
def _into(problems: dict[str, str], key: str) -> Iterator[None]:
    """Collects the error of a setting, so that the others are put back nevertheless."""
    try:
        yield
    except RecordingError as error:
        problems[key] = str(error)
