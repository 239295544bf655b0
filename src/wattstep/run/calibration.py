"""A run laid beside the log of an external meter: the calibration of its power sensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.formats.power_meter import CHANNEL
from wattstep.formats.recording import Recording
from wattstep.recorded.calibration import TOTAL, Calibration, find_shift, fit, shifted
from wattstep.recorded.curves import Curve, curve_of_gauge
from wattstep.recorded.power import EnergySource
from wattstep.run.run import Run
from wattstep.schema.figure import Missing
from wattstep.schema.run_documents import CalibrationFile, MachineFacts
from wattstep.schema.run_info import RunInfo

UPDATES_A_WINDOW: Final = 5
WINDOW_NS: Final = 1_000_000_000
STEP_NS: Final = 20_000_000  # of the grid on which the clocks are aligned
# A wall clock of a board that asks no time server is out by seconds, one that does by less.
WALL_CLOCK_NS: Final = 5_000_000_000
ANY_NS: Final = 2**62


def calibrate(
    run: Run,
    meter: Recording,
    *,
    channel: str = TOTAL,
    shift_s: float | None = None,
    accuracy: float = 0.0,
) -> Calibration:
    """Fits what a run's sensors say to what a meter said in the same time.

    Args:
        run: The run, whose power should vary: with idle stretches, best of all.
        meter: The meter's log.
        channel: "total", or the channel of one rail that the meter measured.
        shift_s: What is added to the meter's times to get the run's; None: found by aligning the
            two powers, from the wall clocks where the log has one.
        accuracy: Relative accuracy of the meter, as its maker states it.

    Raises:
        InvalidValueError: The run has no such power, or the two do not fit together.
    """
    source = _source(run, channel)
    theirs = curve_of_gauge(meter.t_ns[CHANNEL.name], meter.value[CHANNEL.name])
    step_ns = max(STEP_NS, _spacing(theirs))
    if meter.clock == "wall":
        theirs = shifted(theirs, -_wall_ahead_ns(run.info) * 1e-9)
    if shift_s is None:
        most = WALL_CLOCK_NS if meter.clock == "wall" else ANY_NS
        shift_s, _ = find_shift(source.curve, theirs, step_ns, most)
    window_ns = max(WINDOW_NS, UPDATES_A_WINDOW * max(_spacing(source.curve), _spacing(theirs)))
    calibration = fit(
        source.curve, shifted(theirs, shift_s), window_ns=window_ns, accuracy=accuracy
    )
    return replace(
        calibration, shift_s=shift_s, source=f"{source.source} against an external meter"
    )


def calibration_document(run: Run, calibrations: Mapping[str, Calibration]) -> CalibrationFile:
    """Content of a calibration file: its board, and the calibrations by channel."""
    device = run.info.device
    return {
        "schema": 1,
        "device": {"model": device.get("model"), "board": device.get("board")},
        "calibrations": {name: each.to_dict() for name, each in calibrations.items()},
    }


def check_device(document: CalibrationFile, device: MachineFacts) -> None:
    """Refuses the calibration of another board.

    Raises:
        InvalidValueError: It is of another model.
    """
    of = document.get("device") or {}
    for key in ("model", "board"):
        if of.get(key) != device.get(key):
            raise InvalidValueError(
                f"this calibration is of {of.get(key)}, and this is {device.get(key)}: every board "
                "needs its own",
                id="other-board",
            )


def _source(run: Run, channel: str) -> EnergySource:
    """The power as the sensors say it, before any calibration."""
    if channel == TOTAL:
        energy = run.series.uncalibrated
        if isinstance(energy, Missing):
            raise InvalidValueError(f"{run.path} has no power to calibrate: {energy}")
        return energy
    if channel not in run.series.uncalibrated_rails:
        known = ", ".join(run.series.uncalibrated_rails) or "none"
        raise InvalidValueError(f"{run.path} has no rail {channel!r}: there are {known}")
    return run.series.uncalibrated_rails[channel]


def _spacing(curve: Curve) -> int:
    return int(np.median(np.diff(curve.t_ns))) if len(curve.t_ns) > 1 else STEP_NS


def _wall_ahead_ns(info: RunInfo) -> int:
    """Lead of the wall clock over the run's clock."""
    if not info.clocks:
        raise InvalidValueError(
            "the run does not say how its clock and the wall clock relate: give --shift"
        )
    return int(np.median([ahead for _, ahead in info.clocks]))
