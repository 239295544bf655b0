"""GPU utilization while the training ran: the share of time, which is not how full it was."""

from __future__ import annotations

from dataclasses import replace

from wattstep.device.utilization import mean_active_ratio
from wattstep.recorded.series import Series
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import Figure, Status, missing, weakest

NO_SENSOR = "no GPU load was sampled: this machine has no GPU, or none that reports its load"
NOT_AMONG = "no load of a GPU is among the imported telemetry"
TELLS_NONE = "NVIDIA's driver tells no load of this GPU{}"
CUT = ", which is cut into instances (MIG)"
MEANING = "share of time in which at least one kernel ran, not how much of the GPU it filled"


def gpu_utilization(series: Series, parts: IntArray) -> Figure:
    """Busy time of the GPU over clean time, the mean where there are several GPUs.

    Args:
        series: The samples of the run.
        parts: Parts of the clean time, begin and end in ns, shape (p, 2).

    Returns:
        The ratio, as strong as the weakest channel behind it; missing where none was sampled.
    """
    channels = list(series.with_role("gpu_utilization"))
    if not channels:
        return missing("ratio", series.without(_why_none(series)))
    source = ", ".join(dict.fromkeys(channel.source for channel in channels))
    figure = mean_active_ratio([series.curve(channel) for channel in channels], parts, source)
    if figure.value is None:
        return figure
    # No stronger than its channels: a load that was replayed or emulated stays so.
    status = weakest([figure.status, *(Status(channel.status) for channel in channels)])
    gpus = f", mean of {len(channels)} GPUs" if len(channels) > 1 else ""
    method = "; ".join(part for part in (f"{MEANING}{gpus}", figure.method) if part)
    return replace(figure, status=status, method=method)


def _why_none(series: Series) -> str:
    """Reason why no load was sampled."""
    if series.imported.is_import:
        return NOT_AMONG
    cards = [channel for channel in series.channels.values() if channel.gpu]
    if not cards:
        return NO_SENSOR
    return TELLS_NONE.format(CUT if any("(MIG)" in card.note for card in cards) else "")
