"""What tuning found, kept in the user's cache folder for each device and version of its driver; data alone."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.opencl.config import Config, default_config
from wattstep.opencl.device import Device
from wattstep.opencl.program import source
from wattstep.store.cache import cache_folder
from wattstep.store.folder import read_plain, replacing

FOLDER: Final = "opencl"
SCHEMA: Final = 1
ALIKE: Final = 4.0  # times as large in any dimension: beyond, what was tuned says nothing
Shape = tuple[int, int, int]  # m, n, k


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The fastest configuration of a product on a device.

    Attributes:
        shape: m, n, k.
        trans_a: As `gemm.Gemm` takes it.
        trans_b: As `gemm.Gemm` takes it.
        config: Its kernel.
        seconds: Median time of a product with it when it was found.
    """

    shape: Shape
    trans_a: bool
    trans_b: bool
    config: Config
    seconds: float


def recall(device: Device, shape: Shape, trans_a: bool, trans_b: bool) -> Config:
    """The configuration that tuning found for a shape and layout, for one like it, or else a default."""
    tuned = [one for one in read(device) if (one.trans_a, one.trans_b) == (trans_a, trans_b)]
    nearest = min(tuned, key=lambda one: _apart(one.shape, shape), default=None)
    if nearest is not None and _apart(nearest.shape, shape) <= ALIKE:
        with suppress(InvalidValueError):  # of a device that shrank, or a file from elsewhere
            nearest.config.check(device)
            return nearest.config
    return default_config(device, *shape[:2])


def exact(device: Device, shape: Shape, trans_a: bool, trans_b: bool) -> Tuned | None:
    """What tuning found for just this shape and layout."""
    wanted = (shape, trans_a, trans_b)
    fitting = (one for one in read(device) if (one.shape, one.trans_a, one.trans_b) == wanted)
    return next(fitting, None)


def read(device: Device) -> list[Tuned]:
    """All that was found on a device with this version of its driver and of the kernels.

    A file that cannot be read counts as none, as in all caches: it is tuned again.
    """
    with suppress(OSError, ValueError, KeyError, TypeError):  # InvalidValueError is a ValueError
        document = json.loads(read_plain(_path(device)))
        if document["schema"] == SCHEMA and document["device"] == _key(device):
            return [_tuned(one) for one in document["products"]]
    return []


def remember(device: Device, found: Sequence[Tuned]) -> Path:
    """Keeps what was found; the same shapes and layouts give way.

    Raises:
        RecordingError: The cache folder cannot be written.
    """
    by_shape = {(one.shape, one.trans_a, one.trans_b): one for one in (*read(device), *found)}
    document = {
        "schema": SCHEMA,
        "device": _key(device),
        "products": [_document(one) for _, one in sorted(by_shape.items())],
    }
    path = _path(device)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(document, indent=1).encode() + b"\n")
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror or error}", id="unwritable-tuning"
        ) from error
    return path


def _apart(one: Shape, other: Shape) -> float:
    """How many times as large one is as the other, in the dimension in which they differ most."""
    ratios = [max(a, 1) / max(b, 1) for a, b in zip(one, other, strict=True)]
    return math.exp(max(abs(math.log(ratio)) for ratio in ratios))


def _path(device: Device) -> Path:
    return (
        cache_folder() / FOLDER / f"{hashlib.sha256(_key(device).encode()).hexdigest()[:24]}.json"
    )


def _key(device: Device) -> str:
    """Device, version of its driver, and kernels."""
    kernels = hashlib.sha256(source("gemm").encode()).hexdigest()[:16]
    return f"{device.key}|{kernels}"


def _document(one: Tuned) -> dict[str, Any]:
    return {
        "shape": list(one.shape),
        "trans_a": one.trans_a,
        "trans_b": one.trans_b,
        "config": one.config.to_dict(),
        "seconds": one.seconds,
    }


def _tuned(document: Any) -> Tuned:
    m, n, k = (int(size) for size in document["shape"])
    return Tuned(
        shape=(m, n, k),
        trans_a=bool(document["trans_a"]),
        trans_b=bool(document["trans_b"]),
        config=Config.from_dict(document["config"]),
        seconds=float(document["seconds"]),
    )
