"""`wattstep runs`: the recorded runs as a list, and what one of them holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from wattstep.cli.options import Json
from wattstep.cli.saying import say, say_failures
from wattstep.report.values import plain
from wattstep.schema.failures import Failures


def runs(
    action: Annotated[
        str, typer.Argument(metavar="[list|show]", help="list, or show one run.")
    ] = "list",
    path: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="[PATH]", help="Folder of runs to list, or the run to show."),
    ] = None,
    json: Json = False,
) -> None:
    """List recorded runs, or show what is in one before it is shared."""
    from wattstep.errors import InvalidValueError

    if action == "list":
        _list(path or Path("runs"), json)
    elif action == "show" and path is not None:
        _show(path, json)
    else:
        raise InvalidValueError("wattstep runs list [FOLDER], or wattstep runs show RUN")


def _list(folder: Path, as_json: bool) -> None:
    from wattstep.store.listing import listed

    rows = [listed(path.parent)[0] for path in sorted(folder.glob("*/run.json"))]
    failures = Failures()
    for row in rows:
        if "failure" in row:
            failures.add(row["run"], row["failure"])
    say_failures(failures)
    if as_json:
        from wattstep.report.json_document import dump

        dump({"runs": rows, "failures": failures.documents()}, sys.stdout)
        return
    for row in rows:
        batch = "" if row.get("batch_size") is None else f", batch {row['batch_size']}"
        rest = row.get("problem") or f"{row['workload']}{batch}, {row['engine']}"
        print(plain(f"{row['run']}  {row['state']}  {rest}"))
    if not rows:
        say(f"no runs in {folder}")


def _show(path: Path, as_json: bool) -> None:
    from wattstep.run import load

    run = load(path)
    entries = {entry: _left_out(entry) for entry in sorted(path.iterdir())}
    files = {entry.name: entry.stat().st_size for entry, why in entries.items() if why is None}
    left_out = {entry.name: why for entry, why in entries.items() if why is not None}
    document = {
        "run": str(path), "files": files, "left_out": left_out, "run.json": run.info.to_dict()
    }  # fmt: skip
    if as_json:
        from wattstep.report.json_document import dump

        dump(document, sys.stdout)
        return
    for name, size in files.items():
        print(f"{plain(name):22} {size:>12,} bytes")
    for name, why in left_out.items():
        print(f"{plain(name):22} not looked into: {why}")
    import json as json_module

    text = json_module.dumps(document["run.json"], indent=1, ensure_ascii=False)
    print("\n".join(plain(line) for line in text.split("\n")))


def _left_out(entry: Path) -> str | None:
    """Reason why an entry of a run's folder is no file of it; None where it is one."""
    if entry.is_symlink():
        return "it is a link"
    if entry.is_dir():
        return "it is a folder"
    return None if entry.is_file() else "it is no plain file"
