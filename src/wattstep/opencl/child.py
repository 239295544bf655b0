"""The process that measures a device: news of what it is at, what it found, and how it ended."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np

from wattstep.errors import WattstepError
from wattstep.opencl.config import Config
from wattstep.opencl.device import Opened, choose
from wattstep.opencl.measuring import CONVOLUTIONS, PRODUCTS, Measurement, Product, products_of
from wattstep.opencl.tuner import Outcome
from wattstep.schema.device_ceilings import CeilingRow, RowDocument
from wattstep.schema.extras import require
from wattstep.schema.figure import Missing
from wattstep.schema.processes import ChildNews, end_with, refusal_news

ENTRY = "wattstep.opencl.child:main"
# What takes least comes first: where the time is up, the rest is left out.
TASKS = [
    "launch",
    "copies",
    "bandwidth",
    *(
        f"{what} {number}"
        for number in range(len(PRODUCTS) - 1)
        for what in ("tune product", "product")
    ),
    *(
        f"{what} {number}"
        for number in range(len(CONVOLUTIONS))
        for what in ("tune convolution", "convolution")
    ),
    f"product {len(PRODUCTS) - 1}",  # the largest, which is not searched
]


class OutcomeDocument(TypedDict):
    """What became of a candidate: seconds, or why it does not run."""

    config: Mapping[str, Any]
    seconds: float | None
    reason: str


class Request(TypedDict):
    """What the process is to do.

    `device` and `retune` are as the command takes them; `parent` is the process that asks, `seconds` what
    all tasks may take, `outcomes` those of the first task's candidates that were tried before.
    """

    device: str | None
    tasks: list[str]
    seconds: float
    retune: bool
    parent: int
    outcomes: list[OutcomeDocument]


class Report(ChildNews, total=False):
    """A line of news: the device, a task that begins, a candidate, its outcome, a row, a note."""

    device: Mapping[str, Any]
    host: Mapping[str, Any]
    task: str
    candidate: Mapping[str, Any]
    outcome: OutcomeDocument
    table: str
    row: RowDocument
    note: str


class Telling:
    """Tells the parent what is measured, a line each.

    Args:
        descriptor: Of the pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self._pipe = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)

    def send(self, news: Report) -> None:
        """A line of news."""
        self._pipe.write(json.dumps(news) + "\n")

    def stage(self, text: str) -> None:
        """As `Teller`."""
        self.send({"stage": text})

    def row(self, table: str, row: CeilingRow) -> None:
        """As `Teller`."""
        self.send({"table": table, "row": row.to_dict()})

    def note(self, text: str) -> None:
        """As `Teller`."""
        self.send({"note": text})

    def candidate(self, config: Config) -> None:
        """As `Teller`."""
        self.send({"candidate": config.to_dict()})

    def outcome(self, config: Config, outcome: Outcome) -> None:
        """As `Teller`."""
        self.send({"outcome": outcome_document(config, outcome)})


def outcome_document(config: Config, outcome: Outcome) -> OutcomeDocument:
    """An outcome as JSON."""
    if isinstance(outcome, Missing):
        return {"config": config.to_dict(), "seconds": None, "reason": str(outcome)}
    return {"config": config.to_dict(), "seconds": outcome, "reason": ""}


def outcome_of(document: OutcomeDocument) -> tuple[Config, Outcome]:
    """The inverse of `outcome_document`."""
    config, seconds = Config.from_dict(document["config"]), document["seconds"]
    return config, Missing(document["reason"]) if seconds is None else seconds


def main() -> int:
    """Does what `sys.argv` asks for: the pipe's descriptor, and a `Request` as JSON."""
    telling = Telling(int(sys.argv[1]))
    request: Request = json.loads(sys.argv[2])
    end_with(request["parent"])
    try:
        _measure(request, telling)
    except WattstepError as error:
        telling.send({**refusal_news(error)})  # type: ignore[typeddict-item]
    return 0


def _measure(request: Request, telling: Telling) -> None:
    opened = Opened(choose(request["device"]))
    telling.send({"device": opened.device.facts(), "host": _host()})
    measurement = Measurement(opened, telling, request["retune"])
    until = time.monotonic() + request["seconds"]
    tried = dict(outcome_of(document) for document in request["outcomes"])
    for number, task in enumerate(request["tasks"]):
        telling.send({"task": task})
        # What one does not need, those after it have.
        left = until - time.monotonic()
        measurement.allow(left / (len(request["tasks"]) - number))
        _do(measurement, task, tried)
        tried = {}


def _do(measurement: Measurement, task: str, tried: Mapping[Config, Outcome]) -> None:
    words = task.split()
    if words[0] == "tune":
        number = int(words[2])
        product: Product = (
            PRODUCTS[number] if words[1] == "product" else products_of(CONVOLUTIONS[number])
        )
        measurement.tune(product, tried)
    elif words[0] == "product":
        measurement.product(PRODUCTS[int(words[1])])
    elif words[0] == "convolution":
        measurement.convolution(CONVOLUTIONS[int(words[1])])
    else:
        {
            "bandwidth": measurement.bandwidth,
            "copies": measurement.copies,
            "launch": measurement.launch,
        }[task]()


def _host() -> dict[str, str | int]:
    """NumPy, and what it multiplies with."""
    pools = require("threadpoolctl").threadpool_info()
    blas: Mapping[str, Any] = next((pool for pool in pools if pool.get("user_api") == "blas"), {})
    return {
        "numpy": np.__version__,
        "blas": f"{blas.get('internal_api', 'unknown')} {blas.get('version') or ''}".strip(),
        "threads": int(blas.get("num_threads", 0)) or len(os.sched_getaffinity(0)),
    }
