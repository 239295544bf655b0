"""A run as a line of a list: what its `run.json` says, or why that cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wattstep.errors import DamagedRunError
from wattstep.schema.failures import contained
from wattstep.schema.run_info import RunInfo
from wattstep.store.files import read_info


def listed(path: Path) -> tuple[dict[str, Any], RunInfo | None]:
    """The row of a run, JSON-ready, and its description; None where that is damaged.

    Where something failed inside, the row says so in `failure` as well.
    """
    try:
        return _row(path)
    except DamagedRunError as error:
        return {"run": str(path), "state": "damaged", "problem": str(error)}, None
    except Exception as error:
        reason = contained(error)
        row = {"run": str(path), "state": "damaged", "problem": f"it failed: {reason}"}
        return {**row, "failure": reason}, None


def _row(path: Path) -> tuple[dict[str, Any], RunInfo]:
    info = read_info(path)
    row = {
        "run": str(path), "state": info.state, "workload": info.workload,
        "batch_size": info.batch_size, "engine": info.engine, "created": info.created,
        "problem": None, "imported": bool(info.imported),
    }  # fmt: skip
    return row, info
