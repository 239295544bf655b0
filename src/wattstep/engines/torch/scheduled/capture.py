"""The training step of a workload as a graph of tasks, from two recordings of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from wattstep.engines.marked_tracer import shapes_text
from wattstep.engines.step_phases import OPTIMIZER
from wattstep.engines.torch.scheduled.calls import Call, Layout, Recording
from wattstep.errors import InvalidValueError
from wattstep.schedule.tasks import Task, TaskGraph
from wattstep.schema.operation_kinds import kind_of

# The optimizer as it is, as one task: what it computes with changes from step to step.
WHOLE: Final = "optimizer.step"


@dataclass(frozen=True, kw_only=True)
class Captured:
    """One parameter update that can be carried out again, in any order that its graph allows.

    Attributes:
        graph: Its tasks.
        calls: Of each task; None for an optimizer that is carried out as it is.
        views: Calls that only look at what is there, by the slots that they make: whoever needs a view makes it.
        layouts: Of each slot.
        given: Slots of the tensors of the batch, by their place in it.
        outside: Tensors that are there in all steps, by slot.
        losses: Slots of the losses.
        gradients: Slots that the optimizer takes where it is carried out as it is; None: no gradient.
        optimize: Takes these gradients, and steps.
    """

    graph: TaskGraph
    calls: Sequence[Call | None]
    views: dict[int, Call]
    layouts: Sequence[Layout]
    given: Sequence[int]
    outside: dict[int, torch.Tensor]
    losses: Sequence[int]
    gradients: Sequence[int | None]
    optimize: Callable[..., None]


def capture(
    workload: str, first: Recording, second: Recording, optimizer: torch.optim.Optimizer
) -> Captured:
    """What two recordings of an update have in common, if that is all of it.

    Args:
        workload: Its name.
        first: An update after the first of the training, with which optimizers make their state.
        second: The next one.
        optimizer: Of this update.

    Raises:
        InvalidValueError: The forward or backward pass depends on values.
    """
    for recording in (first, second):
        if recording.refusals:
            raise _refused(workload, recording.refusals[0])
    optimizes = [_of_optimizer(each) for each in (first, second)]
    passes = [_passes(each) for each in (first, second)]
    _check_same(workload, *passes)
    if first.losses != second.losses or first.gradients != second.gradients:
        raise _refused(workload, "gradients lie elsewhere in each step")
    whole = second.optimizer_reads or [c.does() for c in optimizes[0]] != [
        c.does() for c in optimizes[1]
    ]
    calls = passes[1] if whole else list(second.calls)
    outside = _outside(workload, first, second, calls)
    return _captured(second, calls, outside, optimizer if whole else None)


def _passes(recording: Recording) -> list[Call]:
    return [call for call in recording.calls if call.phase != OPTIMIZER]


def _of_optimizer(recording: Recording) -> list[Call]:
    return [call for call in recording.calls if call.phase == OPTIMIZER]


def _check_same(workload: str, first: Sequence[Call], second: Sequence[Call]) -> None:
    for before, call in zip(first, second, strict=False):
        if before.does() != call.does() or before.shapes != call.shapes:
            where = f"in {call.layer or 'no module'} ({call.phase})"
            raise _refused(workload, f"{call.name} {where} is not the same in each step")
    if len(first) != len(second):
        raise _refused(workload, f"a step has {len(first)} operations, the next {len(second)}")


def _refused(workload: str, reason: str) -> InvalidValueError:
    return InvalidValueError(
        f"--policy: a step of {workload} cannot be scheduled: {reason}", id="not-schedulable"
    )


def _outside(
    workload: str, first: Recording, second: Recording, calls: Sequence[Call]
) -> dict[int, torch.Tensor]:
    """Tensors that all steps share: the same in both recordings, or constants with equal values."""
    used = {slot for call in calls for slot in call.taken()}
    written = {storage for call in calls for storage in call.writes}
    outside = {slot: tensor for slot, tensor in second.outside.items() if slot in used}
    for slot, tensor in outside.items():
        before = first.outside.get(slot)
        if before is None:
            raise _refused(workload, "tensors come from elsewhere in each step")
        if before.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
            continue
        if second.layouts[slot].storage in written or not torch.equal(before, tensor):
            raise _refused(workload, "a tensor that its code makes anew is not the same each time")
    return outside


def _captured(
    recording: Recording,
    calls: Sequence[Call],
    outside: dict[int, torch.Tensor],
    optimizer: torch.optim.Optimizer | None,
) -> Captured:
    views = {slot: call for call in calls if call.view for slot in call.made if slot is not None}
    run: list[Call | None] = [call for call in calls if not call.view]
    generator = len(recording.storage_bytes)  # whoever draws changes it
    tasks = [_task(call, generator, recording) for call in run if call is not None]
    gradients: Sequence[int | None] = ()
    optimize: Callable[..., None] = _nothing
    if optimizer is not None:
        gradients = recording.gradients
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        optimize = _stepping(optimizer, parameters)
        run.append(None)
        tasks.append(_whole_task(recording, outside, parameters))
    return Captured(
        graph=TaskGraph.of(tasks, (*recording.storage_bytes, 0)),
        calls=run,
        views=views,
        layouts=recording.layouts,
        given=recording.given,
        outside=outside,
        losses=recording.losses,
        gradients=gradients,
        optimize=optimize,
    )


def _task(call: Call, generator: int, recording: Recording) -> Task:
    draws = (generator,) if torch.Tag.nondeterministic_seeded in call.func.tags else ()
    settings = [each for each in call.args if isinstance(each, (bool, list, tuple))]
    strided = [
        "x".join(map(str, layout.strides))
        for slot in call.taken()
        if not _is_contiguous(layout := recording.layouts[slot])
    ]
    numbers = [str(each) for each in settings if "Slot" not in str(each)]
    types = dict.fromkeys(str(recording.layouts[slot].dtype) for slot in call.taken())
    other = [each for each in types if each != str(torch.float32)]
    return Task(
        name=call.name,
        kind=OPTIMIZER if call.phase == OPTIMIZER else kind_of(call.name),
        shape=" ".join([call.name, shapes_text(call.shapes), *strided, *numbers, *other]),
        reads=call.reads,
        writes=(*call.writes, *draws),
        flops=call.flops,
        bytes_moved=call.bytes_moved,
        layer=call.layer,
        phase=call.phase,
    )


def _is_contiguous(layout: Layout) -> bool:
    expected = 1
    for size, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _whole_task(
    recording: Recording,
    outside: dict[int, torch.Tensor],
    parameters: Sequence[torch.Tensor],
) -> Task:
    """The step of an optimizer: it may change gradients, too."""
    own = {each.untyped_storage()._cdata for each in parameters}
    layouts = recording.layouts
    weights = [
        layouts[slot].storage
        for slot, tensor in outside.items()
        if tensor.untyped_storage()._cdata in own
    ]
    gradients = [layouts[slot].storage for slot in recording.gradients if slot is not None]
    changed = tuple(dict.fromkeys((*gradients, *weights)))
    size = sum(each.nbytes for each in parameters)
    return Task(
        name=WHOLE,
        kind=OPTIMIZER,
        shape=f"{WHOLE} {size}",
        reads=changed,
        writes=changed,
        flops=0,
        bytes_moved=3 * size,
        phase=OPTIMIZER,
    )


def _stepping(
    optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]
) -> Callable[..., None]:
    def optimize(*gradients: Any) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        optimizer.zero_grad()

    return optimize


def _nothing(*gradients: Any) -> None:
    """Where the optimizer is tasks of its own."""
