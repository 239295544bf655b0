"""Tracing one step with the board's own torch, of whatever release."""

import collections
import json
import os
import re
import sys
import time
import weakref

from wattstep.engines.torch.layers import SCOPE
from wattstep.engines.torch.own_hooks import hook_after, hook_before
from wattstep.record.tracing.windows import Windows
from wattstep.remote.agent.layout import CLOCK, LAYERS, TRACES

STEP_SCOPE = "ProfilerStep#"
CLOCK_MARKS = 4  # at either end of a window; each bounds the one before it
LEAST_FREE = 64 * 2**20  # bytes on the disk below which nothing is traced any more
RESERVED = 64 * 1024  # bytes for what the description says in the end beyond its first words


def computes_on_gpu(torch):
    """True if this process has put anything on a GPU."""
    cuda = getattr(torch, "cuda", None)
    return bool(cuda is not None and cuda.is_available() and cuda.memory_allocated() > 0)


class Layers:
    """Names modules by their paths, and opens a scope of the profiler around each while it traces."""

    def __init__(self):
        self.paths = weakref.WeakKeyDictionary()
        self.roots = 0
        self.open = []
        self.handles = []

    def path(self, module):
        """The module's path; one that no known model holds begins a model of its own."""
        if module not in self.paths:
            prefix = "" if not self.roots else type(module).__name__ + "."
            self.roots += 1
            for name, part in module.named_modules():
                own = prefix + name if name else prefix.rstrip(".") or type(module).__name__
                self.paths.setdefault(part, own)
        return self.paths[module]

    def begin(self, torch):
        """Hooks in, where this torch has hooks for all modules."""
        hooks = torch.nn.modules.module
        if not hasattr(hooks, "register_module_forward_pre_hook"):
            return
        record = torch.autograd.profiler.record_function

        def enter(module, inputs):
            scope = record(SCOPE + self.path(module))
            scope.__enter__()
            self.open.append(scope)

        def leave(module, inputs, output):
            if self.open:
                self.open.pop().__exit__(None, None, None)

        self.handles = [
            hooks.register_module_forward_pre_hook(enter),
            hooks.register_module_forward_hook(leave),
        ]

    def end(self):
        """Hooks out, and closes what an exception left open."""
        for handle in self.handles:
            handle.remove()
        self.handles = []
        while self.open:
            self.open.pop().__exit__(None, None, None)


class ProfilerWindow:
    """Traced step under torch's own profiler, which exports its trace.

    Kineto from torch 1.8.1 on; before that the autograd profiler, which times the GPU by events.
    Two groups of annotations carry the monotonic clock in their names: each lies between the time
    in its own name and that in the next one's.
    """

    def __init__(self, torch, layers, index):
        self.torch = torch
        self.layers = layers
        self.index = index
        self.method = (
            "kineto" if hasattr(getattr(torch, "profiler", None), "profile") else "autograd"
        )
        self.profile = None
        self.scope = None

    def start(self):
        """Opens the window; what the GPU still had to do is waited for."""
        torch = self.torch
        on_gpu = computes_on_gpu(torch)
        if on_gpu:
            torch.cuda.synchronize()
        if self.method == "kineto":
            kinds = torch.profiler.ProfilerActivity
            activities = [kinds.CPU] + ([kinds.CUDA] if on_gpu else [])
            self.profile = torch.profiler.profile(activities=activities, record_shapes=True)
        else:
            self.profile = torch.autograd.profiler.profile(use_cuda=on_gpu, record_shapes=True)
        self.profile.__enter__()
        self.clocks()
        self.layers.begin(torch)
        self.scope = torch.autograd.profiler.record_function(STEP_SCOPE + str(self.index))
        self.scope.__enter__()

    def clocks(self):
        """Marks of known time."""
        record = self.torch.autograd.profiler.record_function
        for _ in range(CLOCK_MARKS):
            with record(CLOCK + str(time.perf_counter_ns())):
                pass

    def step_done(self):
        """The step's work on the GPU is waited for: it is part of the traced step."""
        if computes_on_gpu(self.torch):
            self.torch.cuda.synchronize()

    def finish(self):
        """Ends the tracing, right after the step."""
        self.layers.end()
        if self.scope is not None:
            self.scope.__exit__(None, None, None)
            self.clocks()
        self.profile.__exit__(None, None, None)

    cancel = finish

    def write(self, folder, number):
        """Has torch write its trace; returns the file's name."""
        name = "window-%04d.json" % number
        self.profile.export_chrome_trace(os.path.join(folder, name))
        return name

    def refused(self, path):
        """True if a GPU was at work and the trace holds none of it: CUPTI lacks its privilege."""
        if self.method != "kineto" or not computes_on_gpu(self.torch):
            return False
        return not holds(path, re.compile(rb'"cat"\s*:\s*"[Kk]ernel"'))


def holds(path, pattern):
    """True if a file holds a pattern of less than 256 bytes."""
    before = b""
    with open(path, "rb") as file:
        while True:
            data = file.read(1 << 20)
            if not data:
                return False
            if pattern.search(before + data):
                return True
            before = data[-256:]


class CpuClock:
    """Stamps on the CPU."""

    processor = "cpu"

    def stamp(self):
        """Now."""
        return time.perf_counter_ns()

    def settle(self):
        """Nothing is outstanding."""

    def time(self, stamp):
        """In ns of the monotonic clock."""
        return stamp


class GpuClock:
    """Stamps in the stream of a GPU, by events; their zero is an event that was waited for."""

    def __init__(self, torch):
        self.torch = torch
        self.processor = "gpu%d" % torch.cuda.current_device()
        torch.cuda.synchronize()
        before = time.perf_counter_ns()
        self.zero = self.stamp()
        self.zero.synchronize()
        self.zero_ns = (before + time.perf_counter_ns()) // 2

    def stamp(self):
        """An event in the current stream."""
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def settle(self):
        """Waits until all events have happened."""
        self.torch.cuda.synchronize()

    def time(self, stamp):
        """In ns of the monotonic clock; events tell ms as a float."""
        return self.zero_ns + int(self.zero.elapsed_time(stamp) * 1e6)


class LayerWindow:
    """Traced step, timed by layer: pairs of events around each leaf and each top-level module.

    The backward pass of a call runs from the gradient of its output to the last gradient of its
    inputs and parameters.
    """

    method = LAYERS

    def __init__(self, torch, layers, roots):
        self.torch = torch
        self.layers = layers
        self.roots = roots
        self.calls = []  # [path, class, leaf, phase, begin, end]
        self.stack = []
        self.running = {}  # module's id: its backward calls that have begun
        self.handles = []

    def start(self):
        """Hooks into the modules of all models."""
        self.clock = GpuClock(self.torch) if computes_on_gpu(self.torch) else CpuClock()
        for root in list(self.roots):
            self.layers.path(root)
            top = set(root.children())
            for module in root.modules():
                leaf = not any(True for _ in module.children())
                if leaf or module in top:
                    self.watch(module, leaf)

    def watch(self, module, leaf):
        """Times the calls of one module."""
        path, kind = self.layers.path(module), type(module).__name__
        running = self.running.setdefault(id(module), [])

        def begins(module, inputs):
            ends = [path, kind, leaf, "backward", None, None]
            for tensor in tensors_of(inputs):
                if tensor.requires_grad:
                    self.handles.append(tensor.register_hook(lambda _: self.ends(ends)))
            call = [path, kind, leaf, "forward", self.clock.stamp(), None]
            self.stack.append((call, ends))

        def done(module, inputs, output):
            call, ends = self.stack.pop()
            call[5] = self.clock.stamp()
            self.calls.append(call)
            outputs = [t for t in tensors_of(output) if t.requires_grad]
            if not outputs:
                return
            self.calls.append(ends)

            def back(gradient):
                if ends[4] is None:
                    ends[4] = self.clock.stamp()
                    running.append(ends)

            for tensor in outputs:
                self.handles.append(tensor.register_hook(back))

        self.handles.append(hook_before(module, begins))
        self.handles.append(hook_after(module, done))
        for parameter in module.parameters():
            if parameter.requires_grad:
                self.handles.append(
                    parameter.register_hook(lambda _: running and self.ends(running[-1]))
                )

    def ends(self, call):
        """A gradient of this call's backward pass is there; the last one ends it."""
        if call[4] is not None:
            call[5] = self.clock.stamp()

    def step_done(self):
        """All events have happened."""
        self.clock.settle()

    def finish(self):
        """Hooks out."""
        for handle in self.handles:
            handle.remove()
        self.handles = []

    cancel = finish

    def write(self, folder, number):
        """Writes the rows; returns the file's name."""
        time_of = self.clock.time
        rows = [
            [path, kind, leaf, phase, time_of(begin), time_of(end)]
            for path, kind, leaf, phase, begin, end in self.calls
            if begin is not None and end is not None
        ]
        name = "window-%04d.layers.json" % number
        write_json(os.path.join(folder, name), {"processor": self.clock.processor, "rows": rows})
        return name

    def refused(self, path):
        """It needs no privilege."""
        return False


def tensors_of(value):
    """The tensors in what a module takes or gives."""
    if hasattr(value, "register_hook"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_of(part)]
    return []


def profiling(torch):
    """True if a profiler runs already; releases of torch tell it in different places."""
    profiler = torch.autograd.profiler
    if hasattr(profiler, "_is_profiler_enabled"):
        return bool(profiler._is_profiler_enabled)
    ask = getattr(torch.autograd, "_profiler_enabled", None)
    return bool(ask is not None and ask())


class BoardTracer:
    """The board's torch as `schema.tracer.Tracer` and the engine that gives it; rows are lines of JSON.

    Args:
        folder: Of the recording.
        by_layer: Whether layers are timed, in place of traces.
        index: Tells the number of the step.
        note: Told of what the reader must know.
    """

    def __init__(self, folder, by_layer, index, note):
        self.folder = folder
        self.by_layer = by_layer
        self.index = index
        self.note = note
        self.layers = Layers()
        self.roots = weakref.WeakSet()
        self.window = None

    def tracer(self, code):
        """As `Engine.tracer`."""
        return self

    def foreign_profiler(self):
        """As `Tracer.foreign_profiler`."""
        return profiling(sys.modules["torch"])

    def learn(self, model, alone=False):
        """As `Tracer.learn`; its layers may be timed."""
        self.roots.add(model)
        self.layers.path(model)

    def mark(self):
        """As `Tracer.mark`; the trace has marks at its ends only."""
        return time.perf_counter_ns()

    def start(self):
        """As `Tracer.start`."""
        torch = sys.modules["torch"]
        if self.by_layer:
            self.window = LayerWindow(torch, self.layers, self.roots)
        else:
            self.window = ProfilerWindow(torch, self.layers, self.index())
        self.window.start()

    def step_done(self):
        """The step's work on a GPU is waited for."""
        self.window.step_done()

    def finish(self):
        """As `Tracer.finish`."""
        self.window.finish()

    def moved(self):
        """As `Tracer.moved`: no mark lies within an operation."""
        return {}

    def cancel(self):
        """As `Tracer.cancel`; one that cannot be ended is noted."""
        window, self.window = self.window, None
        try:
            if window is not None:
                window.cancel()
        except Exception as error:  # whatever the board's torch raises
            self.note("the tracer could not be ended (%s)" % type(error).__name__)

    def rows(self, step, window, phases):
        """As `Tracer.rows`: has the trace written, and looks at the first one."""
        traced, self.window = self.window, None
        line = {"window": window, "step": step, "method": traced.method, "phases": phases}
        folder = os.path.join(self.folder, TRACES)
        line["file"] = traced.write(folder, window)
        if window == 0 and traced.refused(os.path.join(folder, line["file"])):
            self.by_layer = True
            line["dropped"] = "it lacks what the GPU did"
            self.note(
                "kernel times need a privilege that is not there (CUPTI): layers are timed by events "
                "instead, forward and backward; what a layer's kernels did is not told apart"
            )
        return Listed(json.dumps(line).encode() + b"\n", (), float("nan"))


Listed = collections.namedtuple("Listed", "rows notes device_cost_ns")


class BoardWindows(Windows):
    """Windows on a board, whose disk may be small and whose GPU works on after a step.

    Args:
        tracer: The tracer, once torch is loaded.
        mode: As `Windows` takes it.
        warmup: As `Windows` takes it.
        marks: As `Windows` takes them.
        listed: Descriptor of the list of windows.
        note: As `Windows` takes it.
    """

    def __init__(self, tracer, mode, warmup, marks, listed, note):
        self._board = tracer
        engine = lambda: tracer if "torch" in sys.modules else None  # noqa: E731
        super().__init__(mode, warmup, marks, listed, note, engine)

    def open(self):
        """As `Windows.open`; none where the disk is nearly full."""
        disk = os.statvfs(self._board.folder)
        if disk.f_bavail * disk.f_frsize < LEAST_FREE:
            self.stop("no further operations: the disk is nearly full")
            return False
        return super().open()

    def step_done(self):
        """Waits for the GPU, whose work is a part of the traced step."""
        self._guarded(self._board.step_done)


def write_json(path, document):
    """Replaces a JSON file as a whole, in room that was reserved for it if there is any."""
    data = json.dumps(document, indent=1).encode()
    fd = os.open(path + ".tmp", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        done = 0
        while done < len(data):
            done += os.write(fd, data[done:])
        os.ftruncate(fd, len(data))
        os.fsync(fd)
        os.rename(path + ".tmp", path)
    except OSError:
        os.unlink(path + ".tmp")
        raise
    finally:
        os.close(fd)


def reserve(path):
    """Room for writing a JSON file once more, with some more in it, on a disk that is full by then."""
    fd = os.open(path + ".tmp", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(fd, 0, os.path.getsize(path) + RESERVED)
    finally:
        os.close(fd)
