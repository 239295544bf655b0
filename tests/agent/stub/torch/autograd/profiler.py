import json
import os
import threading
import time
from pathlib import Path

AHEAD_NS = 5 * 10**18 // 10**3  # the trace's clock is so far ahead of the monotonic one
RUNNING = []
_is_profiler_enabled = False


def now():
    return int(time.monotonic() * 1e9) + AHEAD_NS


class Interval:
    def __init__(self, name, category):
        self.name, self.category = name, category

    def __enter__(self):
        self.start = now()
        return self

    def __exit__(self, *_):
        for one in RUNNING:
            one.add(self.name, self.category, self.start, now())


def record_function(name):
    return Interval(name, "user_annotation")


def operation(name):
    return Interval("aten::" + name.lower(), "cpu_op")


class profile:
    def __init__(self, use_cuda=False, record_shapes=False):
        self.use_cuda = use_cuda
        self.events = []
        self.number = 0

    def add(self, name, category, start, end):
        self.number += 1
        args = {"External id": self.number}
        thread = threading.get_ident() % 100000
        self.events.append(
            {
                "ph": "X", "cat": category, "name": name, "pid": os.getpid(), "tid": thread,
                "ts": start / 1000, "dur": (end - start) / 1000, "args": args,
            }
        )  # fmt: skip
        if self.use_cuda and category == "cpu_op" and not os.environ.get("STUB_REFUSED"):
            launch = dict(self.events[-1], cat="cuda_runtime", name="cudaLaunchKernel", dur=0.5)
            launch["args"] = {"correlation": self.number, "External id": self.number}
            self.events.append(launch)
            kernel = dict(launch, cat="kernel", name="kernel_of_" + name, pid=0, tid=7, dur=100.0)
            kernel["args"] = dict(launch["args"], device=0, stream=7)
            self.events.append(kernel)

    def __enter__(self):
        RUNNING.append(self)
        return self

    def __exit__(self, *_):
        RUNNING.remove(self)

    def export_chrome_trace(self, path):
        if os.environ.get("STUB_OLD"):  # as torch wrote it before Kineto: a list, no categories
            events = [
                {key: value for key, value in event.items() if key != "cat"}
                for event in self.events
            ]
            Path(path).write_text(
                json.dumps([dict(e, pid="CPU functions", args={}) for e in events])
            )
            return
        Path(path).write_text(json.dumps({"schemaVersion": 1, "traceEvents": self.events}))
