"""A plan as a file for `wattstep run --plan`: settings of a training, and what was predicted of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.plan.costs import OF_STEP
from wattstep.plan.search import Plan
from wattstep.plan.space import DIMENSIONS
from wattstep.schema.figure import Figure, Status
from wattstep.schema.metrics import METRICS
from wattstep.schema.run_documents import PlannedFacts
from wattstep.schema.sanitize import plain
from wattstep.schema.version import VERSION
from wattstep.schema.workload import OPTIMIZER_KERNELS, ModuleSource, Specification
from wattstep.store.folder import replacing

SCHEMA: Final = 1
KEY: Final = "wattstep_plan"  # of the schema: it tells a plan from other JSON
# Settings that `wattstep tune` turns beside those that a plan searches, and of which type each is.
TUNED: Final[Mapping[str, type]] = MappingProxyType(
    {
        "channels_last": bool, "optimizer_kernel": str, "allocator": str, "compiled": bool, "policy": str,
        "interop_threads": int, "cores": str, "loader_workers": int,
    }
)  # fmt: skip
OF_SCRIPTS: Final = frozenset({"loader_workers"})
PLANNED: Final[Mapping[str, type]] = MappingProxyType(
    {
        "batch_size": int, "accumulate": int, "processor": str, "classes": int, "image_size": int,
        "checkpointing": bool, "offload": bool, "train_last": int, "lora": int, "optimizer": str, "precision": str,
        "threads": int,
    }
)  # fmt: skip
_OF_TUNE: Final[Mapping[str, type]] = MappingProxyType({"engine": str, "seed": int})
MOST_BYTES: Final = 1 << 20
MOST_THREADS: Final = 1024  # more than any machine's cores: a million ends the process


@dataclass(frozen=True, kw_only=True)
class PlanFile:
    """A plan that was read.

    Attributes:
        workload: That it trains; "" for a script.
        script: File or module of somebody's own script that it is for; "" for a workload.
        settings: Fields of `wattstep.train.settings.TrainingSettings`, by name.
        planned: What the run keeps of it; None where it was tuned, and nothing is predicted.
    """

    workload: str
    script: str = ""
    settings: Mapping[str, bool | int | str]
    planned: PlannedFacts | None


def check_plannable(of: Specification | ModuleSource) -> None:
    """Refuses a plan file of what `wattstep run` cannot train.

    Raises:
        InvalidValueError: It is a module of the user's.
    """
    if isinstance(of, ModuleSource):
        raise InvalidValueError(
            f"--out FILE.json is for run --plan, which trains workloads of the suite; {of.name} is none: "
            "give FILE.html, or --json",
            id="not-of-suite",
        )


def write_plan(plan: Plan, path: Path, *, classes: int | None, image_size: int | None) -> None:
    """Writes the recommended plan.

    Args:
        plan: The plan.
        path: The file; an older one is replaced.
        classes: Of the workload, where they are not its own.
        image_size: Likewise.

    Raises:
        InvalidValueError: There is none to recommend.
        RecordingError: The file cannot be written.
    """
    chosen = plan.chosen
    if chosen is None:
        raise InvalidValueError(
            f"nothing is written to {path}: no plan keeps the limits; `wattstep plan` without --out says what "
            "would change that",
            id="nothing-to-plan",
        )
    configuration = chosen.configuration
    settings: dict[str, Any] = {
        "batch_size": configuration.batch,
        "accumulate": configuration.accumulate,
        "processor": chosen.prediction.processor,
        "classes": classes,
        "image_size": image_size,
        **{each.name: getattr(configuration, each.name) for each in DIMENSIONS},
    }
    mode = settings.pop("mode")
    document = {
        KEY: SCHEMA,
        "wattstep": VERSION,
        "workload": plan.workload,
        "device": plan.question.device.name,
        "mode": mode,
        "configuration": configuration.text,
        "settings": {name: value for name, value in settings.items() if value not in (None, False)},
        "predicted": {
            name: chosen.figures[name].to_dict()
            for name in OF_STEP
            if name in chosen.figures and not chosen.figures[name].missing
        },
        "session": {
            "samples": plan.session.samples,
            "every_s": plan.session.every_s,
            "updates": chosen.updates,
            "budget": [limit.text for limit in plan.budget.limits],
            "predicted": {
                name: figure.to_dict()
                for name, figure in chosen.figures.items()
                if name not in OF_STEP and not figure.missing
            },
        },
    }
    _write(path, document)


def write_tuned(
    path: Path,
    *,
    name: str,
    script: bool,
    settings: Mapping[str, bool | int | str],
    goal: str,
    ratio: Figure | None,
) -> None:
    """Writes settings that were tuned here, in the same format.

    Args:
        path: The file; an older one is replaced.
        name: Of the workload, or of the script.
        script: Which of them it is.
        settings: As `PlanFile.settings`.
        goal: What is the less the better.
        ratio: Of that to the default's; None: the default is to be kept.

    Raises:
        RecordingError: The file cannot be written.
    """
    document = {
        KEY: SCHEMA,
        "wattstep": VERSION,
        "script" if script else "workload": name,
        "settings": dict(settings),
        "tuned": {
            "goal": goal,
            "keep_the_default": ratio is None,
            "ratio": None if ratio is None else ratio.to_dict(),
        },
    }
    _write(path, document)


def _write(path: Path, document: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n")
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror or error}") from error


def read_plan(path: Path) -> PlanFile:
    """A plan from its file.

    Raises:
        InvalidValueError: It cannot be read, is no plan, of a newer wattstep, or damaged.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        document = json.loads(data)
        schema = document.get(KEY) if isinstance(document, dict) else None
    except OSError as error:
        raise InvalidValueError(
            f"--plan {path}: {(error.strerror or str(error)).lower()}", id="unreadable-plan"
        ) from error
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, int):
        raise InvalidValueError(
            f"--plan {path}: it is no plan; `wattstep plan ... -o {path.name}` writes one",
            id="unreadable-plan",
        )
    if schema != SCHEMA:
        raise InvalidValueError(
            f"--plan {path}: it has schema {schema}, this wattstep reads {SCHEMA}: plan again with this one, or "
            "train with the one that wrote it",
            id="other-plan-schema",
        )
    try:
        return _parsed(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidValueError(
            f"--plan {path}: it is damaged ({plain(what)}): plan again", id="damaged-plan"
        ) from error


def _can_be(name: str, value: Any) -> bool:
    """Whether a setting of a script has a value that its process survives; workloads check their own."""
    if name in ("threads", "interop_threads"):
        return 1 <= int(value) <= MOST_THREADS
    if name == "loader_workers":
        return 0 <= int(value) <= MOST_THREADS
    return name != "optimizer_kernel" or value in OPTIMIZER_KERNELS


def _parsed(document: Mapping[str, Any]) -> PlanFile:
    settings = document["settings"]
    if not isinstance(settings, dict):
        raise ValueError("settings are no table")
    tuned = "tuned" in document
    script = str(document["script"]) if tuned and "script" in document else ""
    if not script and "batch_size" not in settings:
        raise KeyError("settings.batch_size")
    types = {**PLANNED, **TUNED, **(_OF_TUNE if tuned else {})}
    if unknown := sorted(set(settings) - (set(types) - (set() if script else OF_SCRIPTS))):
        raise ValueError(f"settings have {', '.join(unknown)}")
    for name, value in settings.items():
        if type(value) is not types[name]:  # True is no number
            raise ValueError(f"settings.{name} is {value!r}")
        if not _can_be(name, value):
            raise ValueError(f"settings.{name} is {value!r}, which cannot be")
    if tuned:
        workload = "" if script else str(document["workload"])
        return PlanFile(workload=workload, script=script, settings=settings, planned=None)
    figures = {}
    for name in OF_STEP:
        if name in document["predicted"]:
            figure = Figure.from_dict(document["predicted"][name])
            given = (figure.low, figure.value, figure.high)
            ends = [end for end in given if isinstance(end, (int, float)) and isfinite(end)]
            if len(ends) < len(given):
                raise ValueError(f"predicted.{name} has no numbers")
            if ends != sorted(ends):
                raise ValueError(f"predicted.{name} lies outside its interval")
            if figure.status is not Status.PREDICTED:
                raise ValueError(f"predicted.{name} is {figure.status.value}, not predicted")
            if figure.unit != METRICS[name].unit:
                raise ValueError(
                    f"predicted.{name} is in {figure.unit!r}, not in {METRICS[name].unit}"
                )
            figures[name] = figure.to_dict()
    if "step_time" not in figures:
        raise KeyError("predicted.step_time")
    mode = document["mode"]
    return PlanFile(
        workload=str(document["workload"]),
        settings=settings,
        planned={
            "device": str(document["device"]),
            "mode": None if mode is None else str(mode),
            "configuration": str(document["configuration"]),
            "changed": [],
            "figures": figures,
        },
    )
