"""`wattstep calibrate-device`: what predictions need of this machine, measured in a few minutes."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer

from wattstep.cli.options import Json, Quiet

if TYPE_CHECKING:
    from wattstep.train.calibration.calibrate import Calibrated


def calibrate_device(
    out: Annotated[
        Path, typer.Option(help="The device's file, for: predict --on FILE.", metavar="FILE.toml")
    ] = Path("this-device.toml"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with one that was interrupted.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure this machine for predictions, in a few minutes: small trainings, each in a process of its own."""
    from wattstep.cli.progress import bar_of
    from wattstep.train.calibration.calibrate import calibrate

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
    shown = [f"{calibrated.path}: wattstep predict NAME --on {calibrated.path}"]
    for key, words in (("step_time", "time of a step"), ("system", "memory of the process")):
        sizes = sorted(abs(each) for each in fit.errors[key])
        shown.append(
            f"{words}: off by {100 * median(sizes):.1f} % (median), {100 * sizes[-1]:.0f} % at most, "
            f"for each of {len(sizes)} trainings by a fit without it"
        )
    if fit.others > 0.1:
        shown.append(
            f"Other processes took up to {fit.others:.1f} cores meanwhile: intervals are wider for it. "
            "Calibrate again when the machine is quiet."
        )
    if calibrated.missing:
        shown.append(f"Not measured here: {', '.join(sorted(calibrated.missing))}.")
    return [*shown, *calibrated.notes]
