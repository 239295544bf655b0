"""The sampler's child: reads files on a dithered clock, parses integers, appends them to journals, and does nothing else.

One file, standard library only, Python 3.6 and later, so that it can be copied to a board alone.
It imports as little as it can (no json, re, typing, signal, socket: C modules instead) to stay
near the size of an empty interpreter. It takes its plan as one JSON-like literal over the socket
that is its standard input, with the descriptors of perf counters beside it, and ends on SIGTERM
or when its parent's id changes; the end of a pipe would not do, because the training's own
children may hold the other side open.

Journals hold little-endian int64 only, in rows of a fixed width, so that a cut file loses at most
its last row:

    samples-NN.bin   t_ns, errno (0: read), value, value, ...      one file a read of the plan
    ticks.bin        deadline_ns, lateness_ns, busy_ns, lost       one row a tick
    costs.bin        t_ns, read number, cost_ns, every             now and then, one row a read
"""

import _signal
import _socket
import _thread
import os
import struct
import sys
import time

MISSING = -(2**63)
FLUSH_NS = 800 * 1000 * 1000  # a sampler that is killed loses no more than that
PACKER_NS = 2 * 1000 * 1000 * 1000  # how often it is looked for something to pack
# So that it keeps little of what it gives back: 10 MB less at most.
PACKER_SETTINGS = {"MALLOC_TRIM_THRESHOLD_": "65536", "ARROW_DEFAULT_MEMORY_POOL": "system"}
SURVEY_NS = 100 * 1000 * 1000  # so often one read, each in its turn, is timed by itself
ATTEMPTS = 5  # at one read of a family of processes that changes meanwhile
SELDOM = 10  # of so many reads of perf counters one is made while nothing but the training works
OTHERS_NS = 1000 * 1000  # CPU time of what the training started, from which on it works
BUDGET = 0.005  # of one core, for any one read; a dearer one is read more seldom
WALKING = 0.001  # of one core, for a read for which the kernel walks pages: memory hardly moves
CHEAP_NS = 20 * 1000  # a read of microseconds is made at every tick whatever its share
PATIENCE = 10  # failures in a row before a read is tried only once a second
NAP_NS = 500 * 1000 * 1000  # the longest sleep at a stretch
LONG_NS = 10 * 1000 * 1000  # a read that takes so long has no place in the ticks
WALK_NS = 3 * 1000 * 1000 * 1000  # that a walk may go on at the end; later it hangs
LOOKS = 2  # naps after which a read that has not returned is said to hang
NEVER_LONGER_NS = 60 * 10**9  # the longest period that a dear read is stretched to
WALKS = (
    "family",
    "keyed",
)  # reads for which the kernel walks pages: they wait for nothing but a core
ETIME = 62  # the error of a read that hangs: "Timer expired"
EOWNERDEAD = 130  # that of a sampler that was killed and started again: "Owner died"

if hasattr(time, "monotonic_ns"):
    monotonic_ns = time.monotonic_ns
    process_ns = time.process_time_ns
else:  # Python 3.6

    def monotonic_ns():
        """Nanoseconds of the monotonic clock."""
        return int(time.monotonic() * 1e9)

    def process_ns():
        """CPU time of this process in nanoseconds."""
        return int(time.process_time() * 1e9)


def clock_ns(clock):
    """Nanoseconds of a clock of the kernel."""
    return int(time.clock_gettime(clock) * 1e9)


def thread_ns():
    """CPU time of this thread in nanoseconds."""
    return clock_ns(time.CLOCK_THREAD_CPUTIME_ID)


# --- parsers: bytes and arguments in, a list of integers out (MISSING where there is none) -------


def parse_number(data, arguments):
    """Parses one integer."""
    return (int(data),)


def parse_at_least(data, arguments):
    """Parses an integer; below the first argument it says nothing, or the second argument if there is one."""
    value = int(data)
    return (value if value >= arguments[0] else (arguments[1:] or (MISSING,))[0],)


def parse_within(data, arguments):
    """Parses an integer; below the first argument or above the second it says nothing."""
    value = int(data)
    return (value if arguments[0] <= value <= arguments[1] else MISSING,)


def parse_hex(data, arguments):
    """Parses a hexadecimal integer, of which each argument picks its bits."""
    value = int(data, 16)
    return [value & mask for mask in arguments]


def parse_fields(data, arguments):
    """The fields of the first line with these indices."""
    fields = data.split(b"\n", 1)[0].split()
    return [int(fields[index]) for index in arguments]


def parse_process_stat(data, arguments):
    """/proc/PID/stat: fields by their number in proc(5); the name, the second, may hold anything."""
    fields = data[data.rfind(b")") + 1 :].split(None, max(arguments) - 2)
    return [int(fields[number - 3]) for number in arguments]


def parse_keyed(data, arguments):
    """The second word of the lines that begin with these keys ("Key: 12 kB", "key 12")."""
    values = []
    for key in arguments:
        start = 0 if data.startswith(key) else data.find(b"\n" + key) + 1
        if start == 0 and not data.startswith(key):
            values.append(MISSING)
            continue
        line = data[start + len(key) : start + len(key) + 40].lstrip(b":").split(None, 1)
        values.append(int(line[0]))
    return values


def _ticks(fields):
    user, nice, system, idle, iowait, irq, softirq, steal = map(int, fields[1:9])
    return user + nice + system + irq + softirq, idle + iowait, steal


def parse_cores(data, arguments):
    """/proc/stat: busy, idle and steal ticks of each of these cores."""
    values = []
    start = 0
    for name in arguments:
        start = data.find(b"\n" + name + b" ", max(start - 1, 0)) + 1
        end = data.find(b"\n", start)
        if start == 0 or end < 0:  # a core that is offline has no line; a cut line may mislead
            values.extend((MISSING,) * 3)
        else:
            values.extend(_ticks(data[start:end].split(None, 9)))
    return values


def parse_stat_total(data, arguments):
    """/proc/stat: busy, idle and steal ticks over all cores."""
    return _ticks(data.split(b"\n", 1)[0].split())


def parse_pressure(data, arguments):
    """/proc/pressure/*: total stall time in microseconds of "some" or "full"."""
    values = []
    for key in arguments:
        start = data.find(key)
        start = data.find(b"total=", start) if start >= 0 else -1
        values.append(int(data[start + 6 :].split(None, 1)[0]) if start >= 0 else MISSING)
    return values


# name: (function, most bytes of the file that it needs)
PARSERS = {
    "number": (parse_number, 64),
    "at_least": (parse_at_least, 64),
    "within": (parse_within, 64),
    "hex": (parse_hex, 64),
    "fields": (parse_fields, 512),
    "process_stat": (parse_process_stat, 1024),
    "keyed": (parse_keyed, 65536),
    "status": (parse_keyed, 8192),
    "cores": (parse_cores, 65536),
    "stat_total": (parse_stat_total, 512),
    "pressure": (parse_pressure, 512),
}


def prepared_arguments(parser, arguments):
    """The arguments in the form the parser compares with: bytes for keys, "cpuN" for cores."""
    if parser == "cores":
        return tuple(b"cpu%d" % core for core in arguments)
    return tuple(a.encode() if isinstance(a, str) else a for a in arguments)


def parse(parser, data, arguments):
    """Values of the read of a plan for a file that holds `data`."""
    return list(PARSERS[parser][0](data, prepared_arguments(parser, arguments)))


# --- reads that are more than one file ---------------------------------------------------------


def _first_field(path):
    with open(path, "rb", 0) as file:
        return int(file.read(64).split(None, 1)[0])


def read_threads(path):
    """CPU time in ns of all threads below /proc/PID/task, by the scheduler's own account."""

    def read():
        total = 0
        for tid in os.listdir(path):
            try:
                total += _first_field(path + "/" + tid + "/schedstat")
            except OSError:  # the thread ended between the listing and the read
                pass
        return (total,)

    return read


def descendants(process, excluded, processes):
    """Appends the numbers of all processes that the one at /proc/PID started, theirs too."""
    for tid in os.listdir(process + "/task"):
        try:
            with open(process + "/task/" + tid + "/children", "rb", 0) as file:
                children = file.read().decode().split()
        except OSError:
            if not os.path.exists(process):
                raise
            continue  # a thread that ended since it was listed; the process goes on
        for child in children:
            if int(child) not in excluded:
                processes.append(child)
                try:
                    descendants(os.path.dirname(process) + "/" + child, excluded, processes)
                except OSError:
                    pass
    return processes


def read_children(path, excluded):
    """CPU time in ns, number and resident bytes of the descendants of /proc/PID, without our own."""
    page = os.sysconf("SC_PAGE_SIZE")
    proc = os.path.dirname(path)
    seen = {}
    ended = [0]

    def read():
        alive, resident = {}, 0
        for pid in descendants(path, excluded, []):
            try:
                alive[pid] = read_threads(proc + "/" + pid + "/task")()[0]
                with open(proc + "/" + pid + "/statm", "rb", 0) as file:
                    resident += int(file.read().split()[1]) * page
            except OSError:
                pass
        # What a child used stays used when it ends: the counter must not fall.
        for pid, used in seen.items():
            if pid not in alive:
                ended[0] += used
        seen.clear()
        seen.update(alive)
        return (ended[0] + sum(alive.values()), len(alive), resident)

    return read


def read_sizes(path):
    """The sizes in a file of /proc by name ("Pss": 352), in KiB."""
    sizes = {}
    with open(path, "rb", 0) as file:
        for line in file.read().splitlines():
            words = line.split()
            if words[2:] == [b"kB"]:
                sizes[words[0].rstrip(b":").decode()] = int(words[1])
    return sizes


def added_by(own, family, shmem):
    """Memory in KiB that descendants add to the resident memory of a process, shared pages counted once.

    Anonymous and shared memory is that of the family alone, so that proportional sizes add up to
    what it takes. Pages of files (libraries) may be shared with strangers: of them the process's
    own count in full, and those that a descendant alone has, or more where proportional sizes say
    so. Kernels before 5.4 do not tell the two apart: there all counts as pages of files.
    """
    both = [own] + family
    if all("Pss_Anon" in sizes for sizes in both):
        unfiled = own["Anonymous"] + shmem
        anonymous = sum(sizes["Pss_Anon"] + sizes["Pss_Shmem"] for sizes in both) - unfiled
        alone = sum(sizes["Private_Clean"] for sizes in family)
        files = sum(sizes["Pss_File"] for sizes in both) - (own["Rss"] - unfiled)
        return max(anonymous + max(alone, files), 0)
    alone = sum(sizes["Private_Clean"] + sizes["Private_Dirty"] for sizes in family)
    return max(alone, sum(sizes["Pss"] for sizes in both) - own["Rss"])


def read_family(path, excluded):
    """Memory of /proc/PID and its descendants; four sizes in KiB.

    Proportional size of the process; the sum of its descendants'; what they add to what the process
    has resident; what they have resident beside that, which the process or another of them has too.
    Nothing where descendants come and go faster than they are read.
    """
    proc = os.path.dirname(path)
    ended = set()

    def family_now():
        """Sizes of the process and of each descendant, or None if one came or went meanwhile."""
        before = descendants(path, excluded, [])
        ended.intersection_update(before)
        own = read_sizes(path + "/smaps_rollup")
        family = []
        for pid in before:
            try:
                family.append(read_sizes(proc + "/" + pid + "/smaps_rollup"))
            except OSError:  # it ended, and may stay listed until its parent asks for its status
                if pid not in ended:
                    ended.add(pid)
                    return None
        same = descendants(path, excluded, []) == before
        return (own, [sizes for sizes in family if "Pss" in sizes]) if same else None

    def read():
        # Who shares a page decides each one's part of it: sizes read before and after a fork do not
        # add up (a process of 200 MB and three children would seem to hold 17 MB more).
        for _ in range(ATTEMPTS):
            now = family_now()
            if now is not None:
                break
        else:
            return (MISSING,) * 4
        own, family = now
        if not family:
            return (own["Pss"], 0, 0, 0)
        shmem = read_sizes(path + "/status").get("RssShmem", 0)
        resident = sum(sizes["Rss"] for sizes in family)
        added = min(added_by(own, family, shmem), resident)
        return (own["Pss"], sum(sizes["Pss"] for sizes in family), added, resident - added)

    return read


def read_perf(descriptors, process, excluded=()):
    """CPU time in ns of a process and of all that it starts, by counters whose descriptors were passed on.

    Counters interrupt the cores that they count on, which costs several times as much as the clock of
    the process. While what it started takes nothing that clock tells the same, and they are read
    every tenth time only. Unlike the clock they go on while a hypervisor gives the core to another
    guest: what they have more is the work of others only where the process has or had a child.
    """
    path = "/proc/%d" % process

    def counted():
        total = 0
        for fd in descriptors:
            total += int.from_bytes(os.read(fd, 8), "little")
        return total

    tick = 10**9 // os.sysconf("SC_CLK_TCK")

    def of_the_ended():
        """Ticks of the children that the process has waited for."""
        with open(path + "/stat", "rb", 0) as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[13]) + int(fields[14])

    def others_worked():
        nonlocal ticks
        waited_for, ticks = ticks, of_the_ended()
        return ticks != waited_for or descendants(path, excluded, [])

    clock = (~process << 3) | 2  # as clock_getcpuclockid(3) has it
    ticks = of_the_ended()
    value = before = None  # until the first read
    owed = rests = 0  # ns that others took; reads until the counters are read again
    whole = SELDOM  # times that the counters are read before they rest
    own = then = clock_ns(clock)  # fails where there is no such process

    def read():
        nonlocal value, before, owed, rests, whole, own, then
        now = clock_ns(clock)
        if value is None:
            value = before = counted()
            own = then = now
            return (value,)
        value += now - own
        own = now
        if rests:
            rests -= 1
            return (value,)
        total = counted()
        owed = max(owed + total - before - (now - then), 0)
        before, then = total, now
        if owed > OTHERS_NS and others_worked():
            value += owed
            owed, whole = 0, SELDOM
        else:
            owed = min(owed, tick)  # children that took less than a tick show up with a later one
            if whole:
                whole -= 1
        rests = 0 if whole else SELDOM - 1
        return (value,)

    return read


def read_ratio(path, arguments, fds):
    """The integer of one file times a factor, over that of another file; fills `fds`.

    It says nothing where it is above the third argument, if there is one.
    """
    over, factor = arguments[:2]
    limits = arguments[2:]
    for each in (path, over):
        fds.append(os.open(each, os.O_RDONLY))
    part, whole = fds

    def read():
        value = int(os.pread(whole, 64, 0))
        ratio = int(os.pread(part, 64, 0)) * factor // value if value else MISSING
        return (MISSING if limits and ratio > limits[0] else ratio,)

    return read


def read_product(path, arguments, fds):
    """The integer of one file times that of another (mV and mA make µW); fills `fds`."""
    for each in (path, arguments[0]):
        fds.append(os.open(each, os.O_RDONLY))
    first, second = fds

    def read():
        return (int(os.pread(first, 64, 0)) * int(os.pread(second, 64, 0)),)

    return read


def read_drawn(path, arguments, fds):
    """Reader of a battery's value, by its status file and those of the others; fills `fds`.

    Its integer while it discharges, 0 while only others do, else nothing: on mains it tells what
    flows into it. The status is read before and after, as a charger may be plugged in between.
    """
    for each in (path,) + tuple(arguments):
        fds.append(os.open(each, os.O_RDONLY))

    def gives(fd):
        return os.pread(fd, 64, 0).strip() == b"Discharging"

    def read():
        before = gives(fds[1])
        value = int(os.pread(fds[0], 64, 0)) if before else 0
        if before != gives(fds[1]) or not (before or any(map(gives, fds[2:]))):
            return (MISSING,)
        return (value,)

    return read


def read_files(paths, parser, arguments, fds):
    """Reader of one file through its parser, or of the sum of the integers of several; fills `fds`."""
    for path in paths:
        fds.append(os.open(path, os.O_RDONLY))
    if parser == "sum":

        def read():
            total = 0
            for fd in fds:
                total += int(os.pread(fd, 64, 0))
            return (total,)

        return read
    function, size = PARSERS[parser]
    arguments = prepared_arguments(parser, arguments)
    fd = fds[0]

    def read_one():
        return function(os.pread(fd, size, 0), arguments)

    return read_one


def open_read(entry, descriptors, fds=None):
    """The function that performs a read of the plan; opens its files, for the caller to close."""
    fds = [] if fds is None else fds
    parser, path, arguments = entry["parser"], entry["path"], entry["arguments"]
    if parser == "self":
        return lambda: (process_ns(),)
    if parser == "perf":
        if not descriptors:
            raise OSError(2, "no perf counters were passed on")
        process = arguments[0] if arguments else os.getppid()
        return read_perf(descriptors, process, set(entry["excluded"]) | {os.getpid()})
    if parser == "threads":
        return read_threads(path)
    if parser in ("children", "family"):
        excluded = set(entry["excluded"]) | set(arguments) | {os.getpid()}
        return (read_children if parser == "children" else read_family)(path, excluded)
    if parser == "sum":
        return read_files([path] + list(arguments), parser, (), fds)
    if parser == "ratio":
        return read_ratio(path, arguments, fds)
    if parser == "product":
        return read_product(path, arguments, fds)
    if parser == "drawn":
        return read_drawn(path, arguments, fds)
    return read_files([path], parser, arguments, fds)


# --- journals ----------------------------------------------------------------------------------


class Journal:
    """Rows of int64 that gather in memory and go to the file in one write."""

    def __init__(self, path, width, segment=0):
        self.segment = segment  # bytes from which on it goes on in a new file
        self.folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)  # may be moved
        self.stem = os.path.basename(path)[: -len(".bin")]
        self.number = newest_segment(os.listdir(self.folder), self.stem) if segment else 0
        self.fd = self.open(self.number)
        self.pack = struct.Struct("<%dq" % width).pack
        self.rows = []
        size = os.fstat(self.fd).st_size
        # By a sampler that was killed, perhaps in the middle of a row.
        self.begun = size > 0 or self.number > 0
        if size % (8 * width):
            os.ftruncate(self.fd, size - size % (8 * width))
        self.lock = _thread.allocate_lock()

    def open(self, number):
        """Opens a segment, and makes it if need be."""
        name = self.stem + (".%04d.bin" % number if number else ".bin")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        return os.open(name, flags, 0o644, dir_fd=self.folder)

    def flush(self):
        """Writes what has gathered; a short write (full disk) is cut back to whole rows."""
        with self.lock:
            if not self.rows:
                return
            data = b"".join(self.rows)
            size = len(self.rows[0])
            done = os.write(self.fd, data)
            del self.rows[: len(data) // size]  # another thread may have added one meanwhile
            if done != len(data):
                at = os.fstat(self.fd).st_size
                os.ftruncate(self.fd, at - at % size)
                raise OSError(28, "No space left on device")
            if self.segment and os.fstat(self.fd).st_size >= self.segment:
                before, self.fd = self.fd, self.open(self.number + 1)
                self.number += 1
                os.close(before)


def newest_segment(names, stem):
    """Number of the last segment of a journal, which a sampler that was killed may have begun."""
    numbers = [name[len(stem) + 1 :].split(".")[0] for name in names if name.startswith(stem + ".")]
    return max([0] + [int(number) for number in numbers if number.isdigit()])


class Read:
    """Read of the plan: how, how often, and its journal."""

    def __init__(self, number, entry, descriptors, folder, segment=0):
        self.number = number
        self.every = self.planned = entry["every"]
        self.due = 1 + number % self.every  # spread over the ticks; the first tick reads all
        self.width = entry["width"]
        self.failures = 0
        path = os.path.join(folder, "samples-%02d.bin" % number)
        self.journal = Journal(path, 2 + self.width, segment)
        self.entry = entry
        self.descriptors = descriptors
        self.function = None
        self.fds = []
        self.cost = 0  # as it was last surveyed
        self.due_ns = 0  # among slow reads
        self.long = False  # too long for the ticks, as it was last surveyed
        self.hung = False
        if self.journal.begun:  # nothing is known of the time since the sampler before this one
            self.failed(monotonic_ns(), OSError(EOWNERDEAD, "Owner died"))
            self.failures = 0
        self.reopen()

    def reopen(self):
        """Opens the files, again after they went away; a failure is left for the read to find."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        try:
            self.function = open_read(self.entry, self.descriptors, self.fds)
        except (OSError, ValueError) as error:
            problem = error

            def fail():
                raise problem

            self.function = fail

    def take(self, tick, per_second):
        """Reads, stamps and keeps one row; a failed read is a row too, with its error number."""
        now = monotonic_ns()
        self.due = tick + self.every
        try:
            values = self.function()
            if self.hung:
                now = self.returned()
            self.journal.rows.append(self.journal.pack(now, 0, *values))
            self.failures = 0
        except (OSError, ValueError, LookupError, struct.error) as error:
            self.failed(self.returned() if self.hung else now, error)
            if self.failures >= PATIENCE:
                self.due = tick + max(self.every, per_second)
                self.reopen()

    def failed(self, now, error):
        """Keeps a row that says why there is no value."""
        code = getattr(error, "errno", None) or 22
        self.journal.rows.append(self.journal.pack(now, code, *((MISSING,) * self.width)))
        self.failures += 1

    def hangs(self):
        """Keeps a row that says so, and all before it; called while another thread waits in `take`."""
        self.hung = True
        self.failed(monotonic_ns(), OSError(ETIME, "Timer expired"))
        self.journal.flush()

    def returned(self):
        """The time at which a read that hung came back: its row comes after that of `hangs`."""
        self.hung = False
        return monotonic_ns()


class Packer:
    """The process that packs closed segments of journals, once there are any.

    It is a child of this one, for what the training starts is counted as its own.
    """

    def __init__(self, folder, command):
        self.command = command  # without one there is no such process
        self.folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)  # which may be moved
        self.pid = 0
        self.due = 0

    def look(self, now):
        """Starts it when there is something to pack, and again a minute after its end."""
        if not self.command or now < self.due:
            return
        self.due = now + PACKER_NS
        if self.pid:
            if self.ended(os.WNOHANG):
                self.pid = 0
                self.due = now + 60 * 10**9
        elif any(".0002." in name for name in os.listdir(self.folder)):
            try:
                self.pid = os.posix_spawn(
                    self.command[0],
                    self.command + [str(os.getpid())],
                    dict(os.environ, **PACKER_SETTINGS),
                    file_actions=[
                        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                        (os.POSIX_SPAWN_DUP2, self.folder, 3),
                    ],
                    setpgroup=0,
                )
            except OSError:  # no more processes: samples are worth more than room
                self.due = now + 60 * 10**9

    def end(self):
        """Kills it, and what it started: it does all or nothing of a segment."""
        if self.pid:
            try:
                os.killpg(self.pid, 9)
            except ProcessLookupError:
                pass
            self.ended(0)
            self.pid = 0

    def ended(self, options):
        """True if it has; where a training ignores its children's ends, the kernel takes them away."""
        try:
            return os.waitpid(self.pid, options)[0] != 0
        except ChildProcessError:
            return True


# --- the loop ----------------------------------------------------------------------------------


class Watch:
    """The read that a thread is at, for another thread to see that it hangs and to take its place.

    Whoever pops `held` goes on with the other reads: the thread itself after the read, or the
    guard, if the read has not come back; then the thread keeps that one read and nothing else.
    """

    def __init__(self):
        self.held = []
        self.turn = 0  # counts up, so that one read is not taken for the next of the same kind
        self.seen = None
        self.looks = 0

    def take_hung(self):
        """The read that was held at the last looks, taken away; None where there is none."""
        now = (self.turn, self.held[:])
        self.looks = self.looks + 1 if now[1] and now == self.seen else 0
        self.seen = now
        try:
            return self.held.pop() if self.looks >= LOOKS else None
        except IndexError:  # it came back at this moment
            return None


class SlowReads:
    """Reads that take milliseconds, in a thread of ordinary priority that the ticks never wait for.

    The thread writes its journals itself. It was started by one whose priority is not inherited.
    """

    def __init__(self, reads, costs, period):
        self.reads = reads
        self.costs = costs
        self.period = period
        self.problem = None
        self.watch = Watch()

    def run(self):
        """Reads until the disk is full; a read that hung is kept, another thread has the others."""
        try:
            hung = self.read_on()
            SlowReads([hung], self.costs, self.period).read_on()
        except OSError as error:
            self.problem = error

    def read_on(self):
        """Reads each when it is due; returns one that hung, when the others were taken over."""
        watch = self.watch
        held = watch.held
        while True:
            soonest = monotonic_ns() + NAP_NS
            for read in self.reads[:]:
                if monotonic_ns() >= read.due_ns:
                    watch.turn += 1
                    held.append(read)
                    self.read(read)
                    try:
                        held.pop()
                    except IndexError:
                        return read
                soonest = min(soonest, read.due_ns)
            # As seldom as can be: a thread that holds the interpreter while it waits for a
            # core makes the ticks wait, too.
            time.sleep(max(soonest - monotonic_ns(), 10**7) * 1e-9)

    def read(self, read):
        """Takes one read with its time: more seldom if it costs more than its share of a core."""
        before, worked = monotonic_ns(), thread_ns()
        read.take(0, 1)
        cost = monotonic_ns() - before
        # What others keep from a core for long is not dear: it would be read hardly ever beside them.
        walks = read.entry["parser"] in WALKS
        worked = thread_ns() - worked if walks else cost
        read.journal.flush()
        dear = min(int(worked / (WALKING if walks else BUDGET)), NEVER_LONGER_NS)
        read.due_ns = before + max(read.every * self.period, dear)
        every = (read.due_ns - before) // self.period
        self.costs.append((before, read.number, cost, every))


class Sampler:
    """Runs a plan until it is told to stop, its parent is gone or the disk is full."""

    def __init__(self, plan, descriptors):
        self.folder = plan["folder"]
        self.period = plan["period_ns"]
        self.parent = plan["parent"]
        self.seed = plan["seed"]
        self.dither = int(self.period * plan["dither"])
        segment = plan.get("segment", 0)
        self.packer = Packer(self.folder, plan.get("packer"))
        reads = [
            Read(number, entry, descriptors, self.folder, segment)
            for number, entry in enumerate(plan["reads"])
        ]
        self.reads = [read for read in reads if not read.entry["slow"]]
        self.slow_costs = []
        slow = [read for read in reads if read.entry["slow"]]
        self.slow = SlowReads(slow, self.slow_costs, self.period)
        self.slow_at_work = False
        self.watch = Watch()
        self.base = 0  # deadline of the tick, without dither
        self.ticks = Journal(os.path.join(self.folder, "ticks.bin"), 4, segment)
        self.costs = Journal(os.path.join(self.folder, "costs.bin"), 4, segment)
        self.journals = [self.ticks, self.costs] + [read.journal for read in self.reads]
        self.stopping = False
        self.surveyed = 0  # the read whose turn it is
        self.survey_due = 1

    def stop(self, number, frame):
        """Signal handler: end after this tick."""
        self.stopping = True

    def jitter(self):
        """A draw from ±dither; a linear congruence, since `random` costs a megabyte."""
        if not self.dither:
            return 0
        self.seed = (self.seed * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.seed >> 33) % (2 * self.dither + 1) - self.dither

    def survey(self, read, tick, per_second):
        """Takes one read with its time, and stretches the period of one that costs too much.

        Too much twice in a row: once may be a read that was interrupted. What takes microseconds
        is never stretched, and a period that was stretched comes back when the read is cheap again.
        """
        before = monotonic_ns()
        read.take(tick, per_second)
        cost = monotonic_ns() - before
        least, read.cost = min(cost, read.cost), cost
        share = least / (read.every * self.period)
        if share > BUDGET and least > CHEAP_NS and read.every < 60 * per_second:
            read.every *= 2
        elif share < BUDGET / 4 and read.every > read.planned:
            read.every = max(read.planned, read.every // 2)
        self.costs.rows.append(self.costs.pack(before, read.number, cost, read.every))
        self.surveyed = (self.surveyed + 1) % len(self.reads)
        self.survey_due = tick + max(1, SURVEY_NS // self.period)
        while self.slow_costs:
            self.costs.rows.append(self.costs.pack(*self.slow_costs.pop(0)))
        if self.slow.problem is not None:
            raise self.slow.problem
        read.long = least > LONG_NS

    def put_aside(self, read):
        """Has the ticks do without a read from now on."""
        self.reads = [other for other in self.reads if other is not read]
        self.journals = [journal for journal in self.journals if journal is not read.journal]
        read.journal.flush()

    def start_slow(self, reads):
        """Has these read beside the ticks."""
        self.slow.reads.extend(reads)
        if self.slow.reads and not self.slow_at_work:
            self.slow_at_work = True
            _thread.start_new_thread(self.slow.run, ())

    def guard(self):
        """Looks for a read that does not come back, and has the others go on without it."""
        try:
            while True:
                time.sleep(NAP_NS * 1e-9)
                for watch, go_on in (
                    (self.slow.watch, self.slow_without),
                    (self.watch, self.without),
                ):
                    hung = watch.take_hung()
                    if hung is not None:
                        hung.hangs()
                        go_on(hung)
        except OSError as error:
            say_why(error)
            os._exit(1)

    def slow_without(self, hung):
        """Has another thread go on with the other slow reads."""
        self.slow.reads.remove(hung)
        self.slow.watch = Watch()
        _thread.start_new_thread(self.slow.run, ())

    def read_walks_again(self):
        """Reads memory as it is at the end, which may have grown since it was last due.

        A read that another thread is just at is waited for: its row would be lost, and in a short
        run it is the first.
        """
        for read in self.slow.reads[:]:
            if read.entry["parser"] not in WALKS:
                continue
            was_at_it, until = False, monotonic_ns() + WALK_NS
            while read in self.slow.watch.held and monotonic_ns() < until:
                was_at_it = True
                time.sleep(0.01)
            if not was_at_it:
                read.take(0, 1)
                read.journal.flush()

    def without(self, hung):
        """Has another thread, of ordinary priority, go on with the ticks."""
        self.put_aside(hung)
        self.watch, turn = Watch(), self.watch.turn
        self.watch.turn = turn - 1  # the tick that was not ended is one that was lost
        self.base -= self.period
        _thread.start_new_thread(self.take_over, ())

    def wait(self, deadline):
        """Sleeps a long period in naps; returns whether the end of it was reached."""
        while not self.stopping and os.getppid() == self.parent:
            left = deadline - monotonic_ns()
            if left <= 0:
                return True
            time.sleep(min(left, NAP_NS) * 1e-9)
        return False

    def run(self):
        """Reads all once, says so, and ticks; keeps a read that hung when another thread ticks."""
        # The first tick has to do with opening, not with reading: nothing is concluded from it.
        self.base = monotonic_ns()
        per_second = max(1, 10**9 // self.period)
        for read in self.reads:
            read.take(0, per_second)
            read.due = 1 + read.number % read.every
        os.write(0, b"sampling\n")
        self.start_slow([])
        _thread.start_new_thread(self.guard, ())
        hung = self.tick_on()
        if hung is not None:
            self.keep(hung)

    def keep(self, hung):
        """Goes on with a read that hung and has come back, in the thread that it held up."""
        hung.journal.flush()
        SlowReads([hung], self.slow_costs, self.period).read_on()

    def take_over(self):
        """Ticks in place of a thread whose read hangs, and ends the process."""
        try:
            hung = self.tick_on()
            if hung is not None:
                self.keep(hung)
        except OSError as error:
            say_why(error)
            os._exit(1)
        os._exit(0)

    def tick_on(self):
        """Ticks at absolute deadlines; a deadline that is past is lost, never made up for.

        Returns None when told to stop, with all journals written; or a read that hung, when the
        ticks were taken over.
        """
        per_second = max(1, 10**9 // self.period)
        slots = max(1, FLUSH_NS // self.period)
        base, watch = self.base, self.watch
        tick = watch.turn
        sleep, getppid, hold, release = time.sleep, os.getppid, watch.held.append, watch.held.pop
        parent = self.parent
        tick_rows, pack_tick = self.ticks.rows, self.ticks.pack
        while not self.stopping:
            now = monotonic_ns()
            tick += 1
            base += self.period
            lost = 0
            if now > base + self.period:
                lost = (now - base) // self.period
                base += lost * self.period
                tick += lost
            deadline = base + self.jitter()
            if deadline - now > NAP_NS:
                if not self.wait(deadline):
                    break
            elif deadline > now:
                sleep((deadline - now) * 1e-9)
            woke = monotonic_ns()
            watch.turn, self.base = tick, base
            reads, journals = self.reads, self.journals
            probe = reads[self.surveyed % len(reads)] if self.survey_due <= tick else None
            for read in reads:
                if read.due <= tick:
                    hold(read)
                    if read is probe:
                        self.survey(read, tick, per_second)
                    else:
                        read.take(tick, per_second)
                    try:
                        release()
                    except IndexError:
                        return read
            if probe is not None:
                if getppid() != parent:
                    break
                self.packer.look(woke)
                if probe.long:
                    self.put_aside(probe)
                    self.start_slow([probe])
            # One journal a tick goes to disk, so that no tick pays for all of them.
            slot = tick % slots
            while slot < len(journals):
                journals[slot].flush()
                slot += slots
            tick_rows.append(pack_tick(deadline, woke - deadline, monotonic_ns() - woke, lost))
        for journal in self.journals:
            journal.flush()
        self.packer.end()
        if self.stopping:
            self.read_walks_again()
        return None


def receive():
    """The plan and the descriptors, from the socket that is standard input."""
    channel = _socket.socket(fileno=0)
    data, descriptors = b"", []
    while not data.endswith(b"\n"):
        part, ancillary, _, _ = channel.recvmsg(65536, 4096)
        if not part:
            raise SystemExit(1)
        data += part
        for level, kind, payload in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                usable = len(payload) - len(payload) % 4
                descriptors += struct.unpack("<%di" % (usable // 4), payload[:usable])
    channel.detach()
    # The plan is JSON that holds only what JSON and Python literals share (no true, false, null),
    # from our own parent: eval of it saves the megabyte that the json module costs.
    return eval(data.decode(), {"__builtins__": {}}), descriptors


def say_why(error):
    """Tells the parent what ended the sampling."""
    try:
        os.write(0, ("failed: %s\n" % (error.strerror or error)).encode())
    except OSError:  # nobody is left to tell
        pass


def main():
    """Takes the plan, samples, and says on the socket why it ended."""
    plan, descriptors = receive()
    try:
        with open("/proc/self/timerslack_ns", "w") as file:
            file.write("1")
    except OSError:  # an old kernel: ticks come up to 50 µs later
        pass
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # a training may ignore it, which is inherited
    try:
        sampler = Sampler(plan, descriptors)
        _signal.signal(_signal.SIGTERM, sampler.stop)
        sampler.run()
    except OSError as error:
        say_why(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
