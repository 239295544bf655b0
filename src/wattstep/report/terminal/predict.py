"""Predictions on a terminal: one screen a training."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from wattstep.predict import AnyPredictor, Prediction
from wattstep.predict.life import BESIDE, EVALUATION, FRAMEWORK, RELOADING, SAVING
from wattstep.report.memory_tables import STAGES
from wattstep.report.terminal.folding import has_room
from wattstep.report.wording import begun
from wattstep.schema.figure import Figure
from wattstep.schema.spelling import quantity, spell

LARGEST_KINDS = 4
WORDS = {FRAMEWORK: "start", EVALUATION: "evaluation", SAVING: "saving", RELOADING: "reloading"}
ROWS = (
    ("step", "step_time"),
    ("throughput", "throughput"),
    ("memory in use", "system_memory"),
    ("  held by the framework", "reserved_memory"),
    ("  of tensors at the peak", "allocated_memory"),
    ("energy of a step", "energy_per_step"),
    ("mean power", "mean_power"),
)


def print_predictions(
    title: str,
    predictor: AnyPredictor,
    predictions: Sequence[Prediction],
    console: Console,
    *,
    largest: tuple[int | None, int | None],
) -> None:
    """Prints predictions at several batch sizes side by side.

    Args:
        title: Of the network.
        predictor: What made them.
        predictions: One a batch size.
        console: Where to print.
        largest: Batch sizes that fit with 98 % and with 50 %, as of `Predictor.largest`.
    """
    device = predictor.device
    console.print()
    head = f"{title} on {device.title}, {predictor.fitted.engine}, {predictor.precision}: predicted"
    console.print(Text(head, style="bold"))
    side_by_side = _table(predictions)
    indent = (0, 0, 0, 2)
    if has_room(side_by_side, console):
        console.print(Padding(side_by_side, indent))
    else:  # below each other: no label and no number is cut
        for one in predictions:
            console.print(Padding(_table([one]), indent))
    for line in _notes(predictor, predictions, largest):
        console.print(Padding(Text(line), indent))
    for note in dict.fromkeys(predictions[-1].notes):
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_row("!", Text(begun(note)))
        console.print(Padding(grid, indent))


def _table(predictions: Sequence[Prediction]) -> Table:
    """A column a batch size."""
    table = Table(box=None, pad_edge=False)
    table.add_column("batch", no_wrap=True)
    for one in predictions:
        table.add_column(str(one.batch_size), justify="right", no_wrap=True)
    for label, name in ROWS:
        table.add_row(label, *(_shown(one, name) for one in predictions))
        if name == "system_memory":
            for stage in predictions[0].life if predictions[0].processor == "cpu" else ():
                if stage in BESIDE:
                    continue
                cells = (_cell(one.memory_by_stage[stage]) for one in predictions)
                table.add_row(f"  {STAGES[stage].lower()}", *cells)
    table.add_row("does it fit?", *(_fits(one) for one in predictions))
    return table


def _shown(one: Prediction, name: str) -> str:
    if name == "system_memory" and one.memory.used > one.memory.usable:
        return f"more than {quantity(one.memory.usable, 'B')}"
    return _cell(getattr(one, name))


def _cell(figure: Figure) -> str:
    if figure.value is None:
        return "missing"
    spelt = spell(figure.value, figure.unit, figure.low, figure.high, None)
    return f"{spelt.value} ({spelt.interval})" if spelt.interval else spelt.value


def _fits(one: Prediction) -> str:
    percent = 100 * one.fits_with
    if percent >= 99.5:
        return "yes, > 99 %"
    if percent < 0.5:
        return "no, > 99 %"
    return f"yes, {percent:.0f} %" if percent >= 50 else f"no, {100 - percent:.0f} %"


def _heat(one: Prediction) -> list[str]:
    """How warm the device gets, when it throttles, and what a battery lasts for; nothing where it is not known."""
    if one.steady_temperature.value is None:
        return []
    line = f"In a long training at batch {one.batch_size:,} the device settles at {_cell(one.steady_temperature)}"
    chance = one.heat.throttles
    if one.time_to_throttle.value is not None:
        line += f", throttled after {_cell(one.time_to_throttle)}"
        if one.sustained_step_time.value is not None:
            line += f"; a step then takes {_cell(one.sustained_step_time)}"
    elif chance >= 0.05:
        line += f"; it rather does not throttle ({100 * chance:.0f} % that it does)"
    else:
        line += " and does not throttle"
    lines = [f"{line}."]
    if one.samples_per_battery.value is not None:
        lines.append(f"A full battery trains {_cell(one.samples_per_battery)}.")
    return lines


def _stages(one: Prediction) -> list[str]:
    """What stages of a training's life beside its steps take, in memory and time; nothing of what is not known."""
    sizes, times = one.memory_by_stage, one.time_by_stage
    beside = []
    for stage in (FRAMEWORK, *BESIDE):
        figures = [sizes.get(stage) if stage in BESIDE else None, times.get(stage)]
        cells = [_cell(each) for each in figures if each is not None and not each.missing]
        if cells:
            beside.append(f"{WORDS[stage]} {', '.join(cells)}")
    return [f"Batch {one.batch_size:,} beside its steps: {'; '.join(beside)}."] if beside else []


def _notes(
    predictor: AnyPredictor,
    predictions: Sequence[Prediction],
    largest: tuple[int | None, int | None],
) -> list[str]:
    usable = predictor.fitted.usable
    sure, even = largest
    spelt = spell(usable.value, "B", usable.low, usable.high, None)
    guess = ", an estimate" if usable.basis == "estimate" else ""
    room = f"A training can take {spelt.value} ({spelt.interval}{guess}) beyond the idle system."
    if sure is None or even is None:
        lines = [f"{room} The largest batch is not known: a larger one cannot be captured."]
    elif even == 0:
        lines = [f"{room} Not even a batch of 1 fits: a smaller network or input would."]
    else:
        upto = (
            f"Up to batch {sure:,} it fits with 98 % probability"
            if sure
            else "No batch fits with 98 % probability"
        )
        if sure >= predictor.searched:
            upto = f"{upto} (none larger was looked at)"
        ends = f"from about batch {even + 1:,} on memory runs out"
        if even >= predictor.searched:
            ends = f"no batch up to {even:,} runs out of memory"
        lines = [f"{room} {upto}; {ends}."]
    last = predictions[-1].report(workload="", title="")
    waits = {name: float(costs["share"]) for name, costs in last.unattributed.items()}
    shares = {row.kind: float(row.figures["share"]) for row in last.kinds} | waits
    largest_shares = sorted(shares.items(), key=lambda item: -item[1])[:LARGEST_KINDS]
    goes = ", ".join(f"{name} {100 * share:.0f} %" for name, share in largest_shares)
    step_time, phases = float(predictions[-1].step_time), predictions[-1].phase_times
    by_phase = ", ".join(
        f"{name} {100 * float(seconds) / step_time:.0f} %" for name, seconds in phases.items()
    )
    lines.append(
        f"At batch {predictions[-1].batch_size:,} the time goes to: {goes}; by phase {by_phase}."
    )
    if predictor.fitted.checked and not all(one.within for one in predictions):
        rests = "Intervals are estimates: no prediction of such a training was ever checked."
    elif predictor.fitted.checked:
        rests = "Intervals hold in 90 % of cases: how far trainings of families left out of the fit were off."
    else:
        rests = "Intervals are estimates: no prediction for this device was ever checked."
    lines.append(f"{rests} Fitted to {predictor.fitted.fitted}.")
    lines += [*_stages(predictions[-1]), *_heat(predictions[-1])]
    for one in predictions:
        reason = one.energy_per_step.reason
        if reason:
            lines.append(f"Energy: {reason}.")
            break
    short = [one for one in predictions if one.shortage]
    if short:
        batches = ", ".join(f"{one.batch_size:,}" for one in short)
        lines.append(
            f"Does not train there: batch {batches}. Time and energy are what they would be with more memory."
        )
    return lines
