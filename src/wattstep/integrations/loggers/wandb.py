"""Figures in the history and the summary of a run of Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

STEP = "wattstep/step"  # the axis: W&B's own steps only ever go up


def open_named(place: str) -> WandbRun:
    """The active run.

    Raises:
        InvalidValueError: There is none.
    """
    wandb = require("wandb")
    if wandb.run is None:
        raise InvalidValueError(
            "no run of Weights & Biases is active: begin one with wandb.init()", id="no-active-run"
        )
    return WandbRun(wandb.run)


def open_object(thing: Any) -> WandbRun | None:
    """A run as `wandb.init` gives it."""
    from wattstep.integrations.loggers import comes_from

    return WandbRun(thing) if comes_from(thing, "wandb") and hasattr(thing, "summary") else None


class WandbRun:
    """A run of Weights & Biases that has not been finished.

    Args:
        run: As the library gives it.
    """

    def __init__(self, run: Any) -> None:
        self._run = run
        run.define_metric("wattstep/*", step_metric=STEP)

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Into the history; the summary shows the last ones."""
        self._run.log({**values, STEP: step})

    def words(self, words: Mapping[str, str]) -> None:
        """Into the summary."""
        self._run.summary.update(dict(words))

    def file(self, path: Path) -> None:
        """As an artifact."""
        artifact = require("wandb").Artifact("wattstep-report", type="report")
        artifact.add_file(str(path))
        self._run.log_artifact(artifact)
