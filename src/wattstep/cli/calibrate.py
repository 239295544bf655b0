"""`wattstep calibrate`: a board's own power sensors against an external meter."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import OUTPUT, Json, Quiet
from wattstep.errors import InvalidValueError


def calibrate(
    run: Annotated[Path, typer.Argument(help="A run, recorded while the meter logged.")],
    meter: Annotated[
        Path,
        typer.Option(
            help="The meter's log: CSV whose header names a time and watts, or volts and amperes.",
            metavar="FILE",
        ),
    ],
    rail: Annotated[
        str, typer.Option(help="The rail that the meter measured, or total.", metavar="CHANNEL")
    ] = "total",
    shift: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            help="Seconds to add to the meter's times. [default: found from the two powers]",
            metavar="S",
        ),
    ] = None,
    accuracy: Annotated[
        str,
        typer.Option(help="Of the meter, as its maker states it, e.g. 0.5%.", metavar="PERCENT"),
    ] = "0%",
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            *OUTPUT,
            help="Write the calibration there, for: wattstep run --calibration FILE.",
            metavar="FILE",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Fit gain and offset of a run's power to an external meter; its figures carry them from then on."""
    from dataclasses import replace

    from wattstep.cli.progress import stages_of
    from wattstep.formats.power_meter import parse
    from wattstep.recorded.calibration import read_calibrations
    from wattstep.run import load
    from wattstep.run.calibration import calibrate as fit_run
    from wattstep.run.calibration import calibration_document
    from wattstep.store.files import write_info
    from wattstep.store.folder import Folder

    opened = load(run)
    with Folder(run) as folder:
        if why := folder.foreign():
            raise InvalidValueError(f"{run} is not written into: {why}; make a copy that is yours")
    with stages_of("setting the meter's log beside the run", quiet=quiet or json):
        recording = parse(read_bytes(meter))
        fit = fit_run(
            opened, recording, channel=rail, shift_s=shift, accuracy=parse_percent(accuracy)
        )
    known = read_calibrations(opened.info.calibration) if opened.info.calibration else {}
    document = calibration_document(opened, {**known, rail: fit})
    write_info(run, replace(opened.info, calibration=document))
    if output is not None:
        write_json(document, output)
    if json:
        from wattstep.report.json_document import dump

        dump({"run": str(run), **document}, sys.stdout)
        return
    print(
        f"{rail}: meter = {fit.gain:.4f} × sensors {fit.offset_w:+.3f} W\n"
        f"  gain {fit.gain_low:.4f} to {fit.gain_high:.4f}, offset {fit.offset_low:+.3f} to "
        f"{fit.offset_high:+.3f} W (95 %, {fit.windows} windows of {fit.window_s:g} s, "
        f"correlation {fit.correlation:.3f})\n"
        f"  the meter's clock was moved by {fit.shift_s:+.3f} s; what is left: "
        f"{fit.residual_w:.3g} W\n"
        f"The figures of {run} carry it from now on"
        + ("" if output is None else f"; further runs: wattstep run --calibration {output}")
    )


def read_bytes(path: Path) -> bytes:
    """A file that the user named.

    Raises:
        InvalidValueError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidValueError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def write_json(document: object, path: Path) -> None:
    """A small file, whole or not at all.

    Raises:
        InvalidValueError: It cannot be written.
    """
    import json

    from wattstep.report.html.page import write_at_once

    try:
        write_at_once(json.dumps(document, indent=1) + "\n", path)
    except OSError as error:
        raise InvalidValueError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def parse_percent(text: str) -> float:
    """A ratio from "0.5%".

    Raises:
        InvalidValueError: It is none from 0 to 100.
    """
    try:
        ratio = float(text.removesuffix("%")) / 100
    except ValueError:
        ratio = -1.0
    if not text.endswith("%") or not 0 <= ratio < 1:
        raise InvalidValueError(
            f"--accuracy {text!r}: write a percentage, e.g. 0.5%", id="malformed-percentage"
        )
    return ratio
