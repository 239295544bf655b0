"""Figures as metrics and tags of a run of MLflow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.schema.extras import require

AT_ONCE = 100  # tags that one request of MLflow takes
LONGEST = 5000  # characters of a tag's value


def open_named(place: str) -> MlflowRun:
    """The active run.

    Raises:
        InvalidValueError: There is none.
    """
    mlflow = require("mlflow")
    run = mlflow.active_run()
    if run is None:
        raise InvalidValueError(
            "no run of MLflow is active: begin one with mlflow.start_run()", id="no-active-run"
        )
    return MlflowRun(mlflow.MlflowClient(), run.info.run_id)


def open_object(thing: Any) -> MlflowRun | None:
    """A run as `mlflow.start_run` gives it."""
    from wattstep.integrations.loggers import comes_from

    if not comes_from(thing, "mlflow") or not hasattr(thing, "info"):
        return None
    mlflow = require("mlflow")
    return MlflowRun(mlflow.MlflowClient(), thing.info.run_id)


class MlflowRun:
    """A run of MLflow, which may have ended.

    Args:
        client: Of MLflow.
        run_id: Of the run.
    """

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run_id = run_id

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """As metrics."""
        entity = require("mlflow.entities").Metric
        now = int(time.time() * 1000)
        for some in _portions(values):
            metrics = [entity(name, value, now, step) for name, value in some.items()]
            self._client.log_batch(self._run_id, metrics=metrics)

    def words(self, words: Mapping[str, str]) -> None:
        """As tags; long ones are cut."""
        entity = require("mlflow.entities").RunTag
        for some in _portions(words):
            tags = [entity(name, text[:LONGEST]) for name, text in some.items()]
            self._client.log_batch(self._run_id, tags=tags)

    def file(self, path: Path) -> None:
        """As an artifact."""
        self._client.log_artifact(self._run_id, str(path), artifact_path="wattstep")


def _portions(mapping: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    items = iter(mapping.items())
    while some := dict(islice(items, AT_ONCE)):
        yield some
