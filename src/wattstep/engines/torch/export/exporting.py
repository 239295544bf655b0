"""Writes an exported training, and holds the engine against torch before anybody trains from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from errno import EACCES
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from wattstep.engines.exported import conformance
from wattstep.engines.exported.folder import (
    WEIGHTS,
    ExportedInput,
    ExportedSettings,
    ExportedTraining,
    save_arrays,
    write_facts,
)
from wattstep.engines.torch.export.source import Source
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require
from wattstep.schema.processes import tidied_at_sigterm
from wattstep.schema.workload import Preparation, Specification
from wattstep.store.held import HeldFolder

if TYPE_CHECKING:
    from wattstep.engines.exported.engine import ExportedEngine


def export(
    engine: ExportedEngine,
    specification: Specification,
    preparation: Preparation,
    out: Path,
    tell: Callable[[str], None],
    source: Source | None = None,
) -> None:
    """As `Engine.export`: whole, or not at all.

    Args:
        engine: As of `Engine.export`, as the others.
        specification: Likewise.
        preparation: Likewise.
        out: Likewise.
        tell: Likewise.
        source: Made of the same workload and preparation before, for another engine.

    Raises:
        InvalidValueError: The folder is there, or the training cannot be exported, or the engine
            does not train it as torch does.
    """
    from wattstep.engines.exported.engine import run_course

    with _writing(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(out.parent, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    if out.exists():
        raise InvalidValueError(
            f"{out} is there already: choose another folder, or remove it first",
            id="exported-before",
        )
    if source is None:
        tell("building the network")
        source = Source(specification, preparation)
    with (
        _writing(out),
        tidied_at_sigterm(),
        HeldFolder(out.parent, f".{out.name}-export-") as scratch,
    ):
        folder = scratch / "export"
        folder.mkdir()
        inputs = []
        tell("drawing batches")
        for name, array in source.batches.items():
            np.save(folder / f"{name}.npy", array)
            inputs.append(
                ExportedInput(
                    name=name, file=f"{name}.npy", shape=array.shape[1:], dtype=str(array.dtype)
                )
            )
        save_arrays(folder / WEIGHTS, source.initial())
        tell(f"writing the files of {engine.name}")
        module, _, function = engine.writes.partition(":")
        rewrites, notes = getattr(require(module), function)(source, folder)
        tell("training ten steps with torch in float64")
        reference = source.reference()
        conformance.check_finite(specification.facts.name, reference)
        training = ExportedTraining(
            engine=engine.name,
            made_with=(engine.version(), f"torch {torch.__version__}"),
            workload=specification.facts.name,
            settings=_settings(preparation),
            parameters=source.parameters,
            inputs=inputs,
            batches=len(source.batches["inputs"]),
            losses=list(reference.exact.losses),
            allowed=reference.allowed,
            loss=specification.loss,
            optimizer=source.optimizer,
            data=source.data,
            model=source.model_facts,
            rewrites=list(rewrites),
            notes=list(notes),
            files={},
        )
        write_facts(folder, training)
        tell(f"training ten steps with {engine.name}")
        course = run_course(engine.name, folder, scratch)
        name = specification.facts.name
        conformance.check(engine.name, name, conformance.judge(engine.name, reference, course))
        shutil.move(folder, out)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Says of an export that could not be written, to a full disk say, what was wrong."""
    try:
        yield
    except OSError as error:  # numpy's, of a full disk, has no number
        raise InvalidValueError(
            f"{out} cannot be written: {(error.strerror or str(error)).lower()}",
            id="cannot-write-export",
        ) from error


def _settings(preparation: Preparation) -> ExportedSettings:
    """What made the training, by field of its settings; places of this machine are left out."""
    optimizer = preparation.optimizer
    text = None
    if optimizer is not None:
        options = ",".join(f"{key}={value}" for key, value in optimizer.options.items())
        text = f"{optimizer.name},lr={optimizer.rate}" + (f",{options}" if options else "")
    return ExportedSettings(
        batch_size=preparation.batch_size,
        seed=preparation.seed,
        classes=preparation.classes,
        image_size=preparation.image_size,
        rate_rule=preparation.rate_rule,
        optimizer=text,
    )
