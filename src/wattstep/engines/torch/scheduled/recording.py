"""Records the operations of a parameter update while it really runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from wattstep.engines.step_phases import FORWARD, OPTIMIZER
from wattstep.engines.torch.capture import sizes_of
from wattstep.engines.torch.memory import RunningLayers, tensors_in
from wattstep.engines.torch.scheduled.calls import Call, Layout, Recording, Slot

aten: Final = torch.ops.aten
# Arguments that a call changes although its schema does not say so.
CHANGED: Final = {aten.native_batch_norm.default: (3, 4)}
# Operations whose results' sizes, or which of their kernels run, depend on values, beside those that torch tags.
OF_VALUES: Final = ("_pack_padded_sequence", "_pad_packed_sequence")
# What makes a tensor another one than its slot says: of another storage, or of other strides.
RESTORING: Final = ("set_", "resize_", "resize_as_")
RESTRIDING: Final = (
    "t_", "transpose_", "squeeze_", "unsqueeze_", "as_strided_", "swapaxes_",
)  # fmt: skip
READS: Final = {
    torch.Tensor.tolist: "tolist", torch.Tensor.numpy: "numpy", torch.Tensor.__array__: "numpy",
}  # fmt: skip


class _Readings(TorchFunctionMode):
    """Notes where Python takes values out of tensors by ways that are no operations."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READS:
            self._note(READS[func])
        return func(*args, **(kwargs or {}))


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, records each operation with its tensors as slots.

    It holds no tensor that the update makes: what autograd does in place where nobody else holds a tensor,
    it does here too.

    Args:
        model: Whose layers are named.
        owners: Layer by storage (torch's number of it) of parameters and their optimizer state.
        batch: Tensors that the update takes.
    """

    def __init__(
        self, model: torch.nn.Module, owners: dict[int, str], batch: Sequence[torch.Tensor]
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._layers = RunningLayers(model)
        self._owners = owners
        self._readings = _Readings(self._reads)
        self.phase = FORWARD
        self._calls: list[Call] = []
        self._layouts: list[Layout] = []
        self._slots: dict[Layout, int] = {}
        self._numbers: dict[int, tuple[int, Any]] = {}  # of the storages that are there
        self._storage_bytes: list[int] = []
        self._layer_of: dict[int, str] = {}  # by our number of a storage
        self._outside: dict[int, torch.Tensor] = {}
        self._versions: dict[int, int] = {}  # of each of these, when it was first seen
        self._valued: set[int] = set()  # storages whose values are not the same in every step
        self._refusals: list[str] = []
        self._optimizer_reads = False
        self._losses: list[int] = []
        self._gradients: list[int | None] = []
        self._given = [self._slot(each) for each in batch]
        for slot in self._given:
            self._valued.add(self._layouts[slot].storage)
            self._outside.pop(slot, None)

    def __enter__(self) -> Recorder:
        self._layers.begin()
        super().__enter__()  # type: ignore[no-untyped-call]
        self._readings.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        self._readings.__exit__(*error)  # type: ignore[no-untyped-call]
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._layers.end()

    def lost(self, loss: torch.Tensor) -> None:
        """The loss of a batch."""
        self._losses.append(self._slot(loss))

    def differentiated(self, parameters: Sequence[torch.Tensor]) -> None:
        """The optimizer is about to step on these parameters."""
        self._gradients = [
            None if each.grad is None else self._slot(each.grad) for each in parameters
        ]

    def recording(self) -> Recording:
        """What was recorded."""
        written = {storage for call in self._calls for storage in call.writes}
        for slot, tensor in self._outside.items():
            storage = self._layouts[slot].storage
            if _version(tensor) != self._versions[slot] and storage not in written:
                # A plan would leave it out, and learn something else without a word.
                self._refuse(
                    "a tensor is changed by no operation that was seen",
                    self._layer_of.get(storage, ""),
                )
        return Recording(
            calls=self._calls,
            layouts=self._layouts,
            given=self._given,
            outside=self._outside,
            losses=self._losses,
            gradients=self._gradients,
            storage_bytes=self._storage_bytes,
            refusals=self._refusals,
            optimizer_reads=self._optimizer_reads,
        )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace in ("profiler", "prim"):  # names of stretches, questions for a device
            return func(*args, **kwargs)
        name = func.overloadpacket.__name__
        taken = tensors_in((args, kwargs))
        referred, named = self._refer(args), self._refer(kwargs)
        reads = self._storages(taken)
        layer = self._layers.running() or ""
        unknown = not self._valued.isdisjoint(reads)
        if _takes_values(func, args) and unknown:
            self._reads(name, layer)
        if name in RESTRIDING and not self._are_outside(reads):
            # Its slot is another one from here on: a view, which is made where it is next taken.
            return func(*args, **kwargs)
        if name in RESTORING or name in RESTRIDING:
            self._refuse(f"{name} changes how a tensor lies", layer)
        made = func(*args, **kwargs)
        several, known = isinstance(made, (tuple, list)), len(self._layouts)
        if isinstance(made, (tuple, list)):
            outputs = list(made)
        elif isinstance(made, torch.Tensor):
            outputs = [made]
        elif made is None:  # it changes what it takes, as optimizers' kernels do
            outputs = []
        else:
            return made  # a number
        slots = tuple(
            self._slot(each, made=True) if isinstance(each, torch.Tensor) else None
            for each in outputs
        )
        changed = self._storages(_changed(func, args, kwargs))
        there = {self._layouts[slot].storage for slot in slots if slot is not None}
        view = bool(there) and there <= set(reads) and not changed
        if view:  # what lies as another tensor does is that one
            slots = tuple(None if slot is None or slot < known else slot for slot in slots)
            if not any(slot is not None for slot in slots):
                return made
        writes = () if view else tuple(dict.fromkeys((*changed, *sorted(there - set(reads)))))
        if torch.Tag.nondeterministic_seeded in func.tags or unknown:
            self._valued.update(writes)
        if self.phase == OPTIMIZER:
            layer = self._owner((*writes, *reads)) or layer
        flops, read, written = sizes_of(func, args, kwargs, made)
        self._calls.append(
            Call(
                func=func, args=referred, kwargs=named, made=slots, several=several, view=view,
                reads=reads, writes=writes, flops=flops, bytes_moved=read + written,
                shapes=tuple(tuple(each.shape) for each in taken), layer=layer, phase=self.phase,
                gradients=torch.is_grad_enabled(),
            )
        )  # fmt: skip
        return made

    # --- tensors ------------------------------------------------------------------------------

    def _refer(self, tree: Any) -> Any:
        """Arguments with slots in the places of tensors."""
        if isinstance(tree, torch.Tensor):
            return Slot(self._slot(tree))
        if isinstance(tree, dict):
            return {name: self._refer(each) for name, each in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree)(self._refer(each) for each in tree)
        return tree

    def _slot(self, tensor: torch.Tensor, *, made: bool = False) -> int:
        """The number of a tensor: one with all that lie the same way in the same storage.

        Args:
            tensor: Which.
            made: Whether the operation that has just run made it.
        """
        if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
            self._refuse("a tensor is not strided", "")
        storage = tensor.untyped_storage()
        known = storage._cdata in self._numbers
        layout = Layout(
            storage=self._number(storage),
            offset=int(tensor.storage_offset()),
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            dtype=tensor.dtype,
        )
        slot = self._slots.get(layout)
        if slot is not None:
            return slot
        slot = self._slots[layout] = len(self._layouts)
        self._layouts.append(layout)
        if not made and not known:
            self._outside[slot] = tensor
            self._versions[slot] = _version(tensor)
            if tensor.untyped_storage()._cdata in self._owners or tensor.requires_grad:
                self._valued.add(layout.storage)
        elif not made:
            self._call_view(slot, layout, tensor)
        return slot

    def _call_view(self, slot: int, layout: Layout, tensor: torch.Tensor) -> None:
        """A view that was made by no operation: of a parameter, as it was saved, or the like."""
        base = next(
            number
            for number, each in enumerate(self._layouts)
            if each.storage == layout.storage and number != slot
        )
        if self._layouts[base].dtype != layout.dtype:
            self._refuse("a tensor is seen as another type", "")
        self._calls.append(
            Call(
                func=aten.as_strided.default,
                args=(Slot(base), list(layout.shape), list(layout.strides), layout.offset),
                kwargs={}, made=(slot,), several=False, view=True, reads=(layout.storage,), writes=(),
                flops=0, bytes_moved=0, shapes=(tuple(tensor.shape),), layer="", phase=self.phase,
                gradients=False,
            )
        )  # fmt: skip

    def _number(self, storage: Any) -> int:
        key = storage._cdata
        entry = self._numbers.get(key)
        if entry is None:
            number = len(self._storage_bytes)
            self._storage_bytes.append(storage.nbytes())
            entry = number, weakref.ref(storage, lambda _: self._numbers.pop(key, None))
            self._numbers[key] = entry
            if key in self._owners:
                self._layer_of[number] = self._owners[key]
        return entry[0]

    def _storages(self, tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self._number(each.untyped_storage()) for each in tensors))

    def _are_outside(self, storages: Sequence[int]) -> bool:
        """Whether one of these storages is there before and after the update."""
        held = {self._layouts[slot].storage for slot in (*self._outside, *self._given)}
        return not held.isdisjoint(storages)

    def _owner(self, storages: Sequence[int]) -> str:
        """Layer of the first of these storages that belongs to one."""
        return next((self._layer_of[each] for each in storages if each in self._layer_of), "")

    # --- what cannot be recorded ----------------------------------------------------------------

    def _reads(self, name: str, layer: str | None = None) -> None:
        if self.phase == OPTIMIZER:
            self._optimizer_reads = True
        else:
            where = self._layers.running() or "" if layer is None else layer
            self._refuse(f"{name} takes values of a tensor", where)

    def _refuse(self, reason: str, layer: str) -> None:
        self._refusals.append(f"{reason} in {layer or 'no module'} ({self.phase})")


def _version(tensor: torch.Tensor) -> int:
    """Number of changes in place, as autograd counts them: those of all its views."""
    return 0 if tensor.is_inference() else int(tensor._version)


def _changed(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Tensors that a call changes."""
    changed = [args[place] for place in CHANGED.get(func, ()) if place < len(args)]
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            changed.append(value)
    return tensors_in(changed)


def _takes_values(func: Any, args: Any) -> bool:
    """True if Python, or the sizes of what is made, depend on values of what a call takes."""
    if func is aten.index.Tensor:  # by numbers its sizes are those of the numbers
        return any(each.dtype in (torch.bool, torch.uint8) for each in tensors_in(args[1]))
    tags = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
    return bool(tags & set(func.tags)) or func.overloadpacket.__name__ in OF_VALUES
