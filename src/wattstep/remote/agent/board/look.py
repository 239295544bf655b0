"""Facts of a board that the host needs to plan what is read there."""

import base64
import errno
import glob
import os
import platform
import re
import signal
import stat
import time

from wattstep.remote.agent.layout import LOOK_FORMAT, MOST_FILE_BYTES, MOST_FILES

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
MOST_SECONDS = 60.0
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
        for pattern in PLACES:
            self.take(pattern)
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

    def take(self, pattern):
        """All files of one place; one without a pattern is tried even where its folder is closed."""
        paths = [self.root + "/" + pattern]
        if _WILD.search(pattern):
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
        """Copies a file under its own name, with the links that lead to it."""
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
        if len(data) > MOST_FILE_BYTES:
            self.miss("longer than %d bytes" % MOST_FILE_BYTES)
            return
        self.files[own] = base64.b64encode(_SERIAL.sub(rb"\1", data)).decode("ascii")

    def read(self, path):
        """Content of a file, at most a byte more than is taken, within a bounded time."""

        def hangs(number, frame):
            raise OSError(errno.ETIMEDOUT, "it does not answer", path)

        before = signal.signal(signal.SIGALRM, hangs)
        signal.setitimer(signal.ITIMER_REAL, FILE_SECONDS)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                parts = [os.read(fd, 65536)]
                while parts[-1] and sum(map(len, parts)) <= MOST_FILE_BYTES:
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
