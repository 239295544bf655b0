"""Makes the trainings of the study of data movement; one that is there already is not made again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wattstep.errors import RunExistsError
from wattstep.insight.compare.data_movement import (
    CPU,
    PLAN,
    WAYS,
    Asked,
    Study,
    place_of,
    read_study,
)
from wattstep.train.child.local import train_in_child
from wattstep.train.loop import Progress
from wattstep.train.settings import TrainingSettings


def study(
    asked: Asked,
    out: Path,
    on_training: Callable[[str, int, int], None],
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
) -> Study:
    """Trains what is not there yet, and reads all of it.

    Args:
        asked: What is studied.
        out: The study's folder.
        on_training: Told what is trained next, its number from 1, and of how many.
        on_progress: As of `train_in_child`.
        on_warning: Likewise.

    Raises:
        InvalidValueError: A setting cannot be used.
        RunExistsError: The folder is that of another study.
        WattstepError: A training could not be made.
    """
    settings = list(_settings(asked, out))  # all are checked before any trains
    _keep(asked, out)
    for number, one in enumerate(settings, start=1):
        assert one.out is not None
        if not (Path(one.out) / "run.json").exists():
            on_training(Path(one.out).name, number, len(settings))
            train_in_child(one, on_progress, on_warning)
    return read_study(out)


def _keep(asked: Asked, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    place, text = out / PLAN, json.dumps(asked.document(), indent=1) + "\n"
    if place.exists() and place.read_text(encoding="utf-8") != text:
        raise RunExistsError(
            f"{out} is another study: choose another folder (--out)", id="another-study"
        )
    place.write_text(text, encoding="utf-8")


def _settings(asked: Asked, out: Path) -> Iterator[TrainingSettings]:
    for net in asked.nets:
        for batch in asked.batches:
            for way in WAYS:
                of_way: dict[str, Any] = (
                    {"threads": asked.threads}
                    if way == CPU
                    else {"engine": "opencl", "processor": asked.processor, "opencl_mode": way}
                )
                yield TrainingSettings(
                    workload=net, batch_size=batch, seconds=asked.seconds,
                    out=str(place_of(out, net, batch, way)), **of_way,
                )  # fmt: skip
