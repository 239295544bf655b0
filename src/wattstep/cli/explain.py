"""`wattstep explain`: where the time and the energy of a run go, and why."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli.lean import lean
from wattstep.cli.opening import open_runs
from wattstep.cli.options import Full, Json, Quiet, Runs
from wattstep.cli.saying import say_failures
from wattstep.schema.failures import Failures

if TYPE_CHECKING:
    from wattstep.insight.explain.section import Section


def explain(
    runs: Runs = None,
    section: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            "--section", "-s", help="Only this section; again for another.", metavar="NAME"
        ),
    ] = None,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Explain where time and energy go, and what would make them less; the advice first, evidence on request."""
    from rich.markup import escape

    from wattstep.cli.folders import asked
    from wattstep.cli.progress import bar_of
    from wattstep.cli.screen import screen
    from wattstep.insight.explain import chosen_sections
    from wattstep.insight.explain import explain as explained
    from wattstep.report.json_document import dump
    from wattstep.report.terminal.explain import print_brief, print_section, print_undetermined
    from wattstep.report.values import plain
    from wattstep.run import load

    names = chosen_sections(section or [])
    console = screen()
    whole = not json and (full or bool(section))
    failures = Failures()
    said: set[str] = set()  # of all runs: nothing is said twice
    opened, damaged = open_runs(asked(runs, "explain"), load, failures)

    def one(path: Path) -> dict[str, Any]:
        run = next(run for run in opened if run.path == path)
        beside = [other for other in opened if other is not run]
        sections: list[dict[str, Any]] = []
        sections_of_runs: list[Section] = []
        if not json:
            console.print(f"[bold]{escape(plain(path))}[/bold]", highlight=False)
        with lean(), bar_of(f"explaining {path.name}", quiet=quiet) as show:
            for number, name in enumerate(names):
                show(name, number / len(names))
                for section in explained(run, [name], beside):
                    sections.append(section.document())
                    if section.failure:
                        failures.add(f"{path.name}: {name}", section.failure)
                    sections_of_runs.append(section)
        for section in sections_of_runs if whole else ():
            if section.reason is None:
                part = f"{path.name}: {section.name}, as it is printed"
                failures.guard(part, partial(print_section, section, console, said), None)
        if whole:
            print_undetermined(sections_of_runs, console, said)
        if not (json or whole):
            failures.guard(
                f"{path.name}: printing",
                partial(print_brief, sections_of_runs, console, said),
                None,
            )
        return {"run": str(path), "sections": sections}

    documents, cut = open_runs([run.path for run in opened], one, failures)
    say_failures(failures)
    if json:
        left_out = {"damaged": damaged + cut, "failures": failures.documents()}
        dump({"runs": documents, **left_out}, sys.stdout)
