"""Records a training on a board whose Python is old, or where nothing may be installed: one file, standard library, Python 3.6 and later.

    python3 wattstep_agent.py look > look.json             what sensors the board has: take it to
                                                           your machine, for `wattstep agent --look`
    python3 wattstep_agent.py run [OPTIONS] SCRIPT ARGS... record a script of your own, unchanged

    import wattstep_agent                                  or mark the steps by yourself
    with wattstep_agent.Recorder("out") as recorder:
        for inputs, targets in loader:
            with recorder.step(samples=len(inputs)):
                ...

It samples in a child process, marks steps, and lets the board's own torch export a trace of a step
now and then. Everything goes to one folder, which `wattstep agent --join FOLDER` turns into a run.
Rows have a fixed width and are in the kernel's hands at once (marks) or within half a second
(samples): what a kill, a full disk or Ctrl-C leaves behind can be joined as well.
"""

import atexit
import base64
import collections
import errno
import glob
import importlib.util
import json
import math
import mmap
import os
import platform
import random
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import traceback
import types
import weakref

# `wattstep agent` puts these in: the sources of the sampler and of the canary, and what is to be
# read (as JSON).
CHILD = ""
CANARY = ""
PLAN = ""

AGENT = "agent.json"
WINDOWS = "windows.jsonl"
TRACES = "traces"
NAN = float("nan")
MARK = struct.Struct("<qqdHHI")  # t_ns, CPU time in ns, value, kind, code, step
STEP_START, STEP_END, PHASE = 1, 2, 3
WINDOW_START, WINDOW_END, REST_START, REST_END = 6, 7, 8, 9
PEAK, RESIDENT, SAMPLES = 11, 12, 14
CHUNK = 256 * 1024  # bytes of marks that are mapped at a time
CLOCK, LAYER, STEP = "wattstep.clock#", "wattstep.layer:", "ProfilerStep#"
CLOCK_MARKS = 4  # at either end of a window; each bounds the one before it
WANTED = 10  # windows that the operations of a run rest on
STARTUP_BUDGET, BUDGET = 0.25, 0.01  # of the training time: until there are as many, and afterwards
LEAST_CLEAN = 3  # clean steps between two windows; the first of them settles
SEED = 9  # of the gaps between windows, as in the recorder
ENOUGH, SPACING_NS = 60, 60 * 10**9  # after so many windows, one a minute
CANARY_S, CANARY_SHARE = 0.1, 0.01  # before a script; after it, no more of its time, or five passes
CHECK_NS = 10**9  # how often it looks whether the sampler lives
MOST_RESTARTS = 10  # of a sampler that was killed
ENDED = "it ended with "
START_S = STOP_S = 30.0
LEAST_FREE = 64 * 2**20  # bytes on the disk below which nothing is traced any more
RESERVED = 64 * 1024  # bytes for what the description says in the end beyond its first words
DISCOVERY_STEPS = 3  # during these the outermost modules are looked for

if hasattr(time, "monotonic_ns"):
    monotonic_ns = time.monotonic_ns
    process_ns = time.process_time_ns
    wall_ns = time.time_ns
else:  # Python 3.6

    def monotonic_ns():
        """Nanoseconds of the monotonic clock."""
        return int(time.monotonic() * 1e9)

    def process_ns():
        """CPU time of this process in nanoseconds."""
        return int(time.process_time() * 1e9)

    def wall_ns():
        """Nanoseconds since 1970."""
        return int(time.time() * 1e9)


class AgentError(Exception):
    """Something that the user can mend, in one line."""


# --- looking: what the host needs to know of the board to plan what is read -----------------------

_CPU = "sys/devices/system/cpu"
_DEBUG = "sys/kernel/debug"
# Small text files that wattstep's sensors open while they look; folders follow from their files.
PLACES = (
    "proc/stat",
    "proc/meminfo",
    "proc/cpuinfo",
    "proc/pressure/*",
    "proc/device-tree/model",
    "proc/device-tree/compatible",
    "etc/os-release",
    "etc/nv_tegra_release",
    "etc/nvpmodel.conf",
    "var/lib/nvpmodel/status",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/dmi/id/product_name",
    "sys/hypervisor/type",
    "sys/class/thermal/thermal_zone*/type",
    "sys/class/thermal/thermal_zone*/temp",
    "sys/class/thermal/thermal_zone*/trip_point_*",
    "sys/class/thermal/cooling_device*/type",
    "sys/class/thermal/cooling_device*/*_state",
    "sys/class/hwmon/hwmon*/*",
    "sys/class/hwmon/hwmon*/device/name",
    "sys/class/hwmon/hwmon*/of_node/*",
    "sys/bus/i2c/drivers/ina3221*/*/name",
    "sys/bus/i2c/drivers/ina3221*/*/hwmon/hwmon*/*",
    "sys/bus/i2c/drivers/ina3221*/*/iio*/*",
    "sys/bus/iio/devices/iio:device*/*",
    "sys/devices/*.i2c/i2c-*/*/iio*/*",
    "sys/class/power_supply/*/*",
    "sys/class/powercap/intel-rapl*:*/*",
    "sys/class/powercap/intel-rapl*:*/intel-rapl*:*/*",
    "sys/class/devfreq/*/*",
    "sys/class/devfreq/*/device/load",
    "sys/class/devfreq/*/device/of_node/name",
    "sys/devices/*gpu*/load",
    "sys/devices/*gpu*/devfreq/*/*",
    "sys/devices/*.g?1?b/load",
    "sys/devices/*.g?1?b/devfreq/*/*",
    "sys/devices/platform/*gpu*/load",
    "sys/devices/platform/*gpu*/devfreq/*/*",
    "sys/devices/platform/bus@0/*gpu*/load",
    "sys/devices/platform/bus@0/*gpu*/devfreq/*/*",
    "sys/devices/platform/soc*/soc*firmware/get_throttled",
    "sys/devices/pwm-fan/*",
    "sys/kernel/actmon_avg_activity/mc_all",
    _DEBUG + "/clk/override.emc/clk_rate",
    _DEBUG + "/tegra_bwmgr/emc_max_rate",
    _DEBUG + "/clk/emc/clk_rate",
    _DEBUG + "/clk/emc/clk_max_rate",
    _DEBUG + "/bpmp/debug/clk/emc/rate",
    _DEBUG + "/bpmp/debug/clk/emc/max_rate",
    _DEBUG + "/cactmon/mc_all",
    _DEBUG + "/bpmp/debug/actmon/mc_all_avg_activity",
    _CPU + "/cpu[0-9]*/cpu_capacity",
    _CPU + "/cpu[0-9]*/cpufreq/*",
    _CPU + "/cpu[0-9]*/cpuidle/state*/*",
    _CPU + "/cpu[0-9]*/thermal_throttle/*",
    _CPU + "/cpu[0-9]*/topology/*",
    _CPU + "/cpufreq/policy*/*",
)
PROCESS = ("statm", "status", "smaps_rollup", "task/{pid}/schedstat", "task/{pid}/children")
# Of these only whether they are there.
COMMANDS = (
    "usr/bin/tegrastats",
    "usr/sbin/tegrastats",
    "usr/local/bin/tegrastats",
    "usr/bin/vcgencmd",
    "bin/vcgencmd",
    "opt/vc/bin/vcgencmd",
    "usr/local/bin/vcgencmd",
)
LOOK_FORMAT = "wattstep look 1"
MOST_FILES, MOST_BYTES, MOST_SECONDS = 20000, 64 * 1024, 60.0
FILE_SECONDS = 2.0  # a driver that does not answer
_WILD = re.compile(r"[*?\[]")
# Nobody needs to know which board it was: "Serial : 1421...", POWER_SUPPLY_SERIAL_NUMBER=...
_SERIAL = re.compile(rb"(?im)^([^\n:=]*serial[^\n:=]*[:=]).*$")


class Look:
    """Copies the small files that sensors look at: contents, links, and why one cannot be read.

    Serial numbers stay on the board.

    Args:
        root: Before every path: "/" on a board.
        pid: The process whose own files stand for the training's.
    """

    def __init__(self, root, pid):
        self.root = root.rstrip("/")
        self.pid = pid
        self.files = {}
        self.links = {}
        self.unreadable = {}
        self.left_out = {}
        self.end = time.monotonic() + MOST_SECONDS

    def document(self):
        """Everything, JSON-ready."""
        for place in PLACES:
            self.take(place)
        for name in PROCESS:
            self.take("proc/%d/%s" % (self.pid, name.format(pid=self.pid)))
        return {
            "format": LOOK_FORMAT,
            "pid": self.pid,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "release": platform.release(),
            "page_size": os.sysconf("SC_PAGE_SIZE"),
            "clock_ticks": os.sysconf("SC_CLK_TCK"),
            "files": self.files,
            "links": self.links,
            "unreadable": self.unreadable,
            "left_out": self.left_out,
            "commands": [name for name in COMMANDS if os.path.exists(self.root + "/" + name)],
        }

    def take(self, place):
        """All files of one place; one without a pattern is tried even where its folder is closed."""
        paths = [self.root + "/" + place]
        if _WILD.search(place):
            paths = sorted(glob.glob(paths[0]))
        for path in paths:
            if len(self.files) >= MOST_FILES:
                self.miss("more than %d files" % MOST_FILES)
            elif time.monotonic() > self.end:
                self.miss("after %d s" % MOST_SECONDS)
            else:
                self.copy(path[len(self.root) :])

    def miss(self, why):
        """Counts what was left out."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    def copy(self, path):
        """One file, under its own name, with the links that lead to it."""
        own = self.canonical(path)
        if own in self.files or own in self.unreadable:
            return
        if "serial" in os.path.basename(path).lower():
            self.miss("a serial number")
            return
        try:
            mode = os.stat(self.root + own).st_mode
            if not stat.S_ISREG(mode) or not mode & 0o444:
                return  # a folder, or a file that is only written to
            data = self.read(self.root + own)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.unreadable[own] = error.errno or errno.EIO
            return
        if len(data) > MOST_BYTES:
            self.miss("longer than %d bytes" % MOST_BYTES)
            return
        self.files[own] = base64.b64encode(_SERIAL.sub(rb"\1", data)).decode("ascii")

    def read(self, path):
        """What a file holds, at most a byte more than is taken, within a bounded time."""

        def hangs(number, frame):
            raise OSError(errno.ETIMEDOUT, "it does not answer", path)

        before = signal.signal(signal.SIGALRM, hangs)
        signal.setitimer(signal.ITIMER_REAL, FILE_SECONDS)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                parts = [os.read(fd, 65536)]
                while parts[-1] and sum(map(len, parts)) <= MOST_BYTES:
                    parts.append(os.read(fd, 65536))
                return b"".join(parts)
            finally:
                os.close(fd)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def canonical(self, path):
        """The path without links, which are taken down on the way."""
        at = ""
        for part in path.strip("/").split("/"):
            at += "/" + part
            if os.path.islink(self.root + at):
                target = os.path.realpath(self.root + at)
                inside = os.path.realpath(self.root or "/").rstrip("/")
                if not target.startswith(inside + "/"):
                    return path
                self.links[at] = at = target[len(inside) :]
        return at


# --- the journal of marks ------------------------------------------------------------------------


class Marks:
    """Appends marks to a file that is mapped, so that a killed training loses none.

    Blocks are reserved first: a full disk is an `OSError` here, no bus error in the training.
    """

    def __init__(self, folder):
        self.fd = os.open(
            os.path.join(folder, "marks.bin"), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644
        )
        self.names = os.open(
            os.path.join(folder, "names.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        self.codes = {}
        self.base = self.offset = 0
        self.map = self.next_chunk(0)

    def next_chunk(self, base):
        """Reserves and maps the chunk that begins here."""
        os.posix_fallocate(self.fd, base, CHUNK)
        return mmap.mmap(self.fd, CHUNK, offset=base)

    def code(self, table, text):
        """The number that stands for a name; written down on its first use."""
        code = self.codes.get((table, text))
        if code is None:
            code = len(self.codes)
            append_line(self.names, [table, code, text])
            self.codes[table, text] = code
        return code

    def add(self, kind, code=0, value=0.0, index=0, cpu_ns=0, t_ns=0):
        """Appends one mark, stamped now unless `t_ns` is given."""
        if self.offset == CHUNK:
            fresh = self.next_chunk(self.base + CHUNK)
            self.map.close()
            self.map, self.base, self.offset = fresh, self.base + CHUNK, 0
        MARK.pack_into(
            self.map, self.offset, t_ns or monotonic_ns(), cpu_ns, value, kind, code, index
        )
        self.offset += MARK.size

    def close(self):
        """Cuts the reserved rest off and closes."""
        self.map.close()
        os.ftruncate(self.fd, self.base + self.offset)
        os.close(self.fd)
        os.close(self.names)


def append_line(fd, document):
    """Appends one JSON line as a whole or, on a full disk, not at all."""
    data = json.dumps(document).encode() + b"\n"
    before = os.fstat(fd).st_size
    done = -1
    try:
        done = os.write(fd, data)
    finally:
        if done != len(data):
            os.ftruncate(fd, before)
    if done != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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


def own_status(key):
    """A size from this process's own status, in bytes."""
    with open("/proc/self/status", "rb") as file:
        data = file.read()
    at = data.index(key + b":")
    return float(data[at + len(key) + 1 : at + 40].split(None, 1)[0]) * 1024


# --- the sampler -----------------------------------------------------------------------------------


class Sampling:
    """The child process that samples, in a session of its own.

    Args:
        plan: As `wattstep agent` wrote it.
        folder: Of the journals.
        period_s: Of the ticks.
    """

    def __init__(self, plan, folder, period_s):
        self.folder = folder
        self.period_s = period_s
        self.plan = plan
        self.scheduling = ""
        self.process = self.channel = None

    def every(self, number):
        """On which ticks the read with this number falls."""
        least = self.plan["entries"][number]["least_period_s"]
        return max(1, int(math.ceil(least / self.period_s - 1e-9)))

    def start(self):
        """Starts the child and waits for its first samples."""
        ours, theirs = socket.socketpair()
        self.channel = ours
        # Only comments of it are not ASCII, which is all that the C locale of an ssh session takes.
        source = CHILD.encode("ascii", "backslashreplace").decode("ascii")
        try:
            with open(os.devnull, "wb") as nowhere:
                self.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", source],
                    stdin=theirs.fileno(),
                    stdout=nowhere,
                    stderr=nowhere,
                    start_new_session=True,
                )
        except OSError as error:
            raise AgentError("the sampler cannot be started: %s" % error)
        finally:
            theirs.close()
        self.scheduling = self.grant(self.process.pid)
        try:
            ours.sendall(json.dumps(self.document()).encode() + b"\n")
            ours.settimeout(START_S)
            said = ours.recv(4096).decode()
        except OSError as error:
            self.stop()
            raise AgentError("the sampler does not answer: %s" % error)
        ours.setblocking(False)
        if not said.startswith("sampling"):
            self.stop()
            raise AgentError("the sampler ended at once: %s" % (said.strip() or "no reason given"))

    def document(self):
        """The plan as the child takes it, for this process."""
        pid = os.getpid()
        entries = []
        for number, planned in enumerate(self.plan["entries"]):
            entry = {key: value for key, value in planned.items() if key != "least_period_s"}
            entry["path"] = entry["path"].replace("{pid}", str(pid))
            entry["every"] = self.every(number)
            entry["excluded"] = [self.process.pid]
            entries.append(entry)
        return {
            "folder": self.folder,
            "period_ns": int(round(self.period_s * 1e9)),
            "parent": pid,
            "seed": random.SystemRandom().getrandbits(32),
            "dither": self.plan["dither"],
            "reads": entries,
        }

    @staticmethod
    def grant(pid):
        """FIFO priority where that is permitted; says what was granted."""
        try:
            policy = os.SCHED_FIFO | getattr(os, "SCHED_RESET_ON_FORK", 0)
            os.sched_setscheduler(pid, policy, os.sched_param(1))
        except (OSError, AttributeError):
            return "own session"
        return "FIFO priority, own session"

    def lost(self):
        """Why the child is gone, or None while it samples."""
        if self.process is None or self.process.poll() is None:
            return None
        try:
            said = self.channel.recv(4096).decode(errors="replace")
        except OSError:
            said = ""
        code = self.process.returncode
        ended = "signal %d" % -code if code < 0 else "exit code %d" % code
        return said.replace("sampling\n", "").replace("failed: ", "").strip() or ENDED + ended

    def stop(self):
        """Ends the child; its journals are written before it goes."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.channel is not None:
            self.channel.close()
        self.process = self.channel = None


# --- which steps are traced --------------------------------------------------------------------------


class Schedule:
    """Ten windows early, at a quarter of the time; then one hundredth of it; then one a minute.

    Args:
        mode: "auto", "none" or "layers".
        every: Steps between two windows on average instead, or None. Gaps are drawn at random: at
            equal ones, steps that take turns would show one of their kinds and no other.
        warmup: Steps before the first.
    """

    def __init__(self, mode, every, warmup):
        self.every = every
        self.windows = 0
        self.next_step = math.inf if mode == "none" else warmup + LEAST_CLEAN
        self.clean = collections.deque(maxlen=31)
        self.random = random.Random(SEED)

    @property
    def typical_ns(self):
        """Median of the last clean steps; 0 before there was one."""
        known = sorted(self.clean)
        half = len(known) // 2
        return (known[half] + known[~half]) / 2 if known else 0.0

    def after_window(self, index, window_ns):
        """Sets the next window, after one that took `window_ns` altogether ended at step `index`."""
        self.windows += 1
        if self.every is not None:
            self.next_step = index + 1 + self.drawn(self.every, 1)
            return
        typical = max(self.typical_ns, 1.0)
        spacing = max(window_ns - typical, 0.0)
        spacing /= STARTUP_BUDGET if self.windows < WANTED else BUDGET
        least = LEAST_CLEAN
        if self.windows >= ENOUGH:
            spacing = max(spacing, SPACING_NS)
            least = int(math.ceil(spacing / typical))
        gap = max(least, int(math.ceil(spacing / typical)))
        self.next_step = index + 1 + self.drawn(gap, least)

    def drawn(self, gap, least):
        """From half to one and a half times the gap, alike probable, but never less than `least`."""
        reach = max(gap // 2, 1)
        low, high = max(gap - reach, least), gap + reach
        return low + int(self.random.random() * (high - low + 1))


# --- tracing one step with the board's own torch ----------------------------------------------------


def computes_on_gpu(torch):
    """Whether this process has put anything on a GPU."""
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
        """Hooks in; False where this torch has no hooks for all modules."""
        hooks = torch.nn.modules.module
        if not hasattr(hooks, "register_module_forward_pre_hook"):
            return False
        record = torch.autograd.profiler.record_function

        def enter(module, inputs):
            scope = record(LAYER + self.path(module))
            scope.__enter__()
            self.open.append(scope)

        def leave(module, inputs, output):
            if self.open:
                self.open.pop().__exit__(None, None, None)

        self.handles = [
            hooks.register_module_forward_pre_hook(enter),
            hooks.register_module_forward_hook(leave),
        ]
        return True

    def end(self):
        """Hooks out, and closes what an exception left open."""
        for handle in self.handles:
            handle.remove()
        self.handles = []
        while self.open:
            self.open.pop().__exit__(None, None, None)


class ProfilerWindow:
    """One step under torch's own profiler, which exports its trace.

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
        self.scope = torch.autograd.profiler.record_function(STEP + str(self.index))
        self.scope.__enter__()

    def clocks(self):
        """Marks of known time."""
        record = self.torch.autograd.profiler.record_function
        for _ in range(CLOCK_MARKS):
            with record(CLOCK + str(monotonic_ns())):
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

    def cancel(self):
        """Ends it and forgets it."""
        self.finish()

    def write(self, folder, number):
        """Has torch write its trace; returns the file's name."""
        name = "window-%04d.json" % number
        self.profile.export_chrome_trace(os.path.join(folder, name))
        return name

    def refused(self, path):
        """Whether a GPU was at work and the trace holds none of it: CUPTI lacks its privilege."""
        if self.method != "kineto" or not computes_on_gpu(self.torch):
            return False
        return not holds(path, re.compile(rb'"cat"\s*:\s*"[Kk]ernel"'))


def holds(path, pattern):
    """Whether a file holds a pattern of less than 256 bytes."""
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
        return monotonic_ns()

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
        before = monotonic_ns()
        self.zero = self.stamp()
        self.zero.synchronize()
        self.zero_ns = (before + monotonic_ns()) // 2

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
    """One step, timed by layer: pairs of events around each leaf and each top-level module.

    The backward pass of a call runs from the gradient of its output to the last gradient of its
    inputs and parameters.
    """

    method = "layers"

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

        self.handles.append(module.register_forward_pre_hook(begins))
        self.handles.append(module.register_forward_hook(done))
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


# --- the recorder -------------------------------------------------------------------------------------


class Recorder:
    """Records a training into a folder.

    Args:
        path: A new folder.
        interval: The sampler's period: seconds, or "10ms".
        trace: "auto" (a step now and then), "none", or "layers" (timing by layer, no profiler).
        every: Clean steps between traced ones, instead of what "auto" chooses.
        warmup: First steps that do not count.
        title: What the training is called.
    """

    def __init__(self, path, interval=0.01, trace="auto", every=None, warmup=3, title="training"):
        if not PLAN or not CHILD:
            raise AgentError(
                "this file does not know what to read: run `python3 wattstep_agent.py look > look.json` "
                "here, then `wattstep agent --look look.json -o wattstep_agent.py` on your machine"
            )
        if trace not in ("auto", "none", "layers"):
            raise AgentError("--trace %r is not one of auto, none, layers" % trace)
        if every is not None and every < 1:
            raise AgentError("--every %r: at least one clean step between traced ones" % every)
        if warmup < 0:
            raise AgentError("--warmup %r: it cannot be negative" % warmup)
        self.path = os.path.abspath(path)
        self.plan = json.loads(PLAN)
        self.period_s = seconds(interval)
        self.mode = trace if every is None or trace != "auto" else "every:%d" % every
        self.warmup = warmup
        self.title = title
        self.schedule = Schedule(trace, every, warmup)
        self.index = 0
        self.state = "new"
        self.notes = []
        self.restarts = 0  # of the sampler
        self.lost = {}
        self.canary = {}
        self.layers = Layers()
        self.roots = weakref.WeakSet()
        self.window = None
        self.opening = False
        self.method = "layers" if trace == "layers" else "profiler"
        self.started_ns = self.check_at = self.window_begin = 0
        self.phases = []
        self.resting = False
        self.contiguous = False
        self.context = _Step(self)

    # --- beginning and end

    def start(self):
        """Makes the folder and starts the sampler."""
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # its words would land in the script's
        journal = os.path.join(self.path, "journal")
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            os.mkdir(self.path)
        except OSError as error:
            if error.errno == errno.EEXIST:
                raise AgentError("%s is there already: choose another folder" % self.path)
            raise AgentError("cannot record into %s: %s" % (self.path, error.strerror))
        try:
            os.mkdir(journal)
            os.mkdir(os.path.join(self.path, TRACES))
            self.clocks = [wall_clock()]
            self.created = time.strftime("%Y-%m-%dT%H:%M:%S%z")
            self.pid = os.getpid()
            self.sampling = Sampling(self.plan, journal, self.period_s)
            self.marks = Marks(journal)
            self.listed = os.open(
                os.path.join(self.path, WINDOWS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
            )
            self.sampling.start()
            self.state = "recording"
            self.describe()
            reserve(os.path.join(self.path, AGENT))
        except OSError as error:
            raise AgentError("cannot record into %s: %s" % (self.path, error.strerror))
        self.reset_peak()
        atexit.register(self.close)
        return self

    def describe(self):
        """Writes what is known so far."""
        torch = sys.modules.get("torch")
        reads = [
            dict(read, every=self.sampling.every(number))
            for number, read in enumerate(self.plan["reads"])
        ]
        write_json(
            os.path.join(self.path, AGENT),
            {
                "agent": 1,
                "state": self.state,
                "created": self.created,
                "title": self.title,
                "python": platform.python_version(),
                "torch": None if torch is None else str(torch.__version__),
                "threads": None if torch is None else int(torch.get_num_threads()),
                "interval_s": self.period_s,
                "warmup": self.warmup,
                "trace": self.mode,
                "scheduling": self.sampling.scheduling,
                "clocks": self.clocks,
                "notes": self.notes,
                "lost": self.lost,
                "canary": self.canary,
                "device": self.plan["device"],
                "absent": self.plan["absent"],
                "reads": reads,
            },
        )

    def close(self):
        """Ends the recording; what was recorded lies in the folder."""
        if not self.active():
            return
        atexit.unregister(self.close)
        self.guarded(self.abandon_window)
        self.guarded(self.end_rest)
        self.guarded(lambda: self.marks.add(PEAK, 0, own_status(b"VmHWM")))
        reason = self.sampling.lost()
        if reason is not None:
            self.sampler_lost(reason)
        self.state = "closed"
        self.sampling.stop()
        self.marks.close()
        os.close(self.listed)
        self.clocks.append(wall_clock())
        try:
            self.describe()
        except OSError as error:
            say("the description could not be written again (%s)" % error.strerror)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        if error is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.note("the training ended with %s" % type(error).__name__)
        self.close()

    def active(self):
        """Whether it records, and in this process: a forked child's steps are not ours."""
        return self.state == "recording" and self.pid == os.getpid()

    def guarded(self, work):
        """Work that may meet a full disk: then recording ends, and the training goes on."""
        if not self.active() or "marks" in self.lost:
            return
        try:
            work()
        except OSError as error:
            self.lost["marks"] = monotonic_ns()
            self.stop_tracing(
                "recording ended early: %s" % (error.strerror or type(error).__name__)
            )

    def note(self, text):
        """Something that the reader of the run must know."""
        if text not in self.notes:
            self.notes.append(text)
            say(text)

    # --- steps

    def step(self, samples=None):
        """A context: one training step of so many samples (None: not known)."""
        self.context.samples = NAN if samples is None else samples
        self.context.loss = NAN
        return self.context

    def begin_step(self, samples=NAN):
        """A step begins."""
        self.guarded(lambda: self._begin_step(samples))

    def _begin_step(self, samples):
        self.end_rest()
        if self.index >= self.schedule.next_step:
            self.open_window()
        cpu_ns = process_ns()
        self.started_ns = now = monotonic_ns()
        self.marks.add(STEP_START, self.window is not None, samples, self.index, cpu_ns, now)

    def end_step(self, loss=NAN):
        """The step that began last is done."""
        self.guarded(lambda: self._end_step(loss))

    def _end_step(self, loss):
        if not self.started_ns:
            return
        window = self.window
        if window is not None:
            self.tracing(window.step_done)
        now, cpu_ns = monotonic_ns(), process_ns()
        if window is not None and self.window is not None:
            self.tracing(window.finish)
        self.marks.add(STEP_END, 0, loss, self.index, cpu_ns, now)
        self.index += 1
        if window is None and self.contiguous and self.index > self.warmup:
            self.schedule.clean.append(now - self.started_ns)
        self.contiguous = window is None
        self.started_ns = 0
        if self.window is not None:
            self.close_window()
        if now > self.check_at:
            self.check_at = now + CHECK_NS
            reason = None if "sampler" in self.lost else self.sampling.lost()
            if reason is not None:
                self.sampler_ended(reason)

    def sampler_ended(self, reason):
        """Starts the sampler again, a few times; one that told why it ended would end again."""
        self.restarts += 1
        if self.restarts > MOST_RESTARTS or not reason.startswith(ENDED):
            self.sampler_lost(reason)
            return
        self.sampling.stop()
        try:
            self.sampling.start()
        except AgentError as error:
            self.sampler_lost("%s; %s" % (reason, error))
            return
        self.note(
            "the sampler was lost (%s) and started again before step %d: "
            "its samples have a gap" % (reason, self.index)
        )

    def sampler_lost(self, reason):
        """Samples end here."""
        self.lost.setdefault("sampler", monotonic_ns())
        self.note("the sampler was lost: %s; no samples from then on" % reason)

    def abandon_step(self):
        """The step that began last did not come to its end: it is none."""
        self.guarded(self.abandon_window)
        self.started_ns = 0
        self.contiguous = False

    def split_step(self, name, since_ns, until_ns):
        """What ran from one time to another was no training: a rest; the step begins after it."""

        def split():
            self.abandon_window()
            code = self.marks.code("rest", name)
            self.marks.add(REST_START, code, t_ns=since_ns)
            self.marks.add(REST_END, code, t_ns=until_ns)
            self.marks.add(STEP_START, 0, NAN, self.index, process_ns(), until_ns)
            self.started_ns = until_ns
            self.contiguous = False

        self.guarded(split)

    def samples(self, count):
        """So many samples belong to the step that runs; adds up within a step."""
        self.guarded(lambda: self.marks.add(SAMPLES, 0, count))

    def phase(self, name):
        """The part of the step that begins here: "data", "forward", "backward", "optimizer"."""

        def mark():
            now = monotonic_ns()
            if self.window is not None:
                self.phases.append([now, name])
            self.marks.add(PHASE, self.marks.code("phase", name), t_ns=now)

        self.guarded(mark)

    def rest(self, name):
        """What runs from here until the next step is something else, e.g. "evaluation"."""

        def begin():
            if not self.resting:
                self.marks.add(REST_START, self.marks.code("rest", name))
                self.resting, self.contiguous = True, False

        self.guarded(begin)

    def end_rest(self):
        """What runs from here is no longer the rest that began last."""
        if self.resting:
            self.marks.add(REST_END)
            self.resting = False

    def watch_machine(self, when):
        """A small fixed piece of work, "before" the first step or "after" the last: a rest."""

        def work():
            self.rest("canary")
            self.marks.add(PEAK, 0, own_status(b"VmHWM"))
            names = {}
            exec(CANARY, names)
            seconds = CANARY_S
            if "before" in self.canary:
                passed_s = (monotonic_ns() - self.canary["before"]["at_ns"]) * 1e-9
                seconds = min(seconds, CANARY_SHARE * passed_s)
            try:
                found = names["work"](seconds, monotonic_ns)
            except (MemoryError, OSError):
                self.note("no canary %s the training: it got no memory" % when)
            else:
                kind = "python %d.%d" % sys.version_info[:2]
                self.canary.update({"version": 1, "kind": kind, when: found})
            self.end_rest()
            self.marks.add(PEAK, 2, own_status(b"VmHWM"))
            self.reset_peak()

        self.guarded(work)

    # --- windows

    def watch_model(self, model):
        """A model whose layers are named and timed."""
        self.roots.add(model)
        self.layers.path(model)

    def tracing(self, work):
        """A part of the tracing: an error of it ends the tracing, never the training."""
        try:
            return work()
        except OSError:
            raise
        except Exception as error:  # whatever the board's torch raises
            say("the tracer failed: %s" % error)  # it may name files: not for the run
            self.stop_tracing(
                "no further operations: the tracer failed (%s)" % type(error).__name__
            )
            return None

    def open_window(self):
        """Opens a window around the step that begins, where torch is there."""
        torch = sys.modules.get("torch")
        if torch is None:
            self.stop_tracing("no operations: torch was not loaded when the steps began")
            return
        if profiling(torch):
            self.stop_tracing("no further operations: the script runs a profiler of its own")
            return
        disk = os.statvfs(self.path)
        if disk.f_bavail * disk.f_frsize < LEAST_FREE:
            self.stop_tracing("no further operations: the disk is nearly full")
            return
        if self.method == "layers":
            window = LayerWindow(torch, self.layers, self.roots)
        else:
            window = ProfilerWindow(torch, self.layers, self.index)
        self.marks.add(PEAK, 0, own_status(b"VmHWM"))
        self.marks.add(RESIDENT, 0, own_status(b"VmRSS"))
        self.window_begin = monotonic_ns()
        self.marks.add(WINDOW_START, t_ns=self.window_begin)
        self.phases = []
        self.window, self.opening = window, True
        try:
            self.tracing(window.start)
        finally:
            self.opening = False

    def close_window(self):
        """Has the trace written, and looks at the first one."""
        number = self.schedule.windows
        line = {
            "window": number,
            "step": self.index - 1,
            "method": self.window.method,
            "phases": self.phases,
        }
        folder = os.path.join(self.path, TRACES)
        line["file"] = self.tracing(lambda: self.window.write(folder, number))
        if self.window is None:  # it failed
            return
        if number == 0 and self.tracing(
            lambda: self.window.refused(os.path.join(folder, line["file"]))
        ):
            self.method = "layers"
            line["dropped"] = "it lacks what the GPU did"
            self.note(
                "kernel times need a privilege that is not there (CUPTI): layers are timed by events "
                "instead, forward and backward; what a layer's kernels did is not told apart"
            )
        append_line(self.listed, line)
        self.end_window()
        self.schedule.after_window(self.index - 1, monotonic_ns() - self.window_begin)

    def abandon_window(self):
        """The step that is being traced, if any, turned out to be something else."""
        if self.window is not None:
            self.tracing(self.window.cancel)
            self.end_window()
            self.schedule.next_step = max(self.schedule.next_step, self.index + 1)

    def end_window(self):
        """What a window leaves behind is marked, and the peak begins anew."""
        if self.window is None:
            return
        self.window = None
        self.contiguous = False
        self.marks.add(WINDOW_END)
        self.marks.add(RESIDENT, 1, own_status(b"VmRSS"))
        self.marks.add(PEAK, 1, own_status(b"VmHWM"))
        self.reset_peak()

    def stop_tracing(self, reason):
        """No further windows; an open one is given up."""
        self.note(reason)
        self.schedule.next_step = math.inf
        if self.schedule.windows:  # else the note says all: there are none
            self.lost.setdefault("operations", monotonic_ns())
        window = self.window
        if window is not None:
            try:
                window.cancel()
            except Exception as error:  # a tracer that cannot even be ended
                say("the tracer could not be ended: %s" % error)
                self.note("the tracer could not be ended (%s)" % type(error).__name__)
            if "marks" in self.lost:
                self.window = None
            else:
                self.end_window()

    def reset_peak(self):
        """Sets the high-water mark of memory back to what is resident now (Linux 4.0 and later)."""
        try:
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
        except OSError:
            self.note(
                "the high-water mark of memory could not be reset: the peak covers the process's whole "
                "life, tracing included"
            )


class _Step:
    """The context that `Recorder.step` gives; set its `loss` to record one."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.samples = self.loss = NAN

    def __enter__(self):
        self.recorder.begin_step(self.samples)
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.recorder.end_step(self.loss)
        else:
            self.recorder.abandon_step()


def profiling(torch):
    """Whether a profiler runs already; releases of torch tell it in different places."""
    profiler = torch.autograd.profiler
    if hasattr(profiler, "_is_profiler_enabled"):
        return bool(profiler._is_profiler_enabled)
    ask = getattr(torch.autograd, "_profiler_enabled", None)
    return bool(ask is not None and ask())


def wall_clock():
    """Monotonic time, and how far the wall clock is ahead of it, in ns."""
    before = monotonic_ns()
    wall = wall_ns()
    now = (before + monotonic_ns()) // 2
    return [now, wall - now]


def seconds(interval):
    """A period in seconds, from 0.01 or "10ms"."""
    text = str(interval).strip()
    match = re.match(r"^([0-9]*\.?[0-9]+)\s*(ms|s|)$", text)
    period = float(match.group(1)) * (1e-3 if match.group(2) == "ms" else 1.0) if match else 0.0
    if period < 1e-3:
        raise AgentError("--interval %s: write e.g. 10ms; 1ms is the finest" % text)
    return period


def say(text):
    """A line for the user."""
    sys.stderr.write("wattstep: %s\n" % text)


# --- a script of the user's, unchanged -----------------------------------------------------------------


class Script:
    """Turns what torch does for a script into steps, phases and rests.

    A step ends when the first optimizer has made its step, and the next begins there. What ran
    without gradients before the first forward with gradients is a rest ("evaluation"); what came
    before the first step is one, too ("startup").
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.optimizer = None
        self.stepping = 0
        self.ended_ns = monotonic_ns()
        self.loaded_ns = 0
        self.rest = "startup"
        self.trained = self.evaluated = self.counted = False
        self.pending = 0
        self.depth = self.steps = 0
        self.roots = weakref.WeakSet()
        self.discovery = []
        recorder.begin_step()

    def hook(self):
        """Once torch is there."""
        torch = sys.modules["torch"]
        self.torch = torch
        self.hook_optimizers(torch.optim.Optimizer)
        self.hook_backward(torch.autograd)
        self.hook_loading(sys.modules.get("torch.utils.data.dataloader"))
        self.hook_modules(torch.nn)
        self.hook_profiler(torch.autograd.profiler)

    def hook_optimizers(self, base):
        """Wraps `step` of each optimizer's class when the first of it is made."""
        plain = base.__init__
        script = self

        def made(optimizer, *args, **kwargs):
            plain(optimizer, *args, **kwargs)
            for owner in type(optimizer).__mro__:
                if "step" in vars(owner):
                    script.wrap_step(owner)
                    break

        base.__init__ = copied(made, plain)

    def wrap_step(self, owner):
        """Wraps one class's `step`, once."""
        plain = owner.step
        if getattr(plain, "wattstep", False):
            return
        script = self

        def step(optimizer, *args, **kwargs):
            script.stepping += 1
            try:
                result = plain(optimizer, *args, **kwargs)
            finally:
                script.stepping -= 1
            if not script.stepping:  # else a subclass called its parent's
                script.stepped(optimizer)
            return result

        owner.step = copied(step, plain)
        owner.step.wattstep = True

    def hook_backward(self, autograd):
        """Phases of backward and what follows."""
        plain = autograd.backward
        recorder = self.recorder

        def backward(*args, **kwargs):
            recorder.phase("backward")
            result = plain(*args, **kwargs)
            recorder.phase("optimizer")
            return result

        autograd.backward = copied(backward, plain)

    def hook_loading(self, loader):
        """Batches of a DataLoader: when they are asked for, and how many samples they hold."""
        base = getattr(loader, "_BaseDataLoaderIter", None)
        if base is None:
            return
        plain = base.__next__
        script = self

        def following(iterator):
            script.data_begins()
            batch = plain(iterator)
            script.data_ends(samples_of(batch))
            return batch

        base.__next__ = copied(following, plain)

    def hook_modules(self, nn):
        """The modules that the script itself calls are looked for during the first steps."""
        hooks = nn.modules.module
        if not hasattr(hooks, "register_module_forward_pre_hook"):
            return
        self.discovery = [
            hooks.register_module_forward_pre_hook(self.module_begins),
            hooks.register_module_forward_hook(self.module_ends),
        ]

    def hook_profiler(self, profiler):
        """Two profilers cannot trace at once: the script's goes first."""
        plain = profiler.profile.__init__
        recorder = self.recorder

        def made(profile, *args, **kwargs):
            if not recorder.opening and recorder.active():
                recorder.stop_tracing(
                    "no further operations: the script uses a profiler of its own"
                )
            plain(profile, *args, **kwargs)

        profiler.profile.__init__ = copied(made, plain)

    def module_begins(self, module, inputs):
        """A module is called, perhaps by the script itself."""
        if self.depth == 0 and module not in self.roots and any(True for _ in module.parameters()):
            self.roots.add(module)
            self.recorder.watch_model(module)
            module.register_forward_pre_hook(lambda module, inputs: self.forward_begins())
            self.forward_begins()
        self.depth += 1

    def module_ends(self, module, inputs, output):
        """It has returned."""
        self.depth = max(self.depth - 1, 0)

    def data_begins(self):
        """The step's batch, or one that will be evaluated."""
        if self.evaluated and not self.trained:
            self.pending = 0  # that batch was evaluated, not trained on
        self.evaluated = False
        self.loaded_ns = monotonic_ns()
        self.recorder.phase("data")

    def data_ends(self, samples):
        """Its samples count for the step, unless it turns out to have been evaluated."""
        self.recorder.phase("forward")
        self.pending += samples or 0

    def forward_begins(self):
        """With gradients the step is training; without, and first, it was an evaluation."""
        gradients = self.torch.is_grad_enabled()
        if gradients and not self.trained:
            self.trained = True
            if self.rest is not None:
                begin = self.loaded_ns if not self.evaluated else 0
                begin = begin if begin > self.ended_ns else monotonic_ns()
                self.recorder.split_step(self.rest, self.ended_ns, begin)
                self.recorder.phase("forward")
                self.rest = None
        elif not gradients and not self.trained:
            self.evaluated = True
            if self.rest is None:
                self.rest = "evaluation"
                self.recorder.guarded(self.recorder.abandon_window)

    def stepped(self, optimizer):
        """The optimizer has made its step: if it is the first one, the step is done."""
        known = None if self.optimizer is None else self.optimizer()
        if known is None:
            self.optimizer = weakref.ref(optimizer)
        elif known is not optimizer:
            return
        recorder = self.recorder
        if self.rest is not None:  # no module was called: it trains in a way of its own
            recorder.split_step(self.rest, self.ended_ns, monotonic_ns())
            self.rest = None
        if self.pending:
            recorder.samples(self.pending)
            self.counted = True
        recorder.end_step()
        self.steps += 1
        self.depth = self.pending = 0
        if self.steps == DISCOVERY_STEPS:
            for handle in self.discovery:
                handle.remove()
        self.ended_ns = monotonic_ns()
        self.trained = self.evaluated = False
        recorder.begin_step()
        recorder.phase("loop")

    def close(self, interrupted):
        """The script has ended; where the user interrupted it, at once."""
        recorder = self.recorder
        if self.rest == "evaluation":
            recorder.split_step("evaluation", self.ended_ns, monotonic_ns())
        if recorder.index and not interrupted:
            recorder.abandon_step()
            recorder.watch_machine("after")
        if recorder.index == 0:
            recorder.note(
                "no training step was seen: no torch optimizer made a step in this process"
            )
        elif not self.counted:
            recorder.note("samples a step are not known: no torch DataLoader gave the batches")
        recorder.close()


def copied(function, plain):
    """The function, with the name and attributes of the one that it stands for."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        if hasattr(plain, name):
            setattr(function, name, getattr(plain, name))
    function.__dict__.update(getattr(plain, "__dict__", {}))
    function.__wrapped__ = plain
    return function


def samples_of(batch):
    """First dimension of the first tensor in a batch, however it is packed."""
    if hasattr(batch, "dim") and hasattr(batch, "shape"):
        return int(batch.shape[0]) if batch.dim() else None
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for part in batch:
            found = samples_of(part)
            if found is not None:
                return found
    return None


class AfterImport:
    """Calls a function once torch has been imported by somebody else."""

    def __init__(self, name, then):
        self.name = name
        self.then = then

    def find_spec(self, fullname, path=None, target=None):
        """Finds one module the ordinary way, and has its loader tell when it is done."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = TellingLoader(spec.loader, self.then)
        return spec


class TellingLoader:
    """Loads as the wrapped loader does, then tells."""

    def __init__(self, inner, then):
        self.inner = inner
        self.then = then

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def create_module(self, spec):
        """As the wrapped loader does."""
        return self.inner.create_module(spec)

    def exec_module(self, module):
        """As the wrapped loader does, which is then the module's own again."""
        module.__spec__.loader = module.__loader__ = self.inner
        self.inner.exec_module(module)
        self.then()


def run_script(file, arguments):
    """Runs a script as Python itself would; returns its exit code."""
    sys.path[0] = os.path.dirname(os.path.realpath(file))
    sys.argv = [file] + arguments
    module = types.ModuleType("__main__")
    module.__file__ = file
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    with open(file, "rb") as source:
        code = compile(source.read(), file, "exec")
    try:
        exec(code, module.__dict__)
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return ending.code or 0
        sys.stderr.write("%s\n" % (ending.code,))
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException:
        kind, error, trace = sys.exc_info()
        traceback.print_exception(kind, error, trace.tb_next)
        return 1
    return 0


def close_on_terminate(recorder):
    """Has SIGTERM close the recording before it ends the script, as it would have without us."""

    def terminate(number, frame):
        recorder.note("the script was told to end (SIGTERM)")
        recorder.close()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)


def run(settings, file, arguments):
    """Records a script; returns its exit code."""
    if not os.path.isfile(file):
        raise AgentError("%s: there is no such script" % file)
    name = os.path.splitext(os.path.basename(file))[0]
    out = settings.pop("out", None) or "%s-%s" % (name, time.strftime("%Y%m%d-%H%M%S"))
    recorder = Recorder(out, title=name, **settings).start()
    close_on_terminate(recorder)
    recorder.watch_machine("before")
    script = Script(recorder)
    sys.meta_path.insert(0, AfterImport("torch", script.hook))
    code = run_script(file, arguments)
    if code not in (0, 130):
        recorder.note("the script ended with exit code %d" % code)
    script.close(interrupted=code == 130)
    say(
        "recorded into %s; on your machine: wattstep agent --join %s -o RUN"
        % (out, os.path.basename(out))
    )
    return code


OPTIONS = {"--out": str, "--interval": str, "--trace": str, "--every": int, "--warmup": int}
USAGE = (
    "usage: wattstep_agent.py look | "
    "run [--out DIR] [--interval 10ms] [--trace auto|none|layers] [--every N] [--warmup N] SCRIPT ARGS..."
)


def parse(arguments):
    """Settings by name, the script and its own arguments."""
    settings = {}
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        name, equals, value = rest.pop(0).partition("=")
        if name not in OPTIONS or not (equals or rest):
            raise AgentError("%s is no option, or lacks its value; %s" % (name, USAGE))
        value = value if equals else rest.pop(0)
        try:
            settings[name[2:]] = OPTIONS[name](value)
        except ValueError:
            raise AgentError("%s %s: a whole number is needed" % (name, value))
    if not rest:
        raise AgentError("which script? " + USAGE)
    return settings, rest[0], rest[1:]


def main(arguments):
    """The command line; returns the exit code."""
    try:
        if arguments[:1] == ["look"]:
            root = arguments[2] if arguments[1:2] == ["--root"] and len(arguments) > 2 else "/"
            json.dump(Look(root, os.getpid()).document(), sys.stdout)
            sys.stdout.write("\n")
            return 0
        if arguments[:1] == ["run"]:
            return run(*parse(arguments[1:]))
        raise AgentError(USAGE)
    except AgentError as error:
        say(error)
        return 2


if __name__ == "__main__":
    # A script that imports this file shall find the one that runs it.
    sys.modules["wattstep_agent"] = sys.modules["__main__"]
    sys.exit(main(sys.argv[1:]))
