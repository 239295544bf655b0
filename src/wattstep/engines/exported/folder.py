"""The folder of an exported training: facts, initial weights, batches, and what the engine itself reads.

It is made where torch is (`engines.torch.export`), and trained from where torch is not. `export.json`
is written last and names every other file with its size and hash: a folder that was cut off, or
changed since, is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypedDict
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.schema.checks import (
    INT32,
    INT64,
    Check,
    at_least,
    facts,
    listed,
    mapping,
    number,
    or_none,
    parse_json,
    record,
    shown,
    string,
    whole,
    yes_no,
)
from wattstep.schema.run_documents import ModelFacts
from wattstep.schema.workload import DataFacts
from wattstep.store.folder import opened

FACTS: Final = "export.json"
WEIGHTS: Final = "weights.npz"
VERSION: Final = 1
MOST_BATCHES: Final = 1000
Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class ExportedParameter:
    """A parameter of the network.

    Attributes:
        name: As torch names it.
        shape: Its dimensions.
        trainable: Whether it trains.
        decay: Its weight decay.
    """

    name: str
    shape: tuple[int, ...]
    trainable: bool
    decay: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ExportedInput:
    """What a batch holds under one name; its arrays lie in `file`, (batches, ...) of a batch's shape.

    Attributes:
        name: "inputs", "targets", or "mask0", "mask1", ... of dropout.
        file: In the folder, a `.npy`.
        shape: Of one batch.
        dtype: As numpy names it.
    """

    name: str
    file: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class ExportedOptimizer:
    """How the parameters are updated.

    Attributes:
        name: One of `schema.workload.OPTIMIZERS`.
        rate: The learning rate, for this batch.
        options: Further hyperparameters, by their usual names, without the decay of the weights.
    """

    name: str
    rate: float
    options: Mapping[str, Any]


class ExportedSettings(TypedDict):
    """What a training was prepared with, by field of `train.settings.TrainingSettings`."""

    batch_size: int
    seed: int
    classes: int | None
    image_size: int | None
    rate_rule: str
    optimizer: str | None


class ExportedFile(TypedDict):
    """A file of an export as it was written: bytes, and SHA-256 in hexadecimal digits."""

    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ExportedTraining:
    """The facts of an exported training.

    Attributes:
        engine: That trains it.
        made_with: The engine's version and torch's, at the export.
        workload: Which.
        settings: What it was prepared with.
        parameters: All of the network.
        inputs: What a batch holds.
        batches: How many there are; a training begins anew after the last.
        losses: In float64 by torch, of the first steps.
        allowed: By how much each may be off: what float32 allows, see `conformance`.
        loss: Of the specification, e.g. "cross entropy".
        optimizer: How the parameters are updated.
        data: Which data the batches are from.
        model: Facts of the model.
        rewrites: What was changed in the network so that the engine trains it right, each an
            identity of what is computed; a sentence each.
        notes: What a reader of a run must know besides.
        files: Size and SHA-256 of each file.
    """

    engine: str
    made_with: Sequence[str]
    workload: str
    settings: ExportedSettings
    parameters: Sequence[ExportedParameter]
    inputs: Sequence[ExportedInput]
    batches: int
    losses: Sequence[float]
    allowed: Sequence[float]
    loss: str
    optimizer: ExportedOptimizer
    data: DataFacts
    model: ModelFacts
    rewrites: Sequence[str] = ()
    notes: Sequence[str] = ()
    files: Mapping[str, ExportedFile]

    @property
    def batch_size(self) -> int:
        """Samples of a step."""
        return self.settings["batch_size"]


def _made(kind: Callable[..., Any], checks: Mapping[str, Check]) -> Check:
    """A check that makes a frozen value of a document."""
    check = record(checks)
    return lambda value: kind(**check(value))


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(listed(whole(0, INT32))(value))


def _file_name(value: Any) -> str:
    name = string(value)
    if not name or name.startswith(".") or any(bad in name for bad in "/\\\0"):
        raise ValueError(f"{ascii(name)[:60]} is no name of a file in this folder")
    return name


_CHECKS: Final[Mapping[str, Check]] = {
    "engine": string,
    "made_with": listed(string),
    "workload": string,
    "settings": record(
        {
            "batch_size": whole(1, INT32),
            "seed": whole(0, INT64),
            "classes": or_none(whole(1, INT32)),
            "image_size": or_none(whole(1, INT32)),
            "rate_rule": string,
            "optimizer": or_none(string),
        }
    ),
    "parameters": listed(
        _made(
            ExportedParameter,
            {"name": string, "shape": _shape, "trainable": yes_no, "decay": number},
        )
    ),
    "inputs": listed(
        _made(
            ExportedInput, {"name": string, "file": _file_name, "shape": _shape, "dtype": string}
        )
    ),
    "batches": whole(1, MOST_BATCHES),
    "losses": listed(number),
    "allowed": listed(at_least(0)),
    "loss": string,
    "optimizer": _made(
        ExportedOptimizer, {"name": string, "rate": number, "options": facts({})}
    ),
    "data": _made(
        DataFacts,
        {
            "name": string,
            "stand_in": yes_no,
            "stands_for": or_none(string),
            "sha256": string,
            "samples": whole(0, INT64),
        },
    ),
    "model": facts({}),
    "rewrites": listed(string),
    "notes": listed(string),
    "files": mapping(record({"size": whole(0, INT64), "sha256": string}), key=_file_name),
}  # fmt: skip


class ExportedFolder:
    """An exported training on disk, checked when it is opened.

    Args:
        path: The folder.

    Raises:
        InvalidValueError: It is no such folder, or of a newer version.
        DamagedRunError: A file is missing, cut off or changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.training = self._read()

    def _read(self) -> ExportedTraining:
        try:
            with opened(self.path) as folder:
                document = parse_json(folder.read(FACTS))
        except OSError as error:
            raise InvalidValueError(
                f"{self.path} is no exported training ({FACTS}: {error.strerror}): "
                f"wattstep engines export WORKLOAD --engine NAME -o {self.path}",
                id="no-export",
            ) from error
        except ValueError as error:
            raise DamagedRunError(
                f"{self.path / FACTS} was cut off, or changed after the export: it is no JSON ({error})",
                id="damaged-export",
            ) from error
        version = document.get("version") if isinstance(document, dict) else None
        if version is None:
            raise DamagedRunError(
                f"{self.path / FACTS} holds no facts of an exported training", id="damaged-export"
            )
        if version != VERSION:
            raise InvalidValueError(
                f"{self.path} was exported by another version of wattstep: this one reads exported "
                f"trainings of version {VERSION}, not {shown(version)}",
                id="other-export-version",
            )
        try:
            del document["version"]
            if document.pop("sha256", None) != _digest(document):
                raise ValueError("it was changed after the export")
            training: ExportedTraining = _made(ExportedTraining, _CHECKS)(document)
            _check_agreement(training)
        except ValueError as error:
            raise DamagedRunError(f"{self.path / FACTS}: {error}", id="damaged-export") from error
        self._check_files(training)
        return training

    def _check_files(self, training: ExportedTraining) -> None:
        """Raises `DamagedRunError` where a file is not what the facts say."""
        with opened(self.path) as folder:
            for name, known in training.files.items():
                digest, size = hashlib.sha256(), 0
                try:
                    with folder.open(name) as file:
                        while piece := file.read(1 << 20):
                            digest.update(piece)
                            size += len(piece)
                except OSError as error:
                    raise DamagedRunError(
                        f"{self.path / name} cannot be read: {(error.strerror or str(error)).lower()}",
                        id="damaged-export",
                    ) from error
                if (size, digest.hexdigest()) != (known["size"], known["sha256"]):
                    raise DamagedRunError(
                        f"{self.path / name} was cut off, or changed after the export",
                        id="damaged-export",
                    )

    def file(self, name: str) -> Path:
        """The place of one of its files.

        Raises:
            DamagedRunError: It has no such file.
        """
        if name not in self.training.files:
            raise DamagedRunError(f"{self.path} has no {name}", id="damaged-export")
        return self.path / name

    @cached_property
    def arrays(self) -> dict[str, Array]:
        """By name of the input, (batches, ...) mapped from disk.

        Raises:
            DamagedRunError: One is not what the facts say.
        """
        arrays = {}
        for each in self.training.inputs:
            try:
                array = np.load(self.file(each.file), mmap_mode="r", allow_pickle=False)
            except ValueError as error:
                raise DamagedRunError(
                    f"{self.path / each.file}: {error}", id="damaged-export"
                ) from error
            if array.shape != (self.training.batches, *each.shape) or array.dtype != each.dtype:
                raise DamagedRunError(
                    f"{self.path / each.file} holds {array.dtype} {array.shape}, not {each.dtype} "
                    f"{(self.training.batches, *each.shape)} as {FACTS} says",
                    id="damaged-export",
                )
            arrays[each.name] = array
        return arrays

    def weights(self) -> dict[str, Array]:
        """Initial parameters and buffers, by torch's names.

        Raises:
            DamagedRunError: They are not what the facts say.
        """
        path = self.file(WEIGHTS)
        try:
            with np.load(path, allow_pickle=False) as kept:
                values = {name: kept[name] for name in kept.files}
        except (AttributeError, TypeError, ValueError, OSError, EOFError, BadZipFile) as error:
            raise DamagedRunError(
                f"{path} holds no arrays: {error}", id="damaged-export"
            ) from error
        for each in self.training.parameters:
            if each.name not in values or values[each.name].shape != each.shape:
                raise DamagedRunError(
                    f"{path} has no {each.name} of shape {each.shape}, as {FACTS} says",
                    id="damaged-export",
                )
        return values


def _digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the facts without their own, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _check_agreement(training: ExportedTraining) -> None:
    """Refuses facts that contradict each other.

    Raises:
        ValueError: They do.
    """
    for each in training.inputs:
        if each.name in ("inputs", "targets") and each.shape[:1] != (training.batch_size,):
            raise ValueError(f"{each.name} are not of batch {training.batch_size}")
        if each.file not in training.files:
            raise ValueError(f"inputs: {each.file} is not among its files")
    if len({each.name for each in training.inputs}) < len(training.inputs):
        raise ValueError("inputs: two have the same name")
    if len(training.losses) != len(training.allowed) or not training.losses:
        raise ValueError("it does not say which losses are right")


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by name into one `.npz`."""
    named: dict[str, Any] = dict(arrays)
    np.savez(path, **named)


def write_facts(folder: Path, training: ExportedTraining) -> None:
    """Writes `export.json`, with the sizes and hashes of all files that lie in the folder."""
    files = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != FACTS:
            data = path.read_bytes()
            files[path.name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    document = json.loads(json.dumps({**asdict(training), "files": files}))
    whole = {"version": VERSION, "sha256": _digest(document), **document}
    text = json.dumps(whole, indent=1, ensure_ascii=False)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8")
