"""Steps beside the timeline of a device that runs behind: each mark of them has a place in its queue, too."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from wattstep.record.device_timeline import ANCHORS, DeviceTimeline
from wattstep.record.plain_steps import PlainSteps
from wattstep.record.tracing.windows import Windows
from wattstep.schema.journal import Mark

# A device that is lost, or a release of its framework that lacks or changed a call.
UNASKED: Final = (RuntimeError, AttributeError, TypeError, ValueError)


class DeviceSteps(PlainSteps):
    """The clock of steps, which marks the device that trains as well, as long as it can be asked.

    Attributes:
        device: Marks the steps on the timeline of a device that runs behind; None: there is none.
        device_problem: Why that device cannot be asked any more; "": it can.
    """

    __slots__ = ("_failed", "_windows", "device", "device_problem")
    device: DeviceTimeline | None
    device_problem: str
    _windows: Windows
    _failed: Callable[[OSError], None]  # told where marks cannot be written

    def plan_anew(self) -> None:
        """Something is due: the next step is no plain one."""
        raise NotImplementedError

    @property
    def on_device(self) -> bool:
        """True if steps have a place on the timeline of a device, too."""
        return self.device is not None

    def stamp(self) -> int:
        """Now, in ns, with the place in the device's queue that belongs to it."""
        now = perf_counter_ns()
        self._mark_device(now)
        return now

    def _mark_device(self, now: int) -> None:
        """The place in the device's queue that belongs to a mark, which was stamped just now."""
        device = self.device
        if device is not None:
            try:
                device.mark(now)
            except UNASKED as error:
                self._lose_device(error)
            # An evaluation that nobody announced is a step of hours; those of traced steps may move.
            if device.crowded and not self._windows.traced:
                self._read_device(now)

    def _anchor_device(self, times: int) -> None:
        """Marks of an idle device, which tell its clock.

        Raises:
            OSError: The disk is full.
        """
        if self.device is not None:
            try:
                self.device.anchor(times)
            except UNASKED as error:
                self._lose_device(error)

    def _read_device(self, now: int) -> None:
        """Writes down the marks that the device has come to; `now` was taken before."""
        device = self.device
        if device is not None:
            try:
                device.read(now)
            except OSError as error:
                self._failed(error)
            except UNASKED as error:
                self._lose_device(error)

    def follow_device(self, device: DeviceTimeline) -> None:
        """Steps are marked on this device's timeline, too, from the next one on.

        Raises:
            OSError: The disk is full.
        """
        self._set_device(device)
        self._anchor_device(ANCHORS)

    def _set_device(self, device: DeviceTimeline | None) -> None:
        """The clock of steps marks the device, too, where there is one."""
        self.device = device
        self._clock = perf_counter_ns if device is None else self.stamp
        self.plan_anew()

    def leave_device(self, *, wait: bool) -> None:
        """From here on steps have no place on a device.

        Args:
            wait: Whether the device is waited for first, since the training is over.

        Raises:
            OSError: The disk is full.
        """
        device = self.device
        if device is not None:
            try:
                if wait:
                    device.finish()
            except UNASKED as error:
                self._lose_device(error)
            else:
                self.add(Mark.DEVICE_END)
            self._set_device(None)

    def _lose_device(self, error: Exception) -> None:
        """A device that fails takes its timeline with it; the training is left to say what it is."""
        if self.device is not None:
            message = (str(error).splitlines() or [""])[0]
            self.device_problem = f"{self.device.name} cannot be asked any more: {message}"
            self._set_device(None)
            try:
                self.add(Mark.DEVICE_END)
            except OSError as full:
                self._failed(full)
