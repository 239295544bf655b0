"""`wattstep export`: runs in the formats of other tools."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.opening import open_runs
from wattstep.cli.options import OUTPUT, Json, Quiet
from wattstep.cli.saying import say, say_failures
from wattstep.errors import InvalidValueError
from wattstep.schema.failures import Failures
from wattstep.schema.sanitize import plain

if TYPE_CHECKING:
    from wattstep.report.export.export import Exported


def export(
    runs: Annotated[
        list[Path],
        typer.Argument(autocompletion=completing.runs, metavar="RUN...", help="Runs, or folders that hold runs."),
    ],
    to: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--to",
            help="Required: perfetto (ui.perfetto.dev, trace_processor), chrome (Chrome JSON, as PyTorch's "
            "profiler writes it), csv or parquet (tables).",
            metavar="FORMAT",
        ),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            *OUTPUT,
            help="The file or folder; of several runs a folder with one each. A path that ends "
            "with .gz (perfetto, chrome) or .zip (csv) is packed. [default: the run's name, here]",
            metavar="PATH",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace exports that are there already.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Write runs for other tools: Perfetto, Chrome JSON, CSV, Parquet."""
    from wattstep.cli.folders import expand
    from wattstep.report.export import FORMATS
    from wattstep.report.export.export import format_of, targets

    if to is None:
        line = shlex.join(["wattstep", "export", *map(str, runs), "--to"])
        raise InvalidValueError(
            f"no format is named: {line} FORMAT ({', '.join(FORMATS)})", id="needs-format"
        )
    format_of(to)
    paths = expand(runs)
    places = dict(zip(paths, targets(paths, to, output), strict=True))
    failures = Failures()

    def one(path: Path) -> Exported:
        return _one(path, to, places[path], force=force, quiet=quiet or json)

    exported, damaged = open_runs(paths, one, failures)
    say_failures(failures)
    _show(exported, damaged, failures, to, json)


def _one(path: Path, to: str, target: Path, *, force: bool, quiet: bool) -> Exported:
    from wattstep.cli.progress import bar_of
    from wattstep.report.export.export import export_run

    with bar_of(f"exporting {path.name}", quiet=quiet) as show:
        return export_run(path, to, target, force=force, on_progress=show)


def _show(
    exported: list[Exported],
    damaged: list[dict[str, str]],
    failures: Failures,
    to: str,
    as_json: bool,
) -> None:
    if as_json:
        from wattstep.report.json_document import dump

        rows = [_document(each, to) for each in exported]
        left_out = {"damaged": damaged, "failures": failures.documents()}
        dump({"exports": rows, **left_out}, sys.stdout)
        return
    for each in exported:
        counts = ", ".join(
            f"{count:,} {name.replace('_', ' ')}" for name, count in each.written.counts.items()
        )
        print(f"{plain(each.path)}  {each.size:,} bytes: {counts}")
        for note in each.written.notes:
            say(f"wattstep: {note}")


def _document(exported: Exported, to: str) -> dict[str, Any]:
    return {
        "run": str(exported.run),
        "to": to,
        "path": str(exported.path),
        "bytes": exported.size,
        "counts": dict(exported.written.counts),
        "notes": list(exported.written.notes),
    }
