"""Tasks and plans as a JSON file, checked when it is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.schedule.tasks import Schedule, Task, TaskGraph
from wattstep.schema.checks import INT64, listed, parse_json, record, string, whole

_COUNT: Final = whole(0, INT64)
_COUNTS: Final = listed(_COUNT)
_TASK: Final = record(
    {
        "name": string, "kind": string, "shape": string, "reads": _COUNTS, "writes": _COUNTS,
        "flops": _COUNT, "bytes_moved": _COUNT, "layer": string, "phase": string, "after": _COUNTS,
    },
    optional=("layer", "phase", "after"),
)  # fmt: skip
_GRAPH: Final = record(
    {"tasks": listed(_TASK), "storage_bytes": _COUNTS, "plans": lambda value: value},
    optional=("plans",),
)


def graph_document(graph: TaskGraph) -> dict[str, Any]:
    """A graph as JSON."""
    tasks = [
        {**asdict(task), "after": earlier}
        for task, earlier in zip(graph.tasks, graph.after, strict=True)
    ]
    return {"tasks": tasks, "storage_bytes": graph.storage_bytes}


def graph_from_document(document: Any) -> TaskGraph:
    """The inverse of `graph_document`; tasks that do not say what they wait for follow from reads and writes.

    Raises:
        ValueError: It is no such document.
    """
    checked = _GRAPH(document)
    after = [each.pop("after", None) for each in checked["tasks"]]
    tasks = [_task(each) for each in checked["tasks"]]
    derived = TaskGraph.of(tasks, checked["storage_bytes"])
    if all(each is None for each in after):
        return derived
    return TaskGraph(
        tasks=derived.tasks,
        after=tuple(
            own if stated is None else tuple(stated)
            for own, stated in zip(derived.after, after, strict=True)
        ),
        storage_bytes=derived.storage_bytes,
    )


def _task(checked: Mapping[str, Any]) -> Task:
    numbers = {key: tuple(checked[key]) for key in ("reads", "writes")}
    values: dict[str, Any] = {**checked, **numbers}
    return Task(**values)


def write_plans(path: Path, graph: TaskGraph, plans: Mapping[str, Schedule]) -> None:
    """Writes tasks, and plans of them by the name of their policy.

    Raises:
        InvalidValueError: The file cannot be written.
    """
    document = {
        **graph_document(graph),
        "plans": {name: asdict(one) for name, one in plans.items()},
    }
    try:
        path.write_text(json.dumps(document), encoding="utf-8")
    except OSError as error:
        raise InvalidValueError(f"{path} cannot be written: {error.strerror or error}") from error  # fmt: skip


def read_graph(path: Path) -> TaskGraph:
    """The tasks of a file.

    Raises:
        InvalidValueError: It is not there, or holds no tasks.
    """
    try:
        return graph_from_document(parse_json(path.read_bytes()))
    except OSError as error:
        raise InvalidValueError(f"{path} cannot be read: {error.strerror or error}", id="damaged-tasks") from error  # fmt: skip
    except ValueError as error:
        raise InvalidValueError(f"{path} holds no tasks: {error}", id="damaged-tasks") from error
