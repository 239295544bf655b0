"""`wattstep ceilings`: what this machine can do at most, measured: FLOP/s and bytes in a second."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli.options import Full, Json, Quiet
from wattstep.cli.saying import say
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.schema.settings import check_above_0

if TYPE_CHECKING:
    from wattstep.schema.ceilings import Ceilings

ALL_COUNTS = 4  # cores up to which every number of threads is measured
PRECISIONS = ("fp32", "bf16")
OPENCL = "opencl"
SECONDS = 12.0
OPENCL_SECONDS = 240.0  # half of it for the search for kernels, which is remembered


def ceilings(
    threads: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Numbers of threads, e.g. 1,4. [default: from 1 to all cores]", metavar="N,..."
        ),
    ] = None,
    of_run: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--for",
            help="Only what this run needs: its framework and threads, on its machine.",
            metavar="RUN",
        ),
    ] = None,
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Framework. [default: torch; with --for: the run's]", metavar="NAME"),
    ] = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Write them into this file, too.", metavar="FILE"),
    ] = None,
    add: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Measure nothing: keep those that --out wrote on another machine.", metavar="FILE"
        ),
    ] = None,
    seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="How long measuring may take, roughly; OpenCL's is ended then, with what was measured. "
            "[default: 12; OpenCL: 240]",
            metavar="S",
        ),
    ] = None,
    processor: Annotated[
        str,
        typer.Option(
            help="cpu; or opencl, opencl:NUMBER or opencl:NAME for an OpenCL device with the CPU beside it.",
            metavar="NAME",
        ),
    ] = "cpu",
    retune: Annotated[
        bool,
        typer.Option(
            "--retune", help="OpenCL: search for kernels again, as if none were remembered."
        ),
    ] = False,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what this machine can do at most; `explain` sets operations against it."""
    if processor != "cpu":
        _refuse_beside(processor, threads=threads, of_run=of_run, engine=engine, add=add)
        _measure_device(
            processor,
            OPENCL_SECONDS if seconds is None else seconds,
            retune,
            out,
            full,
            json,
            quiet,
        )
        return
    seconds = SECONDS if seconds is None else seconds
    measured = _added(add) if add is not None else _wanted(threads, of_run, engine, seconds, quiet)
    if out is not None:
        _write(_document(measured), out)
    _show(measured, json)


def _refuse_beside(processor: str, **options: object) -> None:
    """Refuses what only ceilings of a CPU know, and a processor that is none."""
    if processor.partition(":")[0] != OPENCL:
        raise InvalidValueError(
            f"--processor {processor}: ceilings are of cpu and opencl", id="unknown-processor"
        )
    names = {"of_run": "for"}
    for option, given in options.items():
        if given is not None:
            raise InvalidValueError(
                f"--{names.get(option, option)} is of ceilings of a CPU: not with --processor {processor}",
                id="excluding-options",
            )


def _measure_device(
    processor: str,
    seconds: float,
    retune: bool,
    out: Path | None,
    full: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measures an OpenCL device, writes and shows it."""
    check_above_0(f"--seconds {seconds:g}", seconds)
    from wattstep.opencl.ceilings import measure
    from wattstep.record.sensors.machine import describe
    from wattstep.report.json_document import dump
    from wattstep.report.terminal.device_ceilings import print_device_ceilings
    from wattstep.store.device_ceilings import keep
    from wattstep.train.child.local_machine import one_at_a_time

    facts = describe()
    host: dict[str, str | int] = {"cpu": str(facts["cpu"]), "cores": facts["cores"] or 0}
    with one_at_a_time(), _watched() as others:
        measured = measure(
            processor.partition(":")[2] or None,
            seconds,
            retune=retune,
            tell=_counting_down(seconds, quiet),
            host=host,
        )
    measured = replace(measured, notes=(*others, *measured.notes))
    if not keep(measured):
        more = "more was measured before, which stays what predictions take"
        measured = replace(measured, notes=(*measured.notes, more))
    if out is not None:
        _write(measured.to_dict(), out)
    if as_json:
        dump(measured.to_dict(), sys.stdout)
        return
    print_device_ceilings(measured, full=full)


def _wanted(
    threads: str | None, of_run: Path | None, engine: str | None, seconds: float, quiet: bool
) -> list[Ceilings]:
    """Measures what is asked for, or what a run needs."""
    from wattstep.engines import DEFAULT

    if of_run is None:
        return _measured(engine or DEFAULT, _counts(threads), seconds, quiet)
    for option, given in (("threads", threads), ("engine", engine)):
        if given is not None:
            raise InvalidValueError(
                f"--{option} and --for exclude each other: a run has its own {option}",
                id="excluding-options",
            )
    return _measured(*_of(of_run), seconds, quiet)


def _counts(threads: str | None) -> list[int]:
    """Numbers of threads to measure with."""
    if threads is not None:
        return _parse(threads)
    cores = len(os.sched_getaffinity(0))
    if cores <= ALL_COUNTS:
        return list(range(1, cores + 1))
    return sorted({1, *(2**power for power in range(1, 12) if 2**power < cores), cores})


def _parse(text: str) -> list[int]:
    try:
        counts = sorted({int(word) for word in text.split(",")})
    except ValueError:
        counts = [0]
    if counts[0] < 1:
        raise InvalidValueError(
            f"--threads {text!r}: whole numbers from 1 on with commas between them, e.g. 1,4",
            id="malformed-list",
        )
    return counts


def _of(path: Path) -> tuple[str, list[int]]:
    """The engine and the threads of a run, if this is its machine.

    Raises:
        InvalidValueError: It ran elsewhere, or does not say with how many threads.
    """
    from wattstep.record.sensors.machine import describe
    from wattstep.run import load
    from wattstep.schema.ceilings import PROCESSOR
    from wattstep.store.ceilings import differences

    info = load(path).info
    ran = info.device.get("emulated_on", info.device)
    here = describe()
    if any(here.get(key) != ran.get(key) for key in PROCESSOR):
        raise InvalidValueError(
            f"{path} ran on another machine (here: {differences(here, ran)}): measure its ceilings "
            "there with --out FILE, and keep them here with --add FILE",
            id="ran-elsewhere",
        )
    if info.threads is None:
        raise InvalidValueError(
            f"{path} does not say how many threads its operations used", id="unknown-threads"
        )
    return info.engine.partition(" ")[0], [info.threads]


def _measured(name: str, counts: Sequence[int], seconds: float, quiet: bool) -> list[Ceilings]:
    check_above_0(f"--seconds {seconds:g}", seconds)
    from wattstep import engines
    from wattstep.record.sensors.machine import caches, describe
    from wattstep.schema.ceilings import Asked
    from wattstep.store.ceilings import keep
    from wattstep.train.child.local_machine import one_at_a_time

    tell = _counting_down(seconds, quiet)
    engine = engines.find(name)
    engine.load()
    device, ceilings = describe(), []
    with one_at_a_time():
        for count in counts:
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            sizes = {
                name: size * -(-count // cores) if cores == 1 else size
                for name, (size, cores) in caches().items()
            }
            asked = Asked(
                device=device, threads=count, precisions=PRECISIONS, caches=sizes, free=free,
                seconds=seconds / len(counts) / 2,  # trying sizes and making arrays takes the rest
            )  # fmt: skip
            with _watched() as others:
                measured = engine.ceilings(asked, tell)
            ceilings.append(replace(measured, notes=(*others, *measured.notes)))
            keep(ceilings[-1])
    return ceilings


def _counting_down(seconds: float, quiet: bool) -> Callable[[str], None]:
    """Tells what is measured next, and how much of the time is left."""
    begun = time.monotonic()

    def tell(text: str) -> None:
        left_s = begun + seconds - time.monotonic()
        if not quiet:
            say(f"{text} (about {left_s:.0f} s left)" if left_s >= 1 else text)

    return tell


@contextmanager
def _watched() -> Iterator[list[str]]:
    """A list that holds, afterwards, what a reader must know of other processes."""
    notes: list[str] = []
    from wattstep.train.calibration.load import DISTURBED, Load

    load = Load()
    yield notes
    others = load.others()
    if others > DISTURBED:
        notes.append(
            f"other processes took {others:.2g} cores meanwhile: the ceilings may be higher; "
            "measure again when the machine is quiet"
        )


def _added(path: Path) -> list[Ceilings]:
    import json

    from wattstep.errors import DamagedRunError
    from wattstep.schema.ceilings import Ceilings
    from wattstep.store.ceilings import keep

    try:
        documents = json.loads(path.read_text(encoding="utf-8"))["ceilings"]
        added = [Ceilings.from_dict(document) for document in documents]
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be read: {error.strerror or error}", id="unreadable-file"
        ) from error
    except (ValueError, KeyError, TypeError, DamagedRunError) as error:
        raise InvalidValueError(
            f"{path} holds no measured ceilings: {error}", id="not-ceilings"
        ) from error
    for one in added:
        keep(one)
    return added


def _write(document: dict[str, Any], path: Path) -> None:
    from wattstep.report.json_document import dump

    try:
        with path.open("w", encoding="utf-8") as file:
            dump(document, file)
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror or error}", id="unwritable-ceilings"
        ) from error


def _document(ceilings: Sequence[Ceilings]) -> dict[str, Any]:
    return {"ceilings": [one.to_dict() for one in ceilings]}


def _show(ceilings: Sequence[Ceilings], as_json: bool) -> None:
    if as_json:
        from wattstep.report.json_document import dump

        dump(_document(ceilings), sys.stdout)
        return
    from wattstep.report.terminal.ceilings import print_ceilings

    print_ceilings(ceilings)
