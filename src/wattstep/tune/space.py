"""What a tune may turn: a table of knobs, each with the values that are tried on a machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.schedule.policies import POLICIES
from wattstep.schema.cores import parse_cores
from wattstep.schema.figure import Missing
from wattstep.schema.settings import option_of
from wattstep.schema.workload import GPU_PRECISIONS, OPTIMIZER_KERNELS
from wattstep.train.allocators import ALLOCATORS, find_allocator
from wattstep.train.settings import TrainingSettings

Value = bool | int | str
_FIELDS: Final = frozenset(each.name for each in fields(TrainingSettings))
ALLOWED: Final = ("precision", "losses")  # what a user may allow although it changes what is learnt


@dataclass(frozen=True, kw_only=True)
class Place:
    """Training and machine, as far as the values of knobs follow from them.

    Attributes:
        cores: Numbers of the cores that this process may run on.
        clusters: Of these, those that are alike together, the fastest first; empty where all are alike.
        others: Cores that other programs keep busy.
        threads: Of an operation where nobody says how many.
        options: Options of the engine, as `Engine.options` has them.
        precision: Of the training as it is.
        precisions: In which the workload can train.
        processor: That trains.
        script: Whether somebody's own script trains.
        energy: Whether energy is to be the least.
        allow: Of `ALLOWED`, what the user allows.
        given: Values that the user names, by knob, in place of those that are found here.
        turned: Knobs that are turned.
    """

    cores: tuple[int, ...]
    clusters: tuple[str, ...] = ()
    others: float = 0.0
    threads: int
    options: Sequence[str] = ()
    precision: str = "fp32"
    precisions: Sequence[str] = ()
    processor: str = "cpu"
    script: bool = False
    energy: bool = False
    allow: frozenset[str] = frozenset()
    given: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    turned: frozenset[str] = field(default_factory=lambda: frozenset(knob.name for knob in KNOBS))


@dataclass(frozen=True, kw_only=True)
class Knob:
    """Something that a tune turns.

    Attributes:
        name: Field of `TrainingSettings`; of a script, of `ScriptTuning` or of its process.
        words: How a value is called.
        values: What is tried beside what goes without saying, or why nothing is.
        of_process: Whether only a fresh process can have another value.
        absent: Values that are not here, and why.
        settling: First steps of a training, beyond those that are looked at, before it takes hold.
    """

    name: str
    words: Callable[[Any], str]
    values: Callable[[Place], tuple[Value, ...] | Missing]
    of_process: bool = False
    absent: Callable[[], Mapping[str, str]] = dict
    settling: int = 0

    @property
    def option(self) -> str:
        """As users write it."""
        return (
            option_of(TrainingSettings, self.name)
            if self.name in _FIELDS
            else self.name.replace("_", "-")
        )


def _threads(place: Place) -> tuple[Value, ...] | Missing:
    """1, 2, 4, ... up to all cores, and as many as other programs leave."""
    count = len(place.cores)
    free = max(1, int(count - place.others))
    numbers = {free, count, *(2**n for n in range(count.bit_length()) if 2**n <= count)}
    numbers -= {place.threads}
    return tuple(sorted(numbers)) or Missing("there is one core")


def _interop(place: Place) -> tuple[Value, ...] | Missing:
    if "interop_threads" not in place.options:
        return Missing("the engine has none")
    return (1,) if len(place.cores) > 1 else Missing("there is one core")


def _cores(place: Place) -> tuple[Value, ...] | Missing:
    return place.clusters or Missing("all cores are alike")


def _allocators(place: Place) -> tuple[Value, ...] | Missing:
    absent = _absent_allocators()
    known = [name for name in ALLOCATORS if f"allocator {name}" not in absent]
    return tuple(known) or Missing("none is here")


def _absent_allocators() -> Mapping[str, str]:
    absent = {}
    for name in ALLOCATORS:
        try:
            find_allocator(name)
        except InvalidValueError as error:
            absent[f"allocator {name}"] = str(error).removeprefix(f"--allocator {name}: ")
    return absent


def _switch(name: str) -> Callable[[Place], tuple[Value, ...] | Missing]:
    def values(place: Place) -> tuple[Value, ...] | Missing:
        return (True,) if name in place.options else Missing("the engine has no such thing")

    return values


def _kernels(place: Place) -> tuple[Value, ...] | Missing:
    if "optimizer_kernel" not in place.options:
        return Missing("the engine has no such thing")
    return OPTIMIZER_KERNELS


def _workers(place: Place) -> tuple[Value, ...] | Missing:
    if not place.script:
        return Missing("workloads of the suite have their data in memory, and no loader")
    return (1, len(place.cores)) if len(place.cores) > 1 else (1,)


def _precisions(place: Place) -> tuple[Value, ...] | Missing:
    if "precision" not in place.allow:
        return Missing("it changes what is learnt: --allow precision")
    if place.script:
        return Missing("a script says itself in what it computes")
    others = [each for each in place.precisions if each not in (place.precision, *GPU_PRECISIONS)]
    return tuple(others) or Missing("the workload has one alone")


# One number of threads for all is the knob of that name; kinds of cores are that of `cores`.
_NOT_TRIED: Final = frozenset({"global", "heterogeneous"})
_OF_ENERGY: Final = frozenset({"joules"})
PLAIN_POLICY: Final = "default"  # the framework's own order


def _policies(place: Place) -> tuple[Value, ...] | Missing:
    """The framework's own order as a plan, and where there are several cores those that share them out."""
    if place.script:
        return Missing("a script's step is not recorded as operations that a plan could order")
    if "policy" not in place.options or place.processor != "cpu":
        return Missing("plans are torch's, on a CPU")
    if len(place.cores) == 1:
        return (PLAIN_POLICY,)
    left_out = _NOT_TRIED if place.energy else _NOT_TRIED | _OF_ENERGY
    return tuple(each for each in POLICIES if each not in left_out)


def _number(words: str) -> Callable[[Any], str]:
    return lambda value: words.format(value, "" if value == 1 else "s")


# A new knob is a field of the settings and a line here.
KNOBS: Final[tuple[Knob, ...]] = (
    Knob(name="threads", words=_number("{} thread{}"), values=_threads),
    Knob(name="channels_last", words=lambda value: "channels last", values=_switch("channels_last")),
    Knob(name="optimizer_kernel", words=_number("{} optimizer"), values=_kernels),
    Knob(name="precision", words=str, values=_precisions),
    Knob(name="allocator", words=_number("allocator {}"), values=_allocators, of_process=True, absent=_absent_allocators),
    Knob(name="compiled", words=lambda value: "compiled", values=_switch("compiled"), of_process=True),
    Knob(name="policy", words=_number("policy {}"), values=_policies, of_process=True, settling=2),
    Knob(name="interop_threads", words=_number("{} thread{} between operations"), values=_interop, of_process=True),
    Knob(name="cores", words=_number("cores {}"), values=_cores, of_process=True),
    Knob(name="loader_workers", words=_number("{} loader process{}"), values=_workers, of_process=True),
)  # fmt: skip
THREADS: Final = "threads"
OF_PROCESS: Final = frozenset(knob.name for knob in KNOBS if knob.of_process)


@dataclass(frozen=True)
class Candidate:
    """One way to train: what differs from the default, in the order of `KNOBS`.

    Attributes:
        changes: Knobs and their values.
    """

    changes: tuple[tuple[str, Value], ...] = ()

    @property
    def text(self) -> str:
        """In a few words, e.g. "1 thread, channels last"."""
        by_name = dict(self.changes)
        words = [knob.words(by_name[knob.name]) for knob in KNOBS if knob.name in by_name]
        return ", ".join(words) or "the default"

    @property
    def settling(self) -> int:
        """First steps, beyond those that are looked at, before all of it takes hold."""
        turned = dict(self.changes)
        return max((knob.settling for knob in KNOBS if knob.name in turned), default=0)

    @property
    def makes_sense(self) -> bool:
        """False where two changes leave each other nothing to do, or more threads than a set has cores.

        Nothing to do have one thread and a plan that shares threads out, and a compiler and any plan.
        """
        turned = dict(self.changes)
        policy, cores = turned.get("policy"), turned.get("cores")
        if cores is not None and int(turned.get(THREADS, 1)) > len(parse_cores(str(cores))):
            return False
        shared_out = policy not in (None, PLAIN_POLICY) and turned.get(THREADS) == 1
        return not shared_out and not (policy and turned.get("compiled"))

    def only(self, names: Collection[str]) -> Candidate:
        """This candidate with all other knobs as they are by default."""
        return Candidate(tuple(change for change in self.changes if change[0] in names))

    def without(self, names: Collection[str]) -> Candidate:
        """This candidate with these knobs as they are by default."""
        return Candidate(tuple(change for change in self.changes if change[0] not in names))

    def with_value(self, name: str, value: Value | None) -> Candidate:
        """This candidate with one knob turned; for None, with one as it is by default."""
        changes = {**dict(self.changes), name: value}
        by_name = {each: own for each, own in changes.items() if own is not None}
        known = [knob.name for knob in KNOBS]
        order = sorted(by_name, key=lambda each: known.index(each) if each in known else len(known))
        return Candidate(tuple((each, by_name[each]) for each in order))


DEFAULT: Final = Candidate()


def searched(place: Place) -> tuple[dict[str, tuple[Value, ...]], dict[str, str]]:
    """Values that are tried, by knob, and why others are not turned."""
    tried: dict[str, tuple[Value, ...]] = {}
    left_out: dict[str, str] = {}
    for knob in KNOBS:
        if knob.name not in place.turned:
            left_out[knob.name] = "it is not among --turn"
            continue
        values = place.given.get(knob.name) or knob.values(place)
        left_out.update(knob.absent())
        if isinstance(values, Missing):
            left_out[knob.name] = str(values)
        else:
            tried[knob.name] = values
    return tried, left_out


def parse_turned(text: str | None) -> frozenset[str]:
    """Names of knobs from "threads,channels-last"; all of them for None.

    Raises:
        InvalidValueError: There is no such knob.
    """
    known = {knob.option: knob.name for knob in KNOBS}
    if text is None:
        return frozenset(known.values())
    names = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise InvalidValueError(
            f"--turn {', '.join(unknown) or repr(text)}: there are {', '.join(known)}",
            id="unknown-knob",
        )
    return frozenset(known[name] for name in names)


def parse_allowed(text: str) -> frozenset[str]:
    """Names of `ALLOWED` from "precision,losses".

    Raises:
        InvalidValueError: There is no such name.
    """
    names = frozenset(part.strip() for part in text.split(",") if part.strip())
    if unknown := sorted(names - set(ALLOWED)):
        raise InvalidValueError(
            f"--allow {', '.join(unknown)}: there are {', '.join(ALLOWED)}", id="unknown-allowance"
        )
    return names
