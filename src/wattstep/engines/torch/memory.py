"""Purposes of a torch step's memory: every operation's tensors, by storage, and what they do not explain."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from wattstep.engines.torch.allocations import (
    BUFFERS,
    GRADIENTS,
    OPTIMIZER_STATE,
    PARAMETERS,
    Ledger,
    Storage,
)
from wattstep.engines.torch.global_hooks import around_modules
from wattstep.schema.step_memory import AllocatorCache, Meter, StepMemory


@dataclass(frozen=True, kw_only=True, slots=True)
class _Moment:
    """An operation at which more was in use than at any before."""

    number: int
    phase: str
    name: str
    layer: str | None
    demand: int
    scratch: int
    untouched: list[tuple[Storage, int]]
    cache: AllocatorCache | None


class MemoryTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, follows every storage that an operation takes or makes.

    Args:
        model: Whose parameters and buffers are named.
        optimizers: Whose state is named.
        meter: Measures around each operation; without one, tensors alone are counted.
        device: The kind of device whose memory is asked for.
        there: Gives all tensors of this process; None: by looking at all that Python holds.

    It costs nothing where it is not active. Storages are told apart by torch's own objects, so
    that views, in-place operations and parameters that are tied count once.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: Sequence[Any],
        meter: Meter | None = None,
        device: str = "cpu",
        there: Callable[[], list[torch.Tensor]] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._there = there or tensors_there
        self.ledger = Ledger()
        self._model = model
        self._optimizers = optimizers
        self._meter = meter
        self._device = device
        self._known: dict[int, tuple[Storage, Any]] = {}
        self._layers = RunningLayers(model)
        self._moment: _Moment | None = None
        self._sparse = None if meter is None else _Sparse(meter)
        self._names: list[tuple[str, str, str | None]] = [("", "data", None)]

    def __enter__(self) -> MemoryTracker:
        for tensor in self._there():
            self._see(tensor, recorded=False)
        self._label()
        self._layers.begin()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._layers.end()
        self._label()
        self.ledger.close()
        self._known.clear()  # nothing is followed any more

    def phase(self, name: str) -> None:
        """A phase of the step begins."""
        self._label()
        self.ledger.phase = name

    def result(self) -> StepMemory:
        """Memory of the step, once the tracker has been left."""
        ledger, moment = self.ledger, self._moment
        number = ledger.heaviest(self._device) if moment is None else moment.number
        name, phase, layer = self._names[number]
        return StepMemory(
            categories=ledger.during(number, self._device),
            highest=ledger.highest(self._device),
            before=sum(ledger.during(0, self._device).values()),
            phase=phase,
            operation=name,
            layer=layer,
            operations=ledger.operation,
            demand=None if moment is None else moment.demand,
            scratch=None if moment is None else moment.scratch,
            untouched={} if moment is None else _by_category(moment.untouched),
            cache=None if moment is None else moment.cache,
        )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._follow(func, args, kwargs or {})

    def _follow(self, func: Any, args: Any, named: Any) -> Any:
        """Runs an operation, and follows the storages that it takes or makes."""
        recorded = self._recorded()
        number = self.ledger.begin(recorded=recorded)
        taken = tensors_in((args, named))
        self._see_all(taken, recorded)
        layer = self._layers.running()
        self._names.append((str(func), self.ledger.phase, layer))
        if self._meter is None or self._sparse is None:
            made = self._call(func, args, named)
            outputs = tensors_in(made)
            self._see_all(outputs, recorded)
            self._called(func, args, taken, outputs)
            return made
        there = len(self.ledger.storages)
        absent = self._sparse.absent()
        in_use = self._meter.begin()
        made = func(*args, **named)
        demand = self._meter.end()
        in_use += absent - self._sparse.absent()  # tensors that were there, and got touched now
        self._see_all(tensors_in(made), recorded)
        if self._moment is None or demand > self._moment.demand:
            made_now = self.ledger.storages[there:]
            self._moment = self._note(number, in_use, demand, made_now, self._sparse, self._meter)
        return made

    def _call(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operation makes."""
        return func(*args, **kwargs)

    def _called(
        self, func: Any, args: Any, taken: list[torch.Tensor], made: list[torch.Tensor]
    ) -> None:
        """An operation was called, of which no meter is told.

        Args:
            func: The operation.
            args: Of it, by position.
            taken: Tensors that it was given.
            made: Those of its result.
        """

    def _recorded(self) -> bool:
        """True if what runs is differentiated; in a backward pass only what it computes anew is."""
        if self.ledger.phase == "backward" and torch._C._current_autograd_node() is None:
            return False
        return torch.is_grad_enabled()

    def _note(
        self,
        number: int,
        in_use: int,
        demand: int,
        made: Sequence[Storage],
        sparse: _Sparse,
        meter: Meter,
    ) -> _Moment:
        name, phase, layer = self._names[number]
        new = sum(storage.size for storage in made if storage.device == self._device)
        taken = demand - in_use - (new - sparse.absent(of=made))
        return _Moment(
            number=number,
            phase=phase,
            name=name,
            layer=layer,
            demand=demand,
            scratch=max(taken, 0),
            untouched=sparse.untouched(),
            cache=meter.cache(),
        )

    # --- storages -------------------------------------------------------------------------

    def _see_all(self, tensors: Iterable[torch.Tensor], recorded: bool) -> None:
        for each in tensors:
            self._see(each, recorded)

    def _see(self, tensor: torch.Tensor, recorded: bool) -> Storage | None:
        storage = _storage_of(tensor)
        # Beside a meter there are tensors that have a shape alone, where another step was captured.
        if storage is None or (self._meter is not None and storage.device != tensor.device):
            return None
        key = storage._cdata
        seen = self._known.get(key)
        if seen is None:
            entry = self.ledger.add(storage.nbytes(), recorded=recorded, device=tensor.device.type)
            self._known[key] = (entry, weakref.ref(storage, lambda _: self._forget(key)))
            if self._sparse is not None and entry.device == self._device:
                self._sparse.add(storage, entry)
            return entry
        if storage.nbytes() != seen[0].size:  # it was resized: the old one is gone
            self._forget(key)
            return self._see(tensor, recorded)
        return seen[0]

    def _forget(self, key: int) -> None:
        entry = self._known.pop(key, None)
        if entry is not None:
            self.ledger.free(entry[0])

    def _label(self) -> None:
        for category, tensors in self._owned():
            for tensor in tensors:
                entry = self._see(tensor, recorded=False)
                if entry is not None:
                    entry.label = category

    def _owned(self) -> Iterator[tuple[str, Iterable[torch.Tensor]]]:
        modules = list(self._model.modules())
        parameters = _those_of(each._parameters for each in modules)
        for optimizer in self._optimizers:
            parameters += [each for group in optimizer.param_groups for each in group["params"]]
            leaves = pytree.tree_leaves(list(optimizer.state.values()))
            yield OPTIMIZER_STATE, [each for each in leaves if isinstance(each, torch.Tensor)]
        yield BUFFERS, _those_of(each._buffers for each in modules)
        yield GRADIENTS, [each.grad for each in parameters if each.grad is not None]
        yield PARAMETERS, parameters


def _those_of(named: Iterable[Mapping[str, torch.Tensor | None]]) -> list[torch.Tensor]:
    return [each for tensors in named for each in tensors.values() if each is not None]


class _Sparse:
    """Storages of which a part was allocated and not touched yet; most are whole at once."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._found: list[tuple[Any, Storage]] = []

    def add(self, storage: Any, entry: Storage) -> None:
        """A storage that was made just now."""
        if self._meter.absent(storage.data_ptr(), storage.nbytes()):
            self._found.append((weakref.ref(storage), entry))

    def absent(self, of: Sequence[Storage] | None = None) -> int:
        """Bytes that are still untouched: of some storages, or of all."""
        return sum(size for entry, size in self.untouched() if of is None or entry in of)

    def untouched(self) -> list[tuple[Storage, int]]:
        """Each storage with the bytes of it that are still untouched."""
        return [(entry, self._of(reference)) for reference, entry in self._found]

    def _of(self, reference: Any) -> int:
        storage = reference()
        if storage is None:
            return 0
        return self._meter.absent(storage.data_ptr(), storage.nbytes())


def _by_category(sizes: Iterable[tuple[Storage, int]]) -> dict[str, int]:
    """Sums by category, which storages have once the step has ended; none that are 0."""
    by_category: dict[str, int] = {}
    for storage, size in sizes:
        if size:
            by_category[storage.category] = by_category.get(storage.category, 0) + size
    return by_category


class RunningLayers:
    """Modules that operations belong to: by hooks forward, by autograd's numbers backward."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._open: list[str] = []
        self._of_node: dict[int, str] = {}
        self._handles: list[Any] = []

    def begin(self) -> None:
        """Hooks in: the framework's global ones, so that no module carries anything."""
        self._handles = around_modules(self._enter, self._leave)

    def end(self) -> None:
        """Hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def running(self) -> str | None:
        """The path of the module whose operation is about to run."""
        if self._open:
            # The node of an operation is made just before the operation runs.
            path = self._open[-1]
            self._of_node[torch._C._autograd._get_sequence_nr() - 1] = path
            return path
        node = torch._C._current_autograd_node()
        return None if node is None else self._of_node.get(node._sequence_nr())

    def _enter(self, module: Any, inputs: Any) -> None:
        self._open.append(self._paths.get(id(module)) or type(module).__name__)

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        if self._open:
            self._open.pop()


def bytes_of_tensors(
    device: str = "cpu",
    tensors: Iterable[torch.Tensor] | None = None,
    absent: Callable[[int, int], int] = lambda address, size: 0,
) -> int:
    """Bytes of tensors on a kind of device, shared memory counted once.

    Args:
        device: As torch names the kind.
        tensors: Which; None: all that Python holds.
        absent: As `Meter.absent`: how much of a storage takes no memory.
    """
    storages = {}
    for tensor in tensors_there() if tensors is None else tensors:
        storage = _storage_of(tensor)
        if storage is not None and storage.device.type == device:
            size = storage.nbytes()
            storages[storage._cdata] = size - absent(storage.data_ptr(), size) if size else 0
    return sum(storages.values())


def bytes_by_category(device: str) -> dict[str, int]:
    """Bytes of all tensors that Python holds on a kind of device, by what they are for.

    "weights" (buffers of modules among them), "gradients", "optimizer state" and "other tensors"
    (activations, data); memory that several share counts once, in the first of these.
    """
    objects = gc.get_objects()
    modules = [each for each in objects if issubclass(type(each), torch.nn.Module)]
    optimizers = [each for each in objects if issubclass(type(each), torch.optim.Optimizer)]
    weights = [
        tensor
        for module in modules
        for tensor in (*module._parameters.values(), *module._buffers.values())
        if tensor is not None
    ]
    leaves = [each for each in weights if issubclass(type(each), torch.nn.Parameter)]
    states = [
        part for each in optimizers for state in each.state.values() for part in state.values()
    ]
    tensors = {
        "weights": weights,
        "gradients": [each.grad for each in leaves if each.grad is not None],
        "optimizer state": [part for part in states if issubclass(type(part), torch.Tensor)],
        "other tensors": [each for each in objects if issubclass(type(each), torch.Tensor)],
    }
    sizes = dict.fromkeys(tensors, 0)
    counted: set[int] = set()
    for category, its in tensors.items():
        for tensor in its:
            storage = _storage_of(tensor)
            if storage is None or storage.device.type != device or storage._cdata in counted:
                continue
            counted.add(storage._cdata)
            sizes[category] += storage.nbytes()
    return sizes


@contextmanager
def finding_tensors() -> Iterator[Callable[[], list[torch.Tensor]]]:
    """Gives all tensors that Python holds, whenever it is called meanwhile; old objects are looked through once.

    They are set aside from garbage collection until the end, unless somebody did that with some before.
    """
    if gc.get_freeze_count():  # what is set aside comes back all at once
        yield tensors_there
        return
    gc.collect(1)  # what is young and garbage: all that is set aside comes back as old
    old = [weakref.ref(each) for each in tensors_there()]
    gc.freeze()
    try:
        yield lambda: [each for one in old if (each := one()) is not None] + tensors_there()
    finally:
        gc.unfreeze()


def tensors_there() -> list[torch.Tensor]:
    """All tensors that Python holds; by their type alone, since any object may lie about its class.

    What a compiler left whose sizes are symbols takes no memory, and is none.
    """
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, torch.Tensor)}
    found = compress(objects, map(kinds.__contains__, map(type, objects)))
    return [each for each in found if not _symbolic(each)]


def _symbolic(tensor: torch.Tensor) -> bool:
    storage = _storage_of(tensor) if type(tensor) is FakeTensor else None
    return storage is not None and isinstance(storage.nbytes(), torch.SymInt)


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """Tensors of a call's arguments or results, in their order, those in sequences and mappings among them."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    found: list[torch.Tensor] = []
    if isinstance(tree, (tuple, list, dict)):
        _gather(tree, found)
    return found


def _gather(tree: Any, found: list[torch.Tensor]) -> None:
    for part in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(part, torch.Tensor):
            found.append(part)
        elif isinstance(part, (tuple, list, dict)):
            _gather(part, found)


def _storage_of(tensor: torch.Tensor) -> Any:
    """The storage, or None where the tensor has none of its own (sparse, opaque, meta), or none yet (lazy)."""
    if type(tensor) is FakeTensor:  # neither lazy nor a wrapper nor, whatever it is made of, meta
        return tensor.untyped_storage() if tensor.layout is torch.strided else None
    if tensor.layout != torch.strided or is_lazy(tensor) or tensor.device.type == "meta":
        return None
    try:
        return tensor.untyped_storage()
    except NotImplementedError:  # wrappers have no memory of their own
        return None
