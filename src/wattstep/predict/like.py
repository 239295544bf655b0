"""Recorded trainings as evidence: how far predictions were off for them corrects that of another training.

The logarithm of measured over predicted is taken as a sum of independent normal parts: one that all
trainings on a device share, one that trainings of one network share, less so the farther apart their
batch sizes are, and one of each training. What is measured fixes the parts, weighted by how sure it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from typing import Final

import numpy as np

from wattstep.predict.fitted import NORMAL_90
from wattstep.predict.power import ACTIVITY_SPREAD, Ranged
from wattstep.schema.step_graph import StepFamily

Network = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What trainings have in common of the squared error of a prediction, as parts of 1.

    Attributes:
        device: Of the error of a device's values: common to all trainings there.
        network: Of the rest: common to trainings of one network at one batch size.
        fade: `network` falls with the ratio of two batch sizes to the power of minus this.
    """

    device: float
    network: float
    fade: float


# Quantities are keys of a prediction's `reach`, and "power". All numbers but those named below are what
# `benchmarks/shared_errors.py` prints (docs/predict.md): products of misses that no fit had seen.
POWER: Final = Sharing(
    device=0.93, network=0.9, fade=0.25
)  # emulated boards; of a network as its time
# A device's values fitted on one board, a run of another of its kind: phones and cores of one kind have 7.5 %
# of the step time in common, of an interval whose standard deviation is 14 %.
OF_KIND: Final[Mapping[str, Sharing]] = {
    "step_time": Sharing(device=0.29, network=0.93, fade=0.5),
    "reserved": Sharing(device=0.0, network=0.83, fade=0.5),
    "power": POWER,
}
# Values of another device: published times of four networks on a Pascal Titan X.
BORROWED: Final[Mapping[str, Sharing]] = {
    **OF_KIND,
    "step_time": Sharing(device=0.38, network=0.93, fade=0.5),
}
# A machine that was calibrated itself. At one batch size the fit gives 1; 0.9 is an assumption, for no
# training was repeated.
CALIBRATED: Final[Mapping[str, Sharing]] = {
    "step_time": Sharing(device=0.0, network=0.9, fade=0.62),
    "system": Sharing(device=0.0, network=0.9, fade=0.8),
    "power": POWER,
}
LABELS: Final = {
    "step_time": "step time",
    "reserved": "memory",
    "system": "memory",
    "power": "power",
}


@dataclass(frozen=True, kw_only=True)
class Error:
    """How far a prediction of one training may be off.

    Attributes:
        network: What trains, as of `network_of`.
        batch_size: Samples of one forward pass.
        common: Standard deviation, as a logarithm, of the part that all trainings on the device share.
        own: Of the rest, likewise.
    """

    network: Network
    batch_size: int
    common: float
    own: float


@dataclass(frozen=True, kw_only=True)
class Miss:
    """How far it was off.

    Attributes:
        error: How far it might have been.
        off: Logarithm of measured over predicted.
        noise: Standard deviation of what was measured, as a logarithm: of each run by itself.
        systematic: The same of its sensor, which all runs share.
    """

    error: Error
    off: float
    noise: float = 0.0
    systematic: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Correction:
    """What evidence makes of a prediction.

    Attributes:
        factor: By which its value is multiplied.
        reach: Half of its 90 % interval then, as a logarithm.
    """

    factor: float
    reach: float


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recorded training beside its own prediction.

    Attributes:
        run: Its folder.
        workload: Name.
        batch_size: Samples of one forward pass.
        ratios: Measured over predicted, by quantity.
        left_out: Why another quantity corrects nothing.
    """

    run: str
    workload: str
    batch_size: int
    ratios: Mapping[str, float]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """In words."""
        parts = [f"{LABELS[name]} {ratio:.3g} times" for name, ratio in self.ratios.items()]
        parts += [f"{LABELS[name]} not ({why})" for name, why in self.left_out.items()]
        return f"like {self.workload}, batch {self.batch_size:,}, measured over predicted: {', '.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What recorded trainings say of predictions for their device.

    Attributes:
        misses: By quantity, as `Sharing` is.
        trainings: That they are of.
    """

    misses: Mapping[str, Sequence[Miss]] = field(default_factory=dict)
    trainings: Sequence[Recorded] = ()


def network_of(captured: StepFamily) -> Network:
    """What tells one network, with its inputs and the way that it trains, from another."""
    small = captured.small
    return (
        small.accumulate,
        tuple(sorted((name, str(value)) for name, value in small.counts.items())),
        small.names,
        float(small.flops.sum()),
    )


def error_of(
    network: Network, batch_size: int, reach: float, of_device: float, sharing: Sharing
) -> Error:
    """How far a prediction may be off, in its parts.

    Args:
        network: What trains.
        batch_size: Samples of one forward pass.
        reach: Half of the prediction's 90 % interval, as a logarithm.
        of_device: That of the device's values, without what is strange of this training.
        sharing: Of the quantity.
    """
    whole, common = reach / NORMAL_90, sqrt(sharing.device) * min(of_device, reach) / NORMAL_90
    return Error(
        network=network,
        batch_size=batch_size,
        common=common,
        own=sqrt(max(0.0, whole**2 - common**2)),
    )


def power_error(
    network: Network,
    batch_size: int,
    total: Ranged,
    parts: Mapping[str, Ranged],
    *,
    sharing: Sharing,
) -> Error:
    """How far a predicted power may be off: what a GPU's kernels draw of its dynamic power is a training's own.

    Args:
        network: What trains.
        batch_size: Samples of one forward pass.
        total: Predicted, in W.
        parts: By part, likewise.
        sharing: Of what the device's values are off by.
    """
    whole = log(total.high / total.low) / 2
    activity = log(ACTIVITY_SPREAD) * parts["gpu"].value / total.value if "gpu" in parts else 0.0
    of_device = sqrt(max(0.0, whole**2 - activity**2))
    return error_of(network, batch_size, whole, of_device, sharing)


def correction(error: Error, misses: Sequence[Miss], sharing: Sharing) -> Correction:
    """Correction of a prediction that may be off by `error`: mean and deviation of a normal distribution, given misses.

    Args:
        error: Of the prediction.
        misses: Of other predictions for the device, at least one.
        sharing: Of the quantity.
    """
    variance = error.common**2 + error.own**2
    of = [miss.error for miss in misses]
    noise = np.diag([miss.noise**2 for miss in misses])
    systematic = np.array([miss.systematic for miss in misses])
    among = np.array([[_covariance(a, b, sharing) for b in of] for a in of])
    np.fill_diagonal(among, [each.common**2 + each.own**2 for each in of])
    with_it = np.array([_covariance(error, each, sharing) for each in of])
    weights = np.linalg.lstsq(among + noise + np.outer(systematic, systematic), with_it)[0]
    left = max(0.0, variance - float(weights @ with_it))
    shift = float(weights @ np.array([miss.off for miss in misses]))
    return Correction(factor=exp(shift), reach=NORMAL_90 * sqrt(left))


def _covariance(one: Error, other: Error, sharing: Sharing) -> float:
    """Of the errors of two trainings, which may be alike in all but are not the same one."""
    common = one.common * other.common
    if one.network != other.network:
        return common
    away = abs(log(one.batch_size / other.batch_size))
    return common + one.own * other.own * sharing.network * exp(-sharing.fade * away)
