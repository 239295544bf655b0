"""`wattstep fits`: does it train? Two steps of each configuration, under a limit on memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import OUT, Batches, Engines, Json, MemoryLimit, Precisions, Quiet
from wattstep.cli.settings_options import absolute, with_settings
from wattstep.cli.sweep import (
    Threads,
    chosen_workloads,
    first_engine,
    make_plan,
    run_sweep,
)

STEPS = 2


@with_settings(
    "batch",
    "memory_limit",
    "memory_reserve",
    "threads",
    "engine",
    "processor",
    "precision",
    "channels_last",
    "compiled",
    "accumulate",
    "checkpointing",
    "train_last",
    "lora",
    "optimizer",
    "offload",
    "data_dir",
    "out",
    "json",
    "quiet",
)
def fits(
    names: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completing.workloads,
            metavar="NAME...",
            help="Workloads; see suite. Or all.",
        ),
    ],
    batch: Batches = "1,4,16",
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    engine: Engines = "torch",
    precision: Precisions = "fp32",
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            *OUT,
            help="Folder of the sweep; one that was begun continues. [default: a new one in fits]",
            metavar="DIR",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Does it train? Tries two steps of each configuration, and says why where it does not."""
    from wattstep.store.files import new_name
    from wattstep.train.settings import TrainingSettings

    chosen = chosen_workloads(names)
    shared = TrainingSettings(
        workload=chosen[0],
        steps=STEPS,
        warmup=1,
        trace="none",
        engine=first_engine(engine, given["processor"]),
        **{**given, "data_dir": absolute(given["data_dir"])},
    )
    plan = make_plan(
        shared, chosen, batch, threads, precision, memory_limit, engine, cooldown="none"
    )
    run_sweep(plan, out or Path("fits", new_name(_name(chosen))), as_json=json, quiet=quiet)


def _name(workloads: Sequence[str]) -> str:
    others = len(workloads) - 1
    return f"{workloads[0]}-and-{others}-more" if others else workloads[0]
