"""How much of the time the sensor behind a GPU's power and energy looks."""

from __future__ import annotations

from wattstep.run.metrics import Parts
from wattstep.schema.channel import parts_once
from wattstep.schema.figure import Figure, Status, missing

PUBLISHED = "arXiv 2312.02741"
UNKNOWN = (
    "nobody has published how much of the time the power sensor of this GPU looks: its power and "
    "energy may leave out what runs between two looks"
)


def sensor_share(run: Parts) -> Figure | None:
    """Least part of the time in which the sensor of a GPU's power looks; None without NVIDIA's library."""
    cards = [
        channel
        for channel in parts_once(run.series.channels.values())
        if channel.domain == "gpu" and channel.source.startswith("NVML")
    ]
    if not cards:
        return None
    shares = [channel.observed_share for channel in cards if channel.observed_share is not None]
    if len(shares) < len(cards):
        return missing("ratio", UNKNOWN)
    return Figure(
        value=min(shares), unit="ratio", status=Status.MODELLED, source=PUBLISHED,
        method="published for this product, not measured here",
    )  # fmt: skip
