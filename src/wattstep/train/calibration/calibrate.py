"""Calibration of this machine from beginning to end; what was measured is kept, so that it can go on after it was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wattstep import devices, engines
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.predict.cpu.time import FILLED, KINDS
from wattstep.record.sensors.machine import caches, describe
from wattstep.schema.ceilings import Asked, Ceilings, identity
from wattstep.schema.engine import Engine
from wattstep.store import this_device
from wattstep.train.calibration.device_file import Machine, chosen, device_toml
from wattstep.train.calibration.fitting import Fit, fit, parallel_share
from wattstep.train.calibration.load import DISTURBED, Load
from wattstep.train.calibration.power import PowerFigures, measure_power
from wattstep.train.calibration.probe import Probe, ProbeSettings, largest_cache, probe_in_child
from wattstep.train.calibration.rounds import Round, best_of_rounds
from wattstep.train.calibration.storage import StorageFigures, measure_storage
from wattstep.train.child.local_machine import one_at_a_time

CEILINGS: Final = "ceilings"
POWER: Final = "power and heat"
STORAGE: Final = "storage and start"
CEILINGS_S: Final = 8.0
ROUNDS: Final = 3  # of ceilings, where others disturb; and two tries of each training
# Small trainings that have every kind of operation between them, at sizes of both sides of the caches.
PROBES: Final = (
    ProbeSettings(workload="lenet", batch_size=16),
    ProbeSettings(workload="resnet8", batch_size=16),
    ProbeSettings(workload="squeezenet", batch_size=4),
    ProbeSettings(workload="char-cnn", batch_size=4),
    ProbeSettings(workload="autoencoder", batch_size=16),
    ProbeSettings(workload="mobilenetv3-small", batch_size=4),
    ProbeSettings(workload="densenet40", batch_size=4),
    ProbeSettings(workload="dcgan", batch_size=4),
    ProbeSettings(workload="gpt", batch_size=1),
    ProbeSettings(workload="vit-tiny", batch_size=1),
    ProbeSettings(workload="alexnet", batch_size=4),
    ProbeSettings(workload="inceptionv1", batch_size=4),
    ProbeSettings(workload="ds-cnn", batch_size=16),
    ProbeSettings(workload="mobilenetv1-vww", batch_size=4),
    ProbeSettings(workload="resnet50", batch_size=1),
)
THREADED: Final = ("resnet8", "mobilenetv3-small", "gpt")  # that are measured with all cores, too
RESUME: Final = "calibrate-device --resume measures that alone, and writes the file anew"
Tell = Callable[[str, float], None]
Measure = Callable[[ProbeSettings], Probe]


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A calibration that came to its end.

    Attributes:
        path: Of the device's file.
        fit: Its values, with errors of what was left out of them.
        missing: What predictions would use and could not be measured, by key.
        notes: What a reader must know.
    """

    path: Path
    fit: Fit
    missing: Mapping[str, str]
    notes: tuple[str, ...]


def calibrate(
    out: Path,
    *,
    resume: bool,
    tell: Tell,
    probes: Sequence[ProbeSettings] = PROBES,
    measure: Measure = probe_in_child,
    ceilings: bool = True,
    power: Callable[[], PowerFigures] | None = measure_power,
    storage: Callable[[Path], StorageFigures] | None = measure_storage,
    threaded: Sequence[ProbeSettings] | None = None,
) -> Calibrated:
    """Measures this machine and writes its file.

    Args:
        out: The file, ending in .toml.
        resume: Go on with what an earlier one left.
        tell: Hears what is measured next, and what share is done.
        probes: Trainings that are measured.
        measure: Measures one.
        ceilings: Whether these are measured, too.
        power: Measures power and heat, as `measure_power`; None: they are left out.
        threaded: Those of `probes` that are measured with several threads, too; None: `THREADED` with all cores.
        storage: Measures the disk of the file's folder, as `measure_storage`; None: it is left out.

    Raises:
        InvalidValueError: The file cannot be written so, or an earlier calibration's remains are in the way.
        WattstepError: A training cannot be measured.
    """
    if out.suffix != ".toml":
        raise InvalidValueError(f"--out {out}: the file of a device ends in .toml")
    engine = engines.find(engines.DEFAULT)
    engine.load()
    journal = _Journal(out.with_name(f"{out.name}.partial"), _header(engine.version()), resume)
    if threaded is None:
        cores = len(os.sched_getaffinity(0))
        threaded = [
            replace(one, threads=cores) for one in probes if cores > 1 and one.workload in THREADED
        ]
    names = [
        *([CEILINGS] if ceilings else []), *([STORAGE] if storage else []),
        *(one.name for one in (*probes, *threaded)), *([POWER] if power else []),
    ]  # fmt: skip
    skipped: list[str] = []
    with one_at_a_time():
        for number, name in enumerate(names):
            if name in journal.entries:
                continue
            tell(name, number / len(names))
            if name == CEILINGS:
                journal.add(name, _ceilings(engine).to_dict())
            elif name == STORAGE and storage is not None:
                journal.add(name, storage(out.parent))
            else:
                try:
                    if name == POWER and power is not None:
                        journal.add(name, power())
                    else:
                        one = next(each for each in (*probes, *threaded) if each.name == name)
                        journal.add(name, _tried_twice(measure, one).to_dict())
                except RecordingError as error:  # of one among many: it does without
                    skipped.append(f"{error}: {RESUME}")
    tell("fit", 1.0)
    entries = journal.entries
    probed = [Probe.from_dict(entries[one.name]) for one in probes if one.name in entries]
    fitted = fit(probed)
    measured = Ceilings.from_dict(entries[CEILINGS]) if ceilings else None
    trainings = ", ".join(f"{one.settings.workload} at {one.settings.batch_size}" for one in probed)
    text = device_toml(
        _machine(), measured, fitted, engine=engine_key(engine.version()),
        probes=f"{engine.version()}, one thread, fp32: {trainings}", power=entries.get(POWER, {}),
        storage=entries.get(STORAGE, {}),
        shares=_shares(probed, [entries[one.name] for one in threaded if one.name in entries], fitted),
    )  # fmt: skip
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"{out} cannot be written: {error.strerror or error}") from error
    device = devices.find(os.fspath(out))
    this_device.keep(text)
    if not skipped:
        journal.remove()
    return Calibrated(
        path=out,
        fit=fitted,
        missing=device.missing,
        notes=(
            *skipped,
            *(
                f"{name}: {entries[name]['reason']}"
                for name in (STORAGE, POWER)
                if "reason" in entries.get(name, {})
            ),
            *(
                f"{name} power: {why}"
                for name, why in entries.get(POWER, {}).get("reasons", {}).items()
                if name in ("idle", "full")
            ),
            *(measured.notes if measured else ()),
        ),
    )


def _tried_twice(measure: Measure, settings: ProbeSettings) -> Probe:
    """A training; once more where it came to no end, for on a busy machine that may be another's doing.

    Raises:
        RecordingError: It came to no end again.
    """
    try:
        return measure(settings)
    except RecordingError:
        return measure(settings)


def _shares(probed: Sequence[Probe], threaded: Sequence[Any], fitted: Fit) -> list[float]:
    """Part of each training's operations that threads divide among them."""
    alone = {(one.settings.workload, one.settings.batch_size): one for one in probed}
    shares = []
    for many in map(Probe.from_dict, threaded):
        one = alone.get((many.settings.workload, many.settings.batch_size))
        share = None if one is None else parallel_share(one, many, fitted.kinds)
        if share is not None:
            shares.append(share)
    return shares


def engine_key(version: str) -> str:
    """ "torch-2.13" of "torch 2.13.0+cpu"."""
    name, _, number = version.partition(" ")
    return f"{name}-{'.'.join(number.split('.')[:2])}"


def _header(version: str) -> dict[str, Any]:
    return {
        "machine": dict(identity(describe())),
        "engine": version,
        "kinds": list(KINDS),
        "features": FILLED,
    }


def _machine() -> Machine:
    facts = describe()
    with Path("/proc/meminfo").open(encoding="utf-8") as file:
        sizes = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in file}
    return Machine(
        title=chosen(facts),
        cpu=str(facts.get("cpu") or facts.get("architecture") or "CPU"),
        cores=len(os.sched_getaffinity(0)),
        size=sizes["MemTotal"],
        available=sizes["MemAvailable"],
        cache=largest_cache(),
    )


def _ceilings(engine: Engine) -> Ceilings:
    """Measured again while others disturb; the best of all rounds, with what they may hide."""
    threads = len(os.sched_getaffinity(0))
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    sizes = {
        name: size * -(-threads // cores) if cores == 1 else size
        for name, (size, cores) in caches().items()
    }
    asked = Asked(
        device=describe(), threads=threads, precisions=("fp32", "bf16"), caches=sizes, free=free,
        seconds=CEILINGS_S / 2,
    )  # fmt: skip
    rounds: list[Round] = []
    while len(rounds) < ROUNDS:
        load = Load()
        measured = engine.ceilings(asked, lambda text: None)
        rounds.append(Round(measured, others=load.others(), share=load.share(threads)))
        if rounds[-1].others <= DISTURBED:
            break
    return best_of_rounds(rounds)


class _Journal:
    """What was measured so far, a line each.

    Args:
        path: Its file.
        header: What must be the same for it to go on.
        resume: Whether it goes on with what is there.

    Raises:
        InvalidValueError: There is something, and it is not to go on or of something else.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], resume: bool) -> None:
        self._path = path
        self.entries: dict[str, Any] = {}
        if path.exists():
            self._read(header, resume)
        elif resume:
            raise InvalidValueError(
                f"--resume: {path} does not exist: nothing was interrupted there"
            )
        else:
            self._write({"header": header})

    def _read(self, header: Mapping[str, Any], resume: bool) -> None:
        if not resume:
            raise InvalidValueError(
                f"{self._path} holds what an interrupted calibration measured: --resume goes on with it; "
                "or remove it"
            )
        documents = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                documents.append(json.loads(line))
            except ValueError:
                break  # cut off when it was killed
        if not documents or documents[0].get("header") != json.loads(json.dumps(header)):
            raise InvalidValueError(
                f"{self._path} is of another machine or another version of the framework or of wattstep: remove it to begin anew"
            )
        self.entries = {each["name"]: each["value"] for each in documents[1:]}
        text = "".join(json.dumps(each) + "\n" for each in documents)
        self._path.write_text(text, encoding="utf-8")

    def add(self, name: str, value: Mapping[str, Any]) -> None:
        """Keeps what was measured, on the disk before anything else is."""
        self.entries[name] = json.loads(json.dumps(value))
        self._write({"name": name, "value": value})

    def _write(self, document: Mapping[str, Any]) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(document) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RecordingError(
                f"{self._path} cannot be written: {error.strerror or error}"
            ) from error

    def remove(self) -> None:
        """The file is not needed any more."""
        self._path.unlink(missing_ok=True)
