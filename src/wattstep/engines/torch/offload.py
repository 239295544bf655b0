"""Activations out of the device's memory until the backward pass: into the host's, or into a file where both share one."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import saved_tensors_hooks

from wattstep.errors import InvalidValueError, RecordingError

LEAST_BYTES: Final = 64 << 10  # what is smaller stays: a call and a page would cost more
_IN_MEMORY: Final = ("tmpfs", "ramfs")
_ON_DISK: Final = "/var/tmp"  # of the folders for temporary files, the one that outlives a restart


class _Place(Protocol):
    """Where bytes of storages go; both take and give tensors of bytes, shape (n,)."""

    def put(self, tensor: torch.Tensor) -> Any:
        """Takes all bytes of a tensor's storage; returns what `get` finds them by."""
        ...

    def get(self, away: Any) -> torch.Tensor:
        """The bytes, where the tensor was."""
        ...


class Offload:
    """Keeps what a forward pass saves elsewhere; parameters, buffers and small storages stay.

    Args:
        model: Whose parameters and buffers stay.
        device: Where it trains.
        shared: Whether the device's memory is the host's.

    Raises:
        InvalidValueError: Files are needed, and all folders for temporary ones lie in memory.
    """

    def __init__(self, model: torch.nn.Module, device: torch.device, *, shared: bool) -> None:
        self._model = model
        self._device = device
        self._place: _Place = _File(device) if shared else _Host(device)

    @contextmanager
    def active(self) -> Iterator[None]:
        """What is saved meanwhile goes; each storage once, however many views of it are saved."""
        stays = {_key(each) for each in (*self._model.parameters(), *self._model.buffers())}
        gone: dict[int, tuple[weakref.ref[Any], int, tuple[_Place, Any]]] = {}

        def pack(tensor: torch.Tensor) -> Any:
            if not self._goes(tensor) or _key(tensor) in stays:
                return _Here(tensor, tensor._version)
            key = _key(tensor)
            storage = tensor.untyped_storage()
            seen = gone.get(key)
            if seen is None or seen[0]() is None or seen[1] != tensor._version:
                place = _CAPTURED if isinstance(tensor, FakeTensor) else self._place
                seen = weakref.ref(storage), tensor._version, (place, place.put(tensor))
                gone[key] = seen
            view = tensor.dtype, tensor.size(), tensor.stride(), tensor.storage_offset()
            return seen[2], view, (tensor.is_conj(), tensor.is_neg())

        with saved_tensors_hooks(pack, _unpack):
            yield

    def _goes(self, tensor: torch.Tensor) -> bool:
        return (
            tensor.layout == torch.strided
            and tensor.device.type == self._device.type
            and tensor.untyped_storage().nbytes() >= LEAST_BYTES
        )


class _Here(NamedTuple):
    """A tensor that stays, as it was when it was saved."""

    tensor: torch.Tensor
    version: int


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _unpack(packed: Any) -> torch.Tensor:
    if isinstance(packed, _Here):
        if packed.tensor._version != packed.version:  # which torch leaves to who packs
            raise RuntimeError(
                "one of the variables needed for gradient computation has been "
                "modified by an inplace operation"
            )
        return packed.tensor
    (place, away), (dtype, size, stride, offset), (conjugated, negated) = packed
    values: torch.Tensor = place.get(away).view(dtype).as_strided(size, stride, offset)
    if conjugated:  # both are bits of a view, and not in the storage
        values = values.conj()
    return torch._neg_view(values) if negated else values


class _Host:
    """The host's memory, in pages that a GPU copies from and into by itself."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """As `_Place.put`."""
        values = _bytes_of(tensor)
        away = torch.empty(values.shape, dtype=torch.uint8, pin_memory=True)
        return away.copy_(values, non_blocking=True)

    def get(self, away: torch.Tensor) -> torch.Tensor:
        """As `_Place.get`."""
        return away.to(self._device, non_blocking=True)


class _Range:
    """A part of a file; when it is no longer referred to, the part is free again."""

    def __init__(self, start: int, size: int) -> None:
        self.start, self.size = start, size


class _File:
    """A file without a name, which the system removes with the process, however that ends."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._folder = _folder_on_disk()
        with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._free: dict[int, list[int]] = {}  # starts by size
        self._end = 0

    def put(self, tensor: torch.Tensor) -> _Range:
        """As `_Place.put`.

        Raises:
            RecordingError: The disk is full.
        """
        values = _bytes_of(tensor).cpu()
        size = values.numel()
        there = self._free.get(size)
        if there:
            start = there.pop()
        else:
            start = self._end
            self._end += -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        part = _Range(start, size)
        weakref.finalize(part, self._free.setdefault(size, []).append, start)
        data = memoryview((ctypes.c_char * size).from_address(values.data_ptr()))
        written = 0
        try:
            while written < size:
                written += os.pwrite(self._descriptor, data[written:], start + written)
        except OSError as error:
            raise RecordingError(
                f"--offload: {self._end / 1e6:.0f} MB of activations do not go to {self._folder}: "
                f"{error.strerror}",
                id="offload-disk",
            ) from error
        return part

    def get(self, away: _Range) -> torch.Tensor:
        """As `_Place.get`: pages of the file, private to whoever writes into them."""
        pages = _Mapping(
            self._descriptor,
            away.size,
            flags=mmap.MAP_PRIVATE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
            offset=away.start,
        )
        pages.away = away  # which is not to be written over while somebody reads it
        return torch.frombuffer(pages, dtype=torch.uint8).to(self._device)


class _Mapping(mmap.mmap):
    """Pages of a file, with what keeps them from being written over."""

    away: _Range


class _Captured:
    """Stands in where tensors have no values: the two copies alone are seen."""

    def put(self, tensor: torch.Tensor) -> tuple[int, torch.device]:
        """As `_Place.put`."""
        size = tensor.untyped_storage().nbytes()
        _operations().offload_copy(tensor, size)
        return size, tensor.device

    def get(self, away: tuple[int, torch.device]) -> torch.Tensor:
        """As `_Place.get`."""
        size, device = away
        values: torch.Tensor = _operations().fetch_copy(size, device)
        return values


_CAPTURED: Final = _Captured()


@cache
def _operations() -> Any:
    """Two operations that a capture sees, and that are never run."""
    register = torch.library.register_fake
    torch.library.define("wattstep::offload_copy", "(Tensor tensor, int size) -> ()")
    register("wattstep::offload_copy", lambda tensor, size: None)
    torch.library.define("wattstep::fetch_copy", "(int size, Device device) -> Tensor")
    register("wattstep::fetch_copy", _fetched)
    return torch.ops.wattstep


def _fetched(size: int, device: torch.device) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of a tensor's storage, shape (n,)."""
    nothing = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return nothing.set_(tensor.untyped_storage())


def _folder_on_disk() -> str:
    folders = [tempfile.gettempdir(), _ON_DISK]
    for folder in folders:
        if os.access(folder, os.W_OK) and _kind_of_disk(folder) not in _IN_MEMORY:
            return folder
    raise InvalidValueError(
        f"--offload: {' and '.join(dict.fromkeys(folders))} lie in memory; "
        "TMPDIR says where a disk has room",
        id="offload-in-memory",
    )


def _kind_of_disk(folder: str) -> str:
    """Type of the file system that a folder lies on; "" where the system does not tell."""
    device = Path(folder).stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        place, _, system = line.partition(" - ")
        if place.split()[2] == wanted:
            return system.split()[0]
    return ""
