"""NVIDIA's bindings as they answer on a machine of two played GPUs, in the order of the bus.

`PLAYED_NVML` in the environment: "mig" cuts the second GPU in two instances; "newer" is a driver that
does not know the oldest functions any more, and has reasons and fields that nobody knows yet; "lost":
half a second after the first value of its energy the second GPU is off the bus.
"""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

UUIDS = ("GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000")
INSTANCES = (
    "MIG-cccccccc-0000-0000-0000-000000000000", "MIG-dddddddd-0000-0000-0000-000000000000"
)  # fmt: skip
WATTS, LOADS = (100, 300), (10, 90)
KIND = os.environ.get("PLAYED_NVML", "")
NOT_SUPPORTED, NOT_FOUND, NO_FUNCTION, LOST = 3, 6, 13, 15
began = 0.0


class NVMLError(Exception):
    """As the bindings'."""

    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


def nvmlInit() -> None:
    """As NVML's."""


def nvmlShutdown() -> None:
    """As NVML's."""


def nvmlDeviceGetCount() -> int:
    """Two."""
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    """The index stands for the GPU."""
    return index


def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
    """Of a GPU, or of an instance."""
    known = {name: at for at, name in enumerate(UUIDS)}
    known |= {name: -1 - at for at, name in enumerate(INSTANCES) if KIND == "mig"}
    if uuid not in known:
        raise NVMLError(NOT_FOUND)
    return known[uuid]


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    """This one, with 256 MiB on the GPU that is asked for, or on its instance."""
    return [SimpleNamespace(pid=os.getpid(), usedGpuMemory=256 * 2**20)]


def nvmlDeviceGetName(handle: int) -> str:
    """Both are alike."""
    return "NVIDIA Played GPU"


def nvmlDeviceGetUUID(handle: int) -> str:
    """Of a GPU, or of an instance (its number below 0)."""
    return UUIDS[handle] if handle >= 0 else INSTANCES[-1 - handle]


def nvmlDeviceGetPciInfo(handle: int) -> SimpleNamespace:
    """Older bindings give bytes."""
    return SimpleNamespace(busId=f"00000000:{handle + 1:02X}:00.0".encode())


def nvmlDeviceGetMigMode(handle: int) -> list[int]:
    """Now, and after the next start."""
    if KIND != "mig":
        raise NVMLError(NOT_SUPPORTED)
    return [handle, handle]


def nvmlDeviceGetMaxMigDeviceCount(handle: int) -> int:
    """Seven places."""
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(handle: int, index: int) -> int:
    """Two of the places are taken."""
    if index not in (0, 3):
        raise NVMLError(NOT_FOUND)
    return {0: -1, 3: -2}[index]


def nvmlDeviceGetArchitecture(handle: int) -> int:
    """A driver that is newer knows more of them."""
    return 42 if KIND == "newer" else 9


def nvmlDeviceGetTotalEnergyConsumption(handle: int) -> int:
    """In mJ."""
    global began
    began = began or time.monotonic()
    if KIND == "lost" and handle == 1 and time.monotonic() > began + 0.5:
        raise NVMLError(LOST)
    return round(time.monotonic() * WATTS[handle] * 1e3)


def nvmlDeviceGetPowerUsage(handle: int) -> int:
    """In mW; went with the driver that is newer."""
    if KIND == "newer":
        raise NVMLError(NO_FUNCTION)
    return WATTS[handle] * 1000


def nvmlDeviceGetFieldValues(handle: int, fields: list[int]) -> list[SimpleNamespace]:
    """Power, as the newer driver tells it alone; others are not known."""
    known = KIND == "newer" and fields[0] == 186
    value = SimpleNamespace(uiVal=WATTS[handle] * 1000 if known else 0xFFFF_FFFF, ullVal=2**60)
    return [SimpleNamespace(nvmlReturn=0 if known else NOT_SUPPORTED, value=value)]


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    """Not of a GPU that is cut."""
    if KIND == "mig" and handle == 1:
        raise NVMLError(NOT_SUPPORTED)
    return SimpleNamespace(gpu=LOADS[handle], memory=LOADS[handle] // 2, jpeg=1, ofa=2)


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    """Of the card."""
    return SimpleNamespace(used=(handle + 1) * 2**30, free=0, total=16 * 2**30)


def nvmlDeviceGetCurrentClocksEventReasons(handle: int) -> int:
    """Idle; and a reason that nobody knows yet."""
    return 0x1 | (0x4000_0000 if KIND == "newer" else 0)
