"""`wattstep query`: SQL over recorded runs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, Optional

import typer

from wattstep.cli.options import OUTPUT, Json, Quiet
from wattstep.errors import InvalidValueError, WattstepError, error_of
from wattstep.schema.settings import parse_duration

if TYPE_CHECKING:
    from wattstep.report.query import Answer

DEFAULT = Path("runs")
SUFFIXES = (".parquet", ".csv", ".json")


def query(
    sql: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="SQL", help="One SELECT of DuckDB's SQL; - reads it from the input."),
    ] = None,
    further: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(hidden=True),
    ] = None,
    runs: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            help="Folder of runs (sweeps and daily trainings in it, too), or a run; again for "
            "more. [default: runs]",
            metavar="FOLDER",
        ),
    ] = None,
    file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--file", "-f", help="Read the SQL from a file.", metavar="FILE"),
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="List tables and columns, with types and units.")
    ] = False,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV on standard output.")] = False,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            *OUTPUT, help=f"Write the rows into a file: {', '.join(SUFFIXES)}.",
            metavar="FILE",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(help="Most rows of the table that is printed.", metavar="N", min=1)
    ] = 40,
    memory: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Most memory that the query may take before it goes to disk, e.g. 2GiB. "
            "[default: half of the machine's]",
            metavar="SIZE",
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="Most time that the query may work, e.g. 1h.", metavar="DURATION")
    ] = "10min",
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Ask recorded runs in SQL, read-only: their figures, steps, operations and samples."""
    if tables:
        _list_tables(json)
        return
    if json and csv:
        raise InvalidValueError("--json or --csv, not both", id="two-forms")
    if output is not None:
        check_output(output)
    text = read_sql(sql, file, further or ())
    size = None if memory is None else _size(memory)
    seconds = parse_duration(timeout)
    signal.signal(signal.SIGTERM, _end)
    from wattstep.cli.progress import stages_of
    from wattstep.report.query import ask
    from wattstep.report.values import plain

    try:
        with ExitStack() as stack:
            with stages_of("reading runs", quiet=quiet) as tell:
                answer = stack.enter_context(
                    ask(text, runs or [DEFAULT], memory=size, timeout_s=seconds, warn=tell)
                )
            for name, reason in answer.left_out.items():
                print(plain(f"wattstep: left out {name}: {reason}"), file=sys.stderr)
            if not answer.runs and not answer.left_out:
                print(f"no runs in {', '.join(map(str, runs or [DEFAULT]))}", file=sys.stderr)
            _show(answer, json, csv, output, rows)
    except WattstepError as error:  # what it says may quote what stands in the runs
        raise error_of(error.document(), plain(error)) from error


def _end(*_: object) -> NoReturn:
    """Ends the command at SIGTERM as at Ctrl-C: what lies on the disk is removed."""
    raise SystemExit(128 + signal.SIGTERM)


def read_sql(sql: str | None, file: Path | None, further: Sequence[str] = ()) -> str:
    """The query: given, of a file, or of the input.

    Raises:
        InvalidValueError: There is none, or two, or it cannot be read, or runs stand beside it.
    """
    beside = [word for word in (sql, *further) if word and word != "-" and os.path.exists(word)]  # noqa: PTH110 - a long query is no path, and no error
    if beside or further:
        folders = " ".join(f"--runs {word}" for word in beside)
        raise InvalidValueError(
            f"{(beside or further)[0]}: runs are named by an option: "
            f'wattstep query "SELECT ..." {folders or "--runs FOLDER"}',
            id="runs-by-option",
        )
    if (sql is None) == (file is None):
        raise InvalidValueError(
            'wattstep query "SELECT ..." (or -f FILE); --tables lists the tables', id="no-query"
        )
    try:
        if file is not None:
            return file.read_text(encoding="utf-8")
        return sys.stdin.read() if sql == "-" else sql or ""
    except (OSError, UnicodeError) as error:
        raise InvalidValueError(
            f"{file or 'the input'} cannot be read: {error}", id="unreadable-file"
        ) from error


def check_output(output: Path) -> None:
    """Refuses a file of no known kind, and one in a run.

    Raises:
        InvalidValueError: It is one.
    """
    if output.suffix not in SUFFIXES:
        raise InvalidValueError(
            f"-o {output}: a file that ends in {', '.join(SUFFIXES)} is wanted", id="unknown-suffix"
        )
    if (output.parent / "run.json").exists():
        raise InvalidValueError(f"-o {output} lies in a run: choose another place")


def _show(answer: Answer, json: bool, csv: bool, output: Path | None, rows: int) -> None:
    from wattstep.report import query_rows

    if output is not None:
        try:
            count = query_rows.write(answer, output)
        except OSError as error:
            raise InvalidValueError(
                f"{output} cannot be written: {error.strerror or error}"
            ) from error
        if json:
            _dump({"output": str(output), "rows": count})
        else:
            print(f"{count:,} rows: {output}")
    elif json:
        _dump(query_rows.document(answer))
    elif csv:
        query_rows.write_csv(answer, sys.stdout)
    else:
        from wattstep.cli.screen import screen
        from wattstep.report.terminal.query import print_answer

        print_answer(answer, screen(), rows)


def _list_tables(as_json: bool) -> None:
    from wattstep.report.query.tables import TABLES

    if as_json:
        _dump({"tables": [{
            "name": table.name, "meaning": table.meaning,
            "columns": [
                {"name": c.name, "type": c.type, "unit": c.unit or None, "meaning": c.meaning}
                for c in table.columns
            ],
        } for table in TABLES]})  # fmt: skip
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.query import print_tables

    print_tables(TABLES, screen())


def _size(text: str) -> int:
    from wattstep.train.child.limits import parse_size

    try:
        return parse_size(text)
    except InvalidValueError as error:
        raise InvalidValueError(
            f"--memory {text}: a size is wanted, e.g. 2GiB or 512MiB", id="malformed-size"
        ) from error


def _dump(document: object) -> None:
    from wattstep.report.json_document import dump

    dump(document, sys.stdout, indented=False)
