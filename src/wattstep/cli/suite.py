"""`wattstep suite`: the workloads and their facts, counted from our own code."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import Json, Quiet
from wattstep.cli.settings_options import with_settings
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.schema.workload import Preparation, Published, Specification

COUNTS: Final = (
    "parameters", "trainable_parameters", "layers", "weight_layers", "forward_flops_per_sample",
)  # fmt: skip
# How many times as long as most counting some takes, for the time that is left: CPU time on a server.
LONG: Final = {
    "bert": 15, "densenet100": 9, "densenet40": 3, "inceptionv1": 3, "lora": 8, "mobilenetv2": 3,
    "mobilenetv2-bias-only": 8, "resnet50": 5, "resnet101": 6, "resnet152": 5, "seq2seq": 6,
    "ssdlite": 6, "vit-tiny": 4, "whisper-tiny": 5,
}  # fmt: skip


@with_settings("classes", "image_size", "data_dir", "json", "quiet")
def suite(
    classes: int | None,
    image_size: int | None,
    data_dir: str | None,
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            autocompletion=completing.workloads,
            metavar="[NAME]",
            help="One workload; all where not given.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the workloads with their parameters and operations, counted, and the paper's row."""
    from wattstep import workloads
    from wattstep.cli.progress import list_progress

    if name is None and (classes is not None or image_size is not None):
        raise InvalidValueError(
            "--classes and --image-size are for one workload: give its NAME",
            id="needs-one-workload",
        )
    names = workloads.names() if name is None else [name]
    for one in names:
        workloads.check_name(one)
    # One sample says what a sample takes; two, where normalisation over the batch needs two.
    data = None if data_dir is None else Path(data_dir)
    if data is not None and not data.is_dir():
        raise InvalidValueError(f"--data {data}: there is no such folder", id="no-such-folder")
    preparation = Preparation(batch_size=2, classes=classes, image_size=image_size, data_dir=data)
    rows: list[dict[str, Any]] = []
    weights = [LONG.get(one, 1.0) for one in names]
    with list_progress("counting", len(names), quiet=quiet, weights=weights) as advance:
        for one in names:
            advance(one)
            rows.append(_row(one, preparation))
    if json:
        from wattstep.report.json_document import dump

        dump({"workloads": rows}, sys.stdout)
    elif name is None:
        _show_all(rows)
    else:
        _show_one(rows[0])


@cache
def _key(engine: str, preparation: Preparation) -> str:
    """Cache key of the counts: our code, the framework's version, and what is asked for."""
    from wattstep import engines
    from wattstep.store.cache import hash_files

    files, versions = engines.find(engine).counted_from()
    return hash_files(files, engine, *versions, repr(preparation))


def _counted(workload: Specification, preparation: Preparation) -> dict[str, Any]:
    """Counts of a workload on the default engine, else the first that makes it, or why there are none."""
    from wattstep import engines
    from wattstep.schema.failures import contained
    from wattstep.store.cache import cached

    default = engines.DEFAULT
    engine = default if default in workload.engines else next(iter(workload.engines), default)
    try:
        workload.on(engine)
        key = _key(engine, preparation)
        counts: dict[str, Any] = cached(
            f"suite-{workload.facts.name}",
            key,
            lambda: engines.find(engine).count(workload, preparation),
        )
    except WattstepError as error:
        return _uncounted(workload.facts.published, str(error))
    except Exception as error:  # another package's defect costs its own workload
        return _uncounted(workload.facts.published, contained(error))
    return counts


def _row(name: str, preparation: Preparation) -> dict[str, Any]:
    from wattstep import workloads
    from wattstep.workloads.paper_table import TABLE

    workload = workloads.find(name)
    preparation.check(workload.facts)
    facts = asdict(workload.facts)
    if preparation.classes is not None:
        facts["classes"] = preparation.classes
    if preparation.image_size is not None and facts["image_size"] is not None:
        facts["image_size"] = preparation.image_size
        facts["input_shape"] = (*facts["input_shape"][:-2], *[preparation.image_size] * 2)
    paper = TABLE.get(name)
    return {
        **facts,
        **_counted(workload, preparation),
        "paper_table": None if paper is None else paper.to_dict(),
    }


def _uncounted(published: Published, reason: str) -> dict[str, Any]:
    """In the place of counts, where nothing counts."""
    return {
        **dict.fromkeys(COUNTS),
        "published": {**asdict(published), "parameters": None},
        "not_counted": reason,
    }


def _counts(row: dict[str, Any], at: str) -> dict[str, str]:
    """Counts as texts by label; `at` tells the published configuration."""
    published = row["published"]["parameters"]
    return {
        "parameters": f"{row['parameters']:,} (counted)",
        "that train": f"{row['trainable_parameters']:,} (counted)",
        "as published": f"{published:,} (counted; {at})",
        "layers": f"{row['layers']} hold parameters, {row['weight_layers']} a matrix or a kernel",
        "forward pass": f"{row['forward_flops_per_sample']:,} FLOP a sample "
        "(counted as it ran; a multiply-add is two)",
    }


def _shape(row: dict[str, Any]) -> str:
    return "×".join(map(str, row["input_shape"]))


def _amount(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:g} {unit}".strip()


def _show_all(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from wattstep.cli.screen import screen
    from wattstep.report.terminal.folding import print_table

    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in ("name", "dominant", "data set", "input"):
        table.add_column(heading)
    for heading in ("params", "FLOP"):
        table.add_column(heading, justify="right", no_wrap=True)
    for domain, of_domain in groupby(sorted(rows, key=_domain), key=_domain):
        table.add_row(f"[bold]{domain}[/bold]")
        for row in of_domain:
            table.add_row(
                row["name"], row["dominant_layer"], row["dataset"], _shape(row),
                _amount(row["parameters"]), _amount(row["forward_flops_per_sample"]),
            )  # fmt: skip
        table.add_row()
    console = screen()
    print_table(table, console)
    console.print(
        "Counted from our own code: params as it trains; FLOP of a sample's forward pass, a "
        "multiply-add is two. More: wattstep suite NAME"
    )
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if "not_counted" in row:
            by_reason.setdefault(row["not_counted"], []).append(row["name"])
    for reason, names in by_reason.items():
        whose = "all" if len(names) == len(rows) else ", ".join(names)
        console.print(f"Not counted ({whose}): {reason}", markup=False, highlight=False)


def _domain(row: dict[str, Any]) -> str:
    return str(row["domain"])


def _show_one(row: dict[str, Any]) -> None:
    from rich.table import Table

    from wattstep.cli.screen import screen
    from wattstep.report.terminal.folding import print_table

    published = row["published"]
    at = [
        f"{published[key]:,} {what}" for key, what in (("classes", "classes"),) if published[key]
    ] + [f"{published['image_size']}×{published['image_size']}"] * bool(published["image_size"])
    lines = {
        "domain": row["domain"],
        "task": row["task"],
        "dominant layer": row["dominant_layer"],
        "data set": row["dataset"],
        "input": _shape(row),
        "classes": row["classes"],
        "not counted": row.get("not_counted"),
        **({} if "not_counted" in row else _counts(row, ", ".join(at) or "no variants")),
        "precisions": ", ".join(row["precisions"]),
        "source": row["source"],
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in lines.items():
        if value is not None:
            table.add_row(key, str(value))
    paper = row["paper_table"]
    if paper is not None:
        table.add_row("", "")
        table.add_row("in the paper", paper["paper"])
        table.add_row(
            "its row",
            f"{paper['layers']} layers, {paper['dominant_layer']}, {paper['flops']} FLOPs, "
            f"{paper['parameters']} parameters, {paper['dataset']}; trains on its board: "
            f"{paper['trains']}",
        )
        for error in paper["errors"]:
            table.add_row("its error", error)
    console = screen()
    console.print(f"{row['name']}: {row['title']}", style="bold", markup=False, highlight=False)
    print_table(table, console)
