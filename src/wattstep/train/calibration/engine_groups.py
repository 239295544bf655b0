"""What share of its operations each group takes on an engine, by the operations of a short recording."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from wattstep.predict.cpu.engines import NORMALIZATION, POOLING, group_of
from wattstep.predict.cpu.time import BACK, CONVOLUTION, DEPTHWISE, PRODUCT
from wattstep.record.recorder import Recorder, RecordingWarning
from wattstep.run import load
from wattstep.schema.arrays import FloatArray
from wattstep.schema.engine import Trainer

EVERY: Final = 4  # steps, one of which is traced
SECONDS: Final = 2.0  # for all of them
LEAST_STEPS, MOST_STEPS = 5 * EVERY, 15 * EVERY
# What belongs to the operation that gives a layer its kind, as torch has it in one: windows of an image,
# other layouts, the gradient of a bias, what a normalisation or a pooling is written out as.
_PART_OF_LAYER: Final = ("data movement", "reduction", "elementwise")
_OF_LAYERS: Final = (
    CONVOLUTION,
    PRODUCT,
    NORMALIZATION,
    POOLING,
)  # in one layer the first of these


@dataclass(frozen=True, kw_only=True)
class TimedOperation:
    """An operation, or all of one name, kind, layer, phase and shapes.

    Attributes:
        name: As the engine calls it.
        kind: As `schema.operation_kinds` has them.
        layer: That it runs for; "": none is known.
        phase: Of the step.
        shapes: Of its inputs, "64x160;160x160".
        share: Of all operations' time that it takes.
    """

    name: str
    kind: str
    layer: str
    phase: str
    shapes: str
    share: float


def recorded_shares(trainer: Trainer, step_s: float) -> dict[str, float]:
    """Share of all operations by group, of `predict.cpu.engines.GROUPS`; {}: the engine tells no operations.

    Args:
        trainer: Warmed up; it makes some more steps.
        step_s: What one takes.
    """
    steps = min(max(round(SECONDS / step_s), LEAST_STEPS), MOST_STEPS)
    with (
        tempfile.TemporaryDirectory(prefix="wattstep-calibrate-") as folder,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RecordingWarning)
        path = Path(folder) / "run"
        with Recorder(
            path, trace=f"every:{EVERY}", model=trainer.model, engine=trainer.engine
        ) as recorder:
            for _ in range(steps):
                begun = recorder.steps.begin()
                recorder.steps.end(begun, trainer.step(recorder.steps.mark))
        return shares_by_group(_operations(path))


def _operations(path: Path) -> Iterable[TimedOperation]:
    """Of a run, traced operations that nothing encloses."""
    breakdown = load(path).breakdown
    if breakdown.reason is not None or not breakdown.step_time.value:
        return []
    own = np.flatnonzero(breakdown.outermost & breakdown.is_operation)
    if not len(own):
        return []
    columns = [
        breakdown.label(name).at(own).rows for name in ("name", "kind", "layer", "phase", "shapes")
    ]
    number: dict[tuple[str, ...], int] = {}
    of = np.array([number.setdefault(key, len(number)) for key in zip(*columns, strict=True)])
    rows, compensated = breakdown.rows, breakdown.compensated
    cost_s = compensated.correction.cost_s[compensated.phase]
    took = 1e-9 * (rows.end_ns - rows.start_ns)
    took -= cost_s * compensated.correction.events(rows, compensated.phase)
    seconds = np.zeros((len(compensated.unattributed_s), len(number)))
    np.add.at(seconds, (rows.window[own], of), np.maximum(took[own], 0.0))
    return [
        TimedOperation(name=name, kind=kind, layer=layer, phase=phase, shapes=shapes, share=float(share))
        for (name, kind, layer, phase, shapes), share in zip(number, middle_shares(seconds), strict=True)
    ]  # fmt: skip


def middle_shares(seconds: FloatArray) -> FloatArray:
    """Share of all operations that each takes, by the middle one of the traced steps.

    Where other programs take the core within an operation, it is long in that step alone; where they take
    it in between, phases and rests are, which therefore are not asked.

    Args:
        seconds: Of each operation in each traced step, shape (steps, operations).
    """
    middle = np.median(seconds, axis=0)
    shares: FloatArray = middle / (middle.sum() or 1.0)  # each shorter than what tracing costs
    return shares


def shares_by_group(operations: Iterable[TimedOperation]) -> dict[str, float]:
    """Share of all operations that each group takes.

    Args:
        operations: All of a step.
    """
    all_ = list(operations)
    deep = {each.layer for each in all_ if each.layer and _is_depthwise(each)}
    kinds = {
        (each.layer, each.phase): kind
        for kind in reversed(_OF_LAYERS)
        for each in all_
        if each.layer and each.kind.startswith(kind)
    }
    shares: dict[str, float] = {}
    for each in all_:
        kind = each.kind
        if kind in _PART_OF_LAYER:
            kind = kinds.get((each.layer, each.phase), kind)
        if _turns_matrix(each):
            kind = PRODUCT
        if kind.startswith(CONVOLUTION):
            kind = DEPTHWISE if each.layer in deep or _is_depthwise(each) else CONVOLUTION
            kind += BACK if each.phase == "backward" else ""
        group = group_of("optimizer" if each.phase == "optimizer" else kind)
        shares[group] = shares.get(group, 0.0) + each.share
    return shares


def _turns_matrix(operation: TimedOperation) -> bool:
    """True for a copy that transposes a matrix, on an engine that tells no layers: its product is not far."""
    if operation.layer or operation.kind != "data movement":
        return False
    return "permute" in operation.name and len(_shape(operation.shapes)) == 2


def _is_depthwise(operation: TimedOperation) -> bool:
    """True for a convolution of each channel by itself: by its name, or by its image and kernel."""
    if not operation.kind.startswith(CONVOLUTION):
        return False
    if "depthwise" in operation.name.lower():
        return True
    shapes = [_shape(each) for each in operation.shapes.split(";")]
    # Of a gradient the first is that of the output.
    image, kernel = (*shapes[operation.phase == "backward" :], (), ())[:2]
    return len(image) > 3 and len(kernel) > 3 and kernel[1] == 1 < image[1] == kernel[0]


def _shape(text: str) -> Sequence[int]:
    parts = text.split("x")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()
