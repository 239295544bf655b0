"""A labeler in a file: arrays and JSON in one npz archive, data and never code."""

from __future__ import annotations

import json
import os
import typing
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.labeling.concepts import Concept
from wattstep.labeling.discovery import Cluster, Discovery
from wattstep.labeling.drift import Watch
from wattstep.labeling.ellipsoids import Ellipsoids
from wattstep.labeling.engine import Engine, Settings
from wattstep.labeling.heuristics import Heuristic
from wattstep.labeling.label_model import LabelModel
from wattstep.labeling.memory import Labeled, Recent
from wattstep.labeling.mixture import Curve
from wattstep.labeling.neighbourhood import Neighbourhood, Placed
from wattstep.labeling.novelty import Novelty
from wattstep.labeling.ranks import Ranks
from wattstep.labeling.state_checks import check, fits

VERSION: Final = 6
TREE: Final = "tree"
OTHERS: Final = ("extractor", "processors")  # settings that are no data, or of another machine
# What may stand in a file: nothing else is ever made from one.
KINDS: Final[Mapping[str, type]] = {
    kind.__name__: kind
    for kind in (
        Engine, Settings, Concept, Cluster, Discovery, Watch, Heuristic, LabelModel, Labeled, Recent,
        Neighbourhood, Placed, Novelty, Curve, Ellipsoids, Ranks,
    )
}  # fmt: skip


# What damage makes of a file: `RuntimeError` as of an archive with a password, or nested too deep.
_DAMAGE: Final = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError,
    EOFError, zipfile.BadZipFile,
)  # fmt: skip


def write(
    path: Path,
    params: Mapping[str, Any],
    classes: np.ndarray[Any, Any],
    features: int,
    engine: Engine,
) -> None:
    """Writes beside the file, then in its place: it is whole or the one before.

    Args:
        path: The file.
        params: Of the estimator, but for those of `OTHERS`.
        classes: Names of known classes.
        features: Of a sample.
        engine: What was learned.

    Raises:
        RecordingError: It cannot be written.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    tree = {
        "version": VERSION,
        "params": {name: value for name, value in params.items() if name not in OTHERS},
        "classes": _flat(_names(classes), arrays),
        "features": features,
        "engine": _flat(engine, arrays),
    }
    arrays[TREE] = np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8)
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror or error}", id="unwritable-state"
        ) from error


def read(
    path: Path, names: Iterable[str]
) -> tuple[dict[str, Any], np.ndarray[Any, Any], int, Engine]:
    """What `write` wrote.

    Args:
        path: The file.
        names: Of the estimator's settings.

    Raises:
        InvalidValueError: It cannot be read, or is no state of this version.
    """
    try:
        # Of a file that is cut off, numpy leaves what it has opened itself open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        tree = json.loads(arrays[TREE].tobytes())
        if tree["version"] != VERSION:
            raise InvalidValueError(
                f"{path}: state of version {tree['version']}, this is {VERSION}", id="other-state"
            )
        engine = _made(tree["engine"], arrays)
        if not isinstance(engine, Engine):
            raise TypeError("no engine")
        params, classes, features = tree["params"], _made(tree["classes"], arrays), tree["features"]
        check(engine, classes, features, params, set(names) - set(OTHERS))
        return params, classes, features, engine
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be read: {error.strerror or error}", id="unreadable-file"
        ) from error
    except _DAMAGE as error:
        if isinstance(error, InvalidValueError):
            raise
        raise InvalidValueError(f"{path} is no state of a labeler", id="not-a-state") from error


def _names(classes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Objects as texts, which an archive without pickles can hold."""
    return classes.astype(str) if classes.dtype.kind == "O" else classes


def _flat(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """JSON, with arrays moved out."""
    if isinstance(value, np.ndarray):
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, np.random.Generator):
        return {"random": value.bit_generator.state}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            each.name: _flat(getattr(value, each.name), arrays)
            for each in fields(value)
            if each.init
        }
        return {"kind": type(value).__name__, "parts": parts}
    if isinstance(value, dict):
        return {"entries": {name: _flat(each, arrays) for name, each in value.items()}}
    if isinstance(value, (list, tuple)):
        return {"list": [_flat(each, arrays) for each in value]}
    return value.item() if isinstance(value, np.generic) else value


def _made(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "random" in value:
        generator = np.random.Generator(np.random.PCG64())
        generator.bit_generator.state = value["random"]
        return generator
    if "kind" in value:
        kind = KINDS[value["kind"]]
        parts = {name: _made(each, arrays) for name, each in value["parts"].items()}
        hints = typing.get_type_hints(kind)
        for name, part in parts.items():
            if isinstance(part, list) and typing.get_origin(hints[name]) is tuple:
                parts[name] = tuple(part)
            if not fits(parts[name], hints[name]):
                raise TypeError(f"{kind.__name__}.{name}")
        return kind(**parts)
    if "entries" in value:
        return {name: _made(each, arrays) for name, each in value["entries"].items()}
    return [_made(each, arrays) for each in value["list"]]
