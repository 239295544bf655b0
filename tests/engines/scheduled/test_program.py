"""Parts of a plan as it is carried out: waits of its workers, calls of torch, teams of threads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from wattstep.engines.torch.scheduled.calls import Call, Layout, Slot
from wattstep.engines.torch.scheduled.fast_calls import fastest
from wattstep.engines.torch.scheduled.openmp import end_team, undivided
from wattstep.engines.torch.scheduled.program import signals_of
from wattstep.schedule.tasks import Placed, Schedule, Task, TaskGraph


def test_workers_wait_only_where_no_earlier_wait_has_told_enough() -> None:
    # 0 on the first worker; 1, 2, 3 on the second need it: one wait is enough.
    task = Task(name="t", kind="k", shape="", reads=(), writes=(), flops=0, bytes_moved=0)
    graph = TaskGraph(tasks=(task,) * 4, after=((), (0,), (0,), (0, 1)), storage_bytes=())
    placed = [Placed(task=0, worker=0, threads=1)]
    placed += [Placed(task=number, worker=1, threads=1) for number in (1, 2, 3)]
    captured = SimpleNamespace(graph=graph)
    signals = signals_of(captured, Schedule(workers=2, placed=tuple(placed)))  # type: ignore[arg-type]
    assert [(each.task, each.before) for each in signals] == [(0, 1)]


def test_a_team_of_two_ends_and_is_not_begun_while_operations_are_undivided() -> None:
    values = torch.ones(1 << 20)

    def threads() -> set[str]:
        return {each.name for each in Path("/proc/self/task").iterdir()}

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        end_team()
        alone = threads()
        with undivided():
            values.relu_()
            assert not threads() - alone
        values.relu_()
        (begun,) = threads() - alone
        end_team()
        assert begun not in threads()
    finally:
        torch.set_num_threads(before)


def a_call(func: Any, *args: Any, **kwargs: Any) -> Call:
    return Call(
        func=func, args=args, kwargs=kwargs, made=(), several=False, view=False, reads=(),
        writes=(), flops=0, bytes_moved=0, shapes=(), layer="", phase="forward", gradients=False,
    )  # fmt: skip


def test_a_binding_of_torch_is_called_where_it_chooses_the_same_overload() -> None:
    aten = torch.ops.aten
    layout = Layout(storage=0, offset=0, shape=(2, 2), strides=(2, 1), dtype=torch.float32)
    one, layouts = Slot(0), [layout]
    assert fastest(a_call(aten.mm.default, one, one), layouts) is torch._C._VariableFunctions.mm
    added = fastest(a_call(aten.add.Tensor, one, one, alpha=2.0), layouts)
    assert added is torch._C._VariableFunctions.add
    changed = fastest(a_call(aten.add_.Tensor, one, one), layouts)
    assert changed is torch._C.TensorBase.add_
    # No function of torch has that name, or it would call something else.
    kept = aten.threshold_backward.grad_input
    assert fastest(a_call(kept, one, one, 0.0, grad_input=one), layouts) is kept._op
