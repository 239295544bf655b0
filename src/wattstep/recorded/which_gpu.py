"""Which GPU of a machine a training ran on: of several, the numbers of the others are not its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from wattstep.schema.channel import Channel

UNKNOWN: Final = "which of the {} GPUs trained is not known: what the driver tells of a GPU is shown of all of them"
_PREFIXES: Final = ("gpu-", "mig-")


def own_channels(
    channels: Mapping[str, Channel], device: Mapping[str, Any]
) -> tuple[dict[str, Channel], str | None]:
    """Channels without those of GPUs that did not train.

    Args:
        channels: By name.
        device: Description of the machine, whose "gpu" is the one that trained.

    Returns:
        All of them where no GPU trained or where there is one alone; and a note where several are
        there and none of them is known to be it.
    """
    cards = {channel.gpu for channel in channels.values() if channel.gpu}
    trained = device.get("gpu")
    if len(cards) < 2 or not trained:
        return dict(channels), None
    names = [
        str(name).lower()
        for gpu in (trained, *trained.get("beside", ()))
        for name in (gpu.get("uuid"), gpu.get("pci"))
        if name
    ]
    own = {card for card in cards if any(_is_named(card, name) for name in names)}
    if not own:
        return dict(channels), UNKNOWN.format(len(cards))
    chosen = {name: each for name, each in channels.items() if not each.gpu or each.gpu in own}
    return chosen, None


def _is_named(card: str, name: str) -> bool:
    """True if it is one of the card's names; UUIDs may be the first characters alone."""
    for each in card.split():
        bare = each[4:] if each.startswith(_PREFIXES) else each
        if bare == name or (each.startswith(_PREFIXES) and bare.startswith(name)):
            return True
    return False
