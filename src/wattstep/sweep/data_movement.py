"""Makes the trainings of the study of data movement; one that is there already is not made again."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import RunExistsError
from wattstep.insight.compare.data_movement import (
    CPU,
    PLAN,
    Asked,
    Study,
    place_of,
    read_study,
)
from wattstep.train.child.local import train_in_child
from wattstep.train.progress import Progress
from wattstep.train.settings import TrainingSettings

PART: Final = ".part"  # of a folder's name while its training goes on


def study(
    asked: Asked,
    out: Path,
    on_training: Callable[[str, int, int], None],
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
    within_s: float = math.inf,
) -> Study:
    """Trains what is not there yet, and reads all of it.

    Args:
        asked: What is studied.
        out: The study's folder.
        on_training: Told what is trained next, its number from 1, and of how many.
        on_progress: As of `train_in_child`.
        on_warning: Likewise.
        within_s: Seconds after which no further training begins; what is left is trained by another call.

    Raises:
        InvalidValueError: A setting cannot be used.
        RunExistsError: The folder is that of another study.
        WattstepError: A training could not be made.
    """
    until = time.monotonic() + within_s
    settings = list(_settings(asked, out))  # all are checked before any trains
    _keep(asked, out)
    for number, (place, one) in enumerate(settings, start=1):
        if place.exists():
            continue
        if time.monotonic() >= until:
            break
        on_training(place.name, number, len(settings))
        _train(one, place, on_progress, on_warning)
    return read_study(out)


def _train(
    settings: TrainingSettings,
    place: Path,
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
) -> None:
    """Makes a training beside its place, and moves it there when it is whole: half of one is none."""
    part = place.with_name(f"{place.name}{PART}")
    if part.exists():
        shutil.rmtree(part)
    train_in_child(replace(settings, out=str(part)), on_progress, on_warning)
    part.rename(place)


def _keep(asked: Asked, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    place, text = out / PLAN, json.dumps(asked.document(), indent=1) + "\n"
    if place.exists() and place.read_text(encoding="utf-8") != text:
        raise RunExistsError(
            f"{out} is another study: choose another folder (--out)", id="another-study"
        )
    place.write_text(text, encoding="utf-8")


def _settings(asked: Asked, out: Path) -> Iterator[tuple[Path, TrainingSettings]]:
    """Places and settings, batch by batch: all nets stand beside each other early."""
    for batch in asked.batches:
        for net in asked.nets:
            for way in asked.ways:
                of_way: dict[str, Any] = (
                    {"threads": asked.threads}
                    if way.mode == CPU
                    else {"engine": "opencl", "processor": way.processor, "opencl_mode": way.mode}
                )
                yield (
                    place_of(out, net, batch, way),
                    TrainingSettings(
                        workload=net, batch_size=batch, seconds=asked.seconds, **of_way
                    ),
                )
