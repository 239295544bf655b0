"""`wattstep study plans`: very many trainings predicted, here or on the workers of a Dask cluster, into a folder of Parquet files."""

from __future__ import annotations

import sys
from pathlib import Path

from wattstep.cli.options import named_device, parse_batches
from wattstep.errors import InvalidValueError


def study_plans(
    nets: str | None,
    on: str | None,
    batch: str,
    accumulate: str,
    precision: str,
    *,
    checkpointing: bool,
    scheduler: str | None,
    out: Path,
    json: bool,
    quiet: bool,
) -> None:
    """Predicts what is not there yet, and shows what fits and what takes least; arguments as of the command.

    Raises:
        WattstepError: As of `wattstep.study_plans` and `study_into`.
    """
    from wattstep.api import study_grid, workers_of
    from wattstep.cli.progress import bar_of, stages_of
    from wattstep.plan.study_folder import best_of, study_into
    from wattstep.store import this_device

    line = "wattstep study plans --nets NAME,... --on DEVICE,..."
    if not nets:
        raise InvalidValueError(f"no workload is named: {line}", id="missing-argument")
    named = named_device(on, line).split(",")
    with stages_of("capturing", quiet=quiet or json) as stage:
        grid = study_grid(
            [name.strip() for name in nets.split(",")],
            devices=[str(this_device.find(name.strip())) for name in named],
            batches=parse_ranges(batch),
            accumulates=parse_ranges(accumulate),
            checkpointing=(False, True) if checkpointing else (False,),
            engine=None,
            precisions=[each.strip() for each in precision.split(",")],
            on_capture=stage,
        )
    each = grid.count // max(1, len(grid.pieces))
    with bar_of("predicting", quiet=quiet or json) as show, workers_of(scheduler) as client:
        document = study_into(
            out,
            grid,
            client,
            lambda done, total: show(
                f"{min(done * each, grid.count):,} of {grid.count:,} configurations", done / total
            ),
        )
    best = best_of(out)
    if json:
        from wattstep.report.json_document import dump

        dump({"path": str(out), "study": document, "best": best}, sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.study_plans import print_study

    print_study(out, document, best, screen())


def parse_ranges(text: str) -> list[int]:
    """Whole numbers from "1-64,128", each once.

    Raises:
        InvalidValueError: They are no whole numbers from 1 on.
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = parse_batches(f"{first},{last}" if dash else first)
        numbers += range(ends[0], ends[-1] + 1)
    return list(dict.fromkeys(numbers))
