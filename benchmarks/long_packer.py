"""The process that packs, which looks for segments as often as they come at a hundred times the speed.

A recording of its own pace fills a segment in minutes, and looks every five seconds.
"""

from typing import Final

from wattstep.store import packing

LOOK_S: Final = 0.05


def main() -> None:
    """As `packing.main`."""
    setattr(packing, "LOOK_S", LOOK_S)  # noqa: B010
    packing.main()
