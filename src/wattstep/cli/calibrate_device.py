"""`wattstep calibrate-device`: what predictions need of this machine, measured in a few minutes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from wattstep.cli.options import Json, Quiet
from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.train.calibration.calibrate import Calibrated
    from wattstep.train.calibration.engine import CalibratedEngine


def calibrate_device(
    out: Annotated[
        Path, typer.Option(help="The device's file, for: predict --on FILE.", metavar="FILE.toml")
    ] = Path("this-device.toml"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with one that was interrupted.")
    ] = False,
    engine: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Measure another engine than torch, on this machine that was calibrated, and add it to "
            "its file: mnn, onnxruntime, executorch, mlx, torch-compile.",
            metavar="NAME",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure this machine for predictions, in a few minutes: small trainings, each in a process of its own."""
    from wattstep.cli.progress import bar_of
    from wattstep.train.calibration.calibrate import calibrate

    if engine is not None:
        _calibrate_engine(engine, out, resume, json, quiet)
        return
    with bar_of("calibrate-device", quiet=quiet) as bar:
        calibrated = calibrate(out, resume=resume, tell=bar)
    if json:
        from wattstep.report.json_document import dump

        dump(document(calibrated), sys.stdout)
        return
    from wattstep.cli.screen import screen

    console = screen()
    for line in lines(calibrated):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _calibrate_engine(name: str, out: Path, resume: bool, json: bool, quiet: bool) -> None:
    from wattstep.cli.progress import bar_of
    from wattstep.train.calibration.engine import calibrate_engine

    if resume:
        raise InvalidValueError(
            "--resume goes on with the calibration of torch; an engine's begins anew",
            id="needless-option",
        )
    with bar_of("calibrate-device", quiet=quiet) as bar:
        calibrated = calibrate_engine(name, out, tell=bar)
    if json:
        from wattstep.report.json_document import dump

        dump(document_of_engine(calibrated), sys.stdout)
        return
    from wattstep.cli.screen import screen

    console = screen()
    for line in lines_of_engine(calibrated):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def document_of_engine(calibrated: CalibratedEngine) -> dict[str, object]:
    """JSON-ready."""
    fit = calibrated.fit
    return {
        "device": str(calibrated.path),
        "engine": calibrated.engine,
        "times_torch": dict(fit.times.times),
        "starts_torch": dict(fit.times.starts),
        "trainings": [each.probe.name for each in calibrated.trainings],
        "errors": {key: list(each) for key, each in fit.errors.items()},
        "interval": dict(fit.reach),
        "notes": list(calibrated.notes),
    }


def lines_of_engine(calibrated: CalibratedEngine) -> list[str]:
    """For readers."""
    fit, name = calibrated.fit, calibrated.engine.rpartition("-")[0]
    times = ", ".join(f"{group} {factor:.2g}" for group, factor in fit.times.times.items())
    return [
        f"{calibrated.path}: wattstep predict NAME --on {calibrated.path} --engine {name}",
        f"{calibrated.engine} takes, times torch: {times}",
        *_errors(fit.errors),
        *calibrated.notes,
    ]


def _errors(errors: Mapping[str, Sequence[float]]) -> list[str]:
    """How far trainings were off that the fit had not seen."""
    shown = []
    for key, words in (("step_time", "time of a step"), ("system", "memory of the process")):
        sizes = sorted(abs(each) for each in errors[key])
        shown.append(
            f"{words}: off by {100 * median(sizes):.1f} % (median), {100 * sizes[-1]:.0f} % at most, "
            f"for each of {len(sizes)} trainings by a fit without it"
        )
    return shown


def document(calibrated: Calibrated) -> dict[str, object]:
    """JSON-ready."""
    fit = calibrated.fit
    return {
        "device": str(calibrated.path),
        "errors": {key: list(each) for key, each in fit.errors.items()},
        "interval": dict(fit.reach),
        "other_cores": fit.others,
        "missing": dict(calibrated.missing),
        "notes": list(calibrated.notes),
    }


def lines(calibrated: Calibrated) -> list[str]:
    """For readers."""
    fit = calibrated.fit
    shown = [
        f"{calibrated.path}: wattstep predict NAME --on {calibrated.path}",
        *_errors(fit.errors),
    ]
    if fit.others > 0.1:
        shown.append(
            f"Other processes took up to {fit.others:.1f} cores meanwhile: intervals are wider for it. "
            "Calibrate again when the machine is quiet."
        )
    if calibrated.missing:
        shown.append(f"Not measured here: {', '.join(sorted(calibrated.missing))}.")
    return [*shown, *calibrated.notes]
