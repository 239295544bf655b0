"""`wattstep demo`: the power of a real training, recorded on a board, told and shown."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Final

import typer

from wattstep.cli.options import OUT, Json, Quiet

RECORDING: Final = Path(__file__).parent / "recordings" / "orin-vgg9.csv.gz"
CREDIT: Final = (
    "Recording: vgg9_cifar10_train.csv of github.com/AmazingDD/Jetson-Energy-Monitor, two epochs on "
    "a Jetson AGX Orin; copyright (c) 2025 Yu Di, MIT licence"
)
TITLE: Final = "VGG9 on CIFAR-10"
BATCH: Final = 64


def demo(
    out: Annotated[
        Path, typer.Option(*OUT, help="Folder of the run and of its report.", metavar="DIR")
    ] = Path("demo"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show what a log of power alone tells of a training on a Jetson AGX Orin; needs nothing but wattstep."""
    from rich.text import Text

    from wattstep.cli.progress import bar_of
    from wattstep.cli.screen import screen
    from wattstep.cli.showing import show_runs
    from wattstep.importing.importer import ImportSettings, import_run
    from wattstep.report.html.report import Reported, read_run, write_report
    from wattstep.schema.failures import Failures
    from wattstep.store.files import new_name

    settings = ImportSettings(
        telemetry=(RECORDING,), units=("mW",), board="jetson-agx-orin", workload=TITLE,
        batch_size=BATCH, replayed=True, credit=CREDIT,
    )  # fmt: skip
    folder = out / new_name("orin-vgg9")
    page = out / "report.html"
    with bar_of("demo", quiet=quiet or json) as show:
        import_run(settings, folder, lambda stage, share: show(stage, 0.5 * share))
        show("drawing the report", 0.6)
        reported = read_run(folder)
        if isinstance(reported, Reported):
            write_report([reported], page, failures=Failures(), paper=False)
    show_runs([folder], json)
    if json or not isinstance(reported, Reported):
        return
    console = screen()
    console.print(Text(CREDIT))
    print(f"report: {page.absolute().as_uri()}", file=sys.stdout)
    if not quiet and can_open_pages():
        webbrowser.open(page.absolute().as_uri())


def can_open_pages() -> bool:
    """True if somebody sits before a terminal of a machine with a screen."""
    screens = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
    return screens and sys.stdout.isatty()
