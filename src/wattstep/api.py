"""Functions of the Python interface: train, compare, explain, predict, plan, export, sweep and tune, each as the command of that name.

They are public as `wattstep.train`, ...; docs/python.md shows them. What they need is loaded when they
are called.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from operator import index
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.insight.compare.by_facet import ByFacet
    from wattstep.insight.compare.comparing import Comparison
    from wattstep.insight.compare.matrix import Matrix
    from wattstep.insight.explain.section import Section
    from wattstep.plan import Budget, Plan, Study, StudyGrid, Variant
    from wattstep.predict import Prediction
    from wattstep.report.export.export import Exported
    from wattstep.run import Run
    from wattstep.schema.outcome import Outcome
    from wattstep.schema.run_report import RunReport
    from wattstep.schema.step_graph import StepFamily
    from wattstep.schema.workload import ModuleSource, OptimizerSettings, Specification
    from wattstep.sweep.sweep import SweepListener
    from wattstep.train.child.limits import MemoryLimit
    from wattstep.train.execution_hosts import ExecutionHost
    from wattstep.train.loop import Progress
    from wattstep.train.settings import TrainingSettings
    from wattstep.tune.tuning import TuneReport

RunPath: TypeAlias = "str | PathLike[str]"

PLANNED_UPDATE = 16  # samples, where a workload does not say for which its learning rate is right
SWEEP_STEPS = (
    5  # least of a configuration that is limited by time: a large one takes seconds a step
)


def train(
    workload: str,
    *,
    batch_size: int = 4,
    steps: int | None = None,
    seconds: float | None = None,
    threads: int | None = None,
    precision: str = "fp32",
    target: str | None = None,
    memory_limit: str | None = None,
    out: RunPath | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Run:
    """Trains a workload of the suite in a process of its own, and records what that costs.

    >>> run = wattstep.train("lenet", batch_size=16, steps=100)      # doctest: +SKIP
    >>> float(run.metrics["step_time"])                              # doctest: +SKIP

    Args:
        workload: Its name; see `wattstep suite`.
        batch_size: Samples of one forward pass.
        steps: Measured steps after the warm-up, at least.
        seconds: Measured time; 15 where neither it nor `steps` is given.
        threads: Of an operation; None: the framework's choice.
        precision: "fp32", "bf16" or "amp".
        target: Where it trains or where the sensors are: "ssh://BOARD", "adb://SERIAL",
            "emulate:BOARD", ...; None: here.
        memory_limit: Of the training process, e.g. "8GiB".
        out: Folder of the new run; None: one below `runs/`.
        on_progress: Told where the training is.
        settings: Any other field of `wattstep.train.settings.TrainingSettings`.

    Returns:
        The run, opened.

    Raises:
        InvalidValueError: A setting cannot be used.
        RunExistsError: The folder is taken.
        RecordingError: Nothing can be recorded there.
    """
    from wattstep.run import load
    from wattstep.train.execution_hosts import is_elsewhere

    asked = _settings(
        workload=workload,
        batch_size=batch_size,
        steps=steps,
        seconds=seconds,
        threads=threads,
        precision=precision,
        target=target,
        out=None if out is None else str(out),
        canary=settings.pop("canary", memory_limit is None),
        **settings,
    )
    limit = _limit(memory_limit, here=not is_elsewhere(target))
    place = open_execution_host(target, _warn)
    try:
        return load(place.train(asked, on_progress or _unheard, _warn, limit))
    finally:
        place.close()


def compare(
    *sides: RunPath | RunReport | Sequence[RunPath | RunReport],
    across: Sequence[str] = (),
    metric: str | None = None,
    on_read: Callable[[int, int], None] | None = None,
) -> Comparison | Matrix:
    """Compares runs: what differs, and how sure that is.

    >>> comparison = wattstep.compare("runs/a", ["runs/b1", "runs/b2"])  # doctest: +SKIP
    >>> print(*comparison.sentences, sep="\\n")                      # doctest: +SKIP

    Args:
        sides: Each a run, the report of one that was never recorded, a folder of runs of one
            configuration, or several of these; one folder alone is split by configuration.
        across: What may differ because it is what is compared: "device", "batch", "threads", ...
        metric: Compares every pair by this one: "step_time", "energy_per_step", ...
        on_read: Told how many runs are read, and of how many, before the first and after each.

    Returns:
        A `Comparison` of two sides in full; a `Matrix` of every pair where there are more, or
        where a metric is given.

    Raises:
        InvalidValueError: They do not compare, or there is no such metric or facet.
        DamagedRunError: A run cannot be read.
    """
    from wattstep.insight.compare.comparing import compare as compare_two
    from wattstep.insight.compare.configuration import check_across
    from wattstep.insight.compare.matrix import compare_all
    from wattstep.insight.compare.process import UNITS
    from wattstep.insight.compare.sides import gathered, sides_of

    if not sides:
        raise InvalidValueError("there is nothing to compare: give runs", id="nothing-to-compare")
    meant = check_across(list(across))
    groups = [_runs(side) for side in sides]
    compared_sides = gathered(groups) if len(groups) > 1 else sides_of(groups[0])
    if metric is not None and metric not in UNITS:
        raise InvalidValueError(
            f"--metric {metric}: there are {', '.join(UNITS)}", id="unknown-metric"
        )
    if len(compared_sides) == 2 and metric is None:
        return compare_two(compared_sides[0], compared_sides[1], meant, on_read=on_read)
    return compare_all(compared_sides, metric, meant, on_read)


def compare_by(
    facet: str,
    runs: RunPath | RunReport | Sequence[RunPath | RunReport],
    *,
    on_read: Callable[[int, int], None] | None = None,
) -> ByFacet:
    """Compares runs by one facet, a row for each configuration of all others.

    >>> by_engine = wattstep.compare_by("engine", "runs")            # doctest: +SKIP

    Args:
        facet: What the columns differ in: "engine", "threads", "batch", "device", ...
        runs: Runs, or folders of runs.
        on_read: As of `compare`.

    Raises:
        InvalidValueError: There is no such facet, or all runs are alike in it.
        DamagedRunError: A run cannot be read.
    """
    from wattstep.insight.compare.by_facet import compare_by as compare_by_facet
    from wattstep.insight.compare.configuration import check_across
    from wattstep.insight.compare.sides import runs_in, sides_among
    from wattstep.schema.run_report import RunReport

    check_across([facet], "--by")
    given = _runs(runs)
    each = [run for one in given for run in ([one] if isinstance(one, RunReport) else runs_in(one))]
    return compare_by_facet(facet, sides_among(each, "what is given"), on_read)


def explain(
    run: Run | RunReport | RunPath, sections: Sequence[str] = (), *, beside: Sequence[Run] = ()
) -> tuple[Section, ...]:
    """Explains where the time and the energy of a run go, and why.

    >>> (gaps,) = wattstep.explain("runs/mine", ["gaps"])            # doctest: +SKIP
    >>> print(*gaps.sentences, sep="\\n")                            # doctest: +SKIP

    Args:
        run: A run, its folder, or the report of a run that was never recorded.
        sections: Which; none: all, in the order of `wattstep explain`.
        beside: Other runs that advice may look at.

    Returns:
        Each with sentences, figures and tables, or the reason why it can say nothing.

    Raises:
        InvalidValueError: There is no such section.
        DamagedRunError: The run cannot be read.
    """
    from wattstep.insight.explain import chosen_sections, explain_report
    from wattstep.insight.explain import explain as explained
    from wattstep.run import load
    from wattstep.schema.run_report import RunReport

    names = chosen_sections(sections)  # before anything is opened
    if isinstance(run, RunReport):
        explained_report = explain_report(run)
        return tuple(each for each in explained_report if not sections or each.name in names)
    opened = load(Path(run)) if isinstance(run, (str, PathLike)) else run
    return tuple(explained(opened, names, beside))


def predict(
    model: Any,
    inputs: Any,
    *,
    device: str,
    optimizer: Any = "sgd,momentum=0.9",
    classes: int | None = None,
    engine: str | None = None,
    precision: str = "fp32",
    mode: str | None = None,
    accumulate: int = 1,
    checkpointing: bool = False,
    train_last: int | None = None,
    lora: int | None = None,
    offload: bool = False,
    like: Sequence[Run | RunPath] = (),
    data_time: float = 0.0,
) -> Prediction:
    """Predicts what training a module costs on a device that is not here; nothing of it runs.

    >>> predicted = wattstep.predict(model, (16, 3, 224, 224), device="jetson-tx2")   # doctest: +SKIP
    >>> predicted.fits(), str(predicted.step_time)                                   # doctest: +SKIP

    Args:
        model: A torch module, or a function that gives one.
        inputs: A batch as the module takes it, or its shape.
        device: Name of the device, or the path of its file, see `wattstep devices`; "this", once calibrated.
        optimizer: Of its parameters: torch's object, or text as "adam" or "sgd,momentum=0.9".
        classes: That cross entropy tells apart; None: as many as the module gives scores.
        engine: Framework as the device's file names it; None: the one that its values are of.
        precision: Of the training: "fp32", "tf32", "bf16", "amp" or "amp-fp16".
        mode: Power mode of the device, e.g. "30W"; None: the one that its file is of.
        accumulate: Batches whose gradients are added up before an update.
        checkpointing: Whether blocks drop their activations, and compute them again.
        train_last: Layers that train, the last ones; None: all.
        lora: Rank of the updates of linear layers that alone train; None: none.
        offload: Whether activations leave memory until the backward pass.
        like: Recorded runs of workloads on the same device, or their folders, that correct the prediction.
        data_time: Time in s in which one sample is read and prepared, which the step has to wait for.

    Returns:
        The prediction: `fits()`, `step_time`, `system_memory`, `energy_per_step`, `report()`, ...

    Raises:
        InvalidValueError: An argument is none, the module cannot be captured, the device's values do not reach, or a
            run says nothing of this prediction.
        DamagedRunError: A run cannot be read.
    """
    from wattstep import devices, engines
    from wattstep.predict import check_device, predictor_for
    from wattstep.schema.workload import Preparation
    from wattstep.store import this_device

    batch_size, source = _module_source(model, inputs, optimizer, classes)
    engines.check_predicted(engine)
    where = devices.find(this_device.find(device))
    check_device(where, engine=engine, precision=precision, mode=mode)
    preparation = Preparation(
        batch_size=batch_size,
        accumulate=accumulate,
        checkpointing=checkpointing,
        train_last=train_last,
        lora=lora,
        offload=offload,
    )
    captured = engines.find("torch").capture(source, preparation, precision, evaluated=True)
    predictor = predictor_for(captured, where, engine=engine, precision=precision, mode=mode)
    if not 0 <= data_time < inf:
        raise InvalidValueError(f"data_time={data_time!r}: seconds, from 0 on", id="out-of-range")
    predictor.sample_s = data_time
    if like:
        from wattstep.run import load
        from wattstep.train.evidence import learn_from

        runs = [load(Path(run)) if isinstance(run, (str, PathLike)) else run for run in like]
        here = device == this_device.THIS
        learn_from(predictor, runs, where, here=here, engine=engine, mode=mode)
    return predictor.at(batch_size)


def _module_source(
    model: Any, inputs: Any, optimizer: Any, classes: int | None
) -> tuple[int, ModuleSource]:
    """Batch size, and what is trained, from the arguments of `predict`.

    Raises:
        InvalidValueError: One of them is none.
    """
    from wattstep.schema.workload import ModuleSource, OptimizerSettings

    batch_size, *sample = _whole_numbers(getattr(inputs, "shape", inputs))
    if not callable(model):
        raise InvalidValueError(
            f"{model!r} is no torch module, and no function that gives one", id="not-a-module"
        )
    if isinstance(optimizer, str):
        settings = OptimizerSettings.parse(optimizer)
    else:
        settings = _settings_of(optimizer, model)
    return batch_size, ModuleSource(
        make=model,
        name=getattr(model, "__name__", type(model).__name__),
        input_shape=tuple(sample),
        optimizer=settings,
        classes=classes,
        integers="int" in str(getattr(inputs, "dtype", "")),
    )


def plan(
    workload: Any,
    *,
    device: str,
    samples: int,
    every: str | float | None = None,
    budget: str | Budget | None = None,
    batch: int | None = None,
    allow: Sequence[str] = (),
    least: str | None = None,
    sure: float = 0.9,
    inputs: Any = None,
    optimizer: Any = "sgd,momentum=0.9",
    classes: int | None = None,
    image_size: int | None = None,
    engine: str | None = None,
    precision: str = "fp32",
) -> Plan:
    """Searches how to train within a budget on a device that is not here; nothing of it runs.

    >>> plan = wattstep.plan("resnet50", device="jetson-orin-nano", samples=64, budget="30 min, 45 °C")   # doctest: +SKIP
    >>> plan.chosen.configuration.text, str(plan.chosen.figures["energy"])                              # doctest: +SKIP

    Args:
        workload: Name of one of the suite; or a torch module, or a function that gives one.
        device: Name of the device, or the path of its file; see `wattstep devices`.
        samples: That a session trains on.
        every: How often there is a session: "day", "6 h", or a number of seconds; None: once.
        budget: Limits of a session: "battery 5 %, 30 min, 45 °C, 2 GiB", or a `wattstep.plan.budget.Budget`; None: none.
        batch: Samples of an update; None: for which the workload's learning rate is right, 16 where it does
            not say, and no more than `samples`.
        allow: What may change that changes the mathematics: names of `wattstep.plan.ALLOWED`.
        least: What to recommend among what keeps the budget: the least "energy", "time" or "memory"; None:
            energy, or time where the device's power is not known.
        sure: Probability with which each limit has to hold.
        inputs: Of a module: a batch as it takes it, or its shape.
        optimizer: Of a module, as `predict` takes it.
        classes: That are told apart; None: the workload's own, or as many as the module gives scores.
        image_size: Height and width of a workload's images; None: its own.
        engine: Framework as the device's file names it; None: the one that its values are of.
        precision: Of the training.

    Returns:
        The plan: `chosen` (None where nothing keeps the budget), `front`, `losing`, `why_not(...)`, ...

    Raises:
        InvalidValueError: An argument is none, it cannot be captured, or the device's values do not reach.
    """
    from wattstep import workloads as suite
    from wattstep.plan import parse_allowed

    if isinstance(workload, str):
        of: Specification | ModuleSource = suite.find(workload)
    else:
        if inputs is None:
            raise InvalidValueError(
                "inputs: a module needs a batch, or its shape, e.g. (16, 3, 224, 224)",
                id="needs-input",
            )
        _, of = _module_source(workload, inputs, optimizer, classes)
        classes = None
    if isinstance(allow, str):
        allow = (allow,)
    return plan_training(
        of,
        device=device,
        samples=samples,
        every=every,
        budget=budget,
        update=batch,
        allow=parse_allowed(",".join(allow)),
        least=least,
        sure=sure,
        classes=classes,
        image_size=image_size,
        engine=engine,
        precision=precision,
    )


def plan_training(
    of: Specification | ModuleSource,
    *,
    device: str,
    samples: int,
    every: str | float | None,
    budget: str | Budget | None,
    update: int | None,
    allow: frozenset[str],
    least: str | None,
    sure: float,
    classes: int | None,
    image_size: int | None,
    engine: str | None,
    precision: str,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """As `plan`, of a workload or module that is already known.

    Args:
        of: The training.
        on_progress: Told how many configurations are estimated, and of how many.

    Raises:
        InvalidValueError: As of `plan`.
    """
    from wattstep import devices, engines
    from wattstep.plan import Budget, Estimator, Question, Session, parse_period, search
    from wattstep.predict import check_device
    from wattstep.schema.workload import PRECISIONS, ModuleSource, Preparation

    where, limits = devices.find(device), Budget.of_any(budget)
    check_device(where, engine=engine, precision=precision)
    for name, number in (("samples", samples), ("batch", update)):
        if number is not None and number < 1:
            raise InvalidValueError(f"--{name} {number}: it must be at least 1", id="out-of-range")
    if update is None:
        own = of.optimizer
        update = min((own and own.at_batch) or PLANNED_UPDATE, samples)
    session = Session(samples=samples, every_s=None if every is None else parse_period(every))
    limits.check(where, session.every_s)
    question = Question(
        device=where,
        engine=engine,
        samples=samples,
        update=update,
        precision=precision,
        precisions=PRECISIONS if isinstance(of, ModuleSource) else of.facts.precisions,
        allow=allow,
    )
    preparation = Preparation(batch_size=update, classes=classes, image_size=image_size)
    capture = engines.find(engines.DEFAULT).capture
    estimator = Estimator(
        lambda prepared, kind: capture(of, prepared, kind), preparation, where, engine, session
    )
    return search(
        question,
        estimator,
        workload=of.name if isinstance(of, ModuleSource) else of.facts.name,
        title=of.name if isinstance(of, ModuleSource) else of.facts.title,
        budget=limits,
        sure=sure,
        least=least,
        on_progress=on_progress,
    )


def study_plans(
    workload: str | Sequence[str],
    *,
    devices: Sequence[str],
    batches: Sequence[int],
    accumulates: Sequence[int] = (1,),
    checkpointing: Sequence[bool] = (False,),
    cluster: str | None = None,
    engine: str | None = None,
    precision: str | Sequence[str] = "fp32",
) -> Study:
    """Predicts every batch size by every accumulation on several devices in all their power modes.

    `wattstep study plans` does the same into a folder, which needs not lie in memory, and goes on after a kill.

    >>> made = wattstep.study_plans("squeezenet", devices=["jetson-nano"], batches=range(1, 65))     # doctest: +SKIP
    >>> made.cells[made.cell[made.columns["energy_per_step"].argmin()]]                              # doctest: +SKIP

    Args:
        workload: Name of one of the suite, or several.
        devices: Names, or paths of their files.
        batches: Samples of a forward pass.
        accumulates: Batches of an update.
        checkpointing: Without and with activation checkpointing, or both.
        cluster: Address of a Dask scheduler whose workers have wattstep (no torch is needed there); None: here.
        engine: Framework as the devices' files name it; None: the one that their values are of.
        precision: Of the training, or several; a device is left out of those that it does not have.

    Returns:
        Step time, energy, memory and the chance to fit as columns, a row each configuration.

    Raises:
        InvalidValueError: An argument is none, it cannot be captured, or a device's values do not reach.
    """
    from wattstep.plan import study

    grid = study_grid(
        [workload] if isinstance(workload, str) else workload,
        devices=devices,
        batches=batches,
        accumulates=accumulates,
        checkpointing=checkpointing,
        engine=engine,
        precisions=[precision] if isinstance(precision, str) else precision,
    )
    with workers_of(cluster) as client:
        return study(grid, client)


def study_grid(
    workloads: Sequence[str],
    *,
    devices: Sequence[str],
    batches: Sequence[int],
    accumulates: Sequence[int],
    checkpointing: Sequence[bool],
    engine: str | None,
    precisions: Sequence[str],
    on_capture: Callable[[str], None] = lambda name: None,
) -> StudyGrid:
    """What `study_plans` studies, its steps captured; `on_capture` is told of which workload.

    Raises:
        InvalidValueError: As of `study_plans`.
    """
    from wattstep import devices as known
    from wattstep import engines
    from wattstep import workloads as suite
    from wattstep.plan import StudyGrid, Variant
    from wattstep.schema.workload import Preparation

    capture = engines.find(engines.DEFAULT).capture
    variants = {
        Variant(workload=of.facts.name, precision=precision, checkpointing=checkpointed): of
        for of in map(suite.find, workloads)
        for precision in precisions
        for checkpointed in checkpointing
    }
    grid = StudyGrid(
        families={},
        devices=[known.find(name) for name in devices],
        batches=tuple(dict.fromkeys(batches)),
        accumulates=tuple(dict.fromkeys(accumulates)),
        engine=engine,
    )
    grid.check(variants)  # before seconds of captures

    def family(variant: Variant, of: Specification, accumulate: int) -> StepFamily:
        on_capture(variant.workload)
        preparation = Preparation(
            batch_size=max(batches), accumulate=accumulate, checkpointing=variant.checkpointing
        )
        return capture(of, preparation, variant.precision)

    added = max(accumulates) > 1
    return replace(
        grid,
        families={
            variant: (family(variant, of, 1), family(variant, of, 2) if added else None)
            for variant, of in variants.items()
        },
    )


@contextmanager
def workers_of(cluster: str | None) -> Iterator[Any]:
    """A client of a Dask scheduler, or None without one.

    Raises:
        InvalidValueError: No scheduler answers there.
    """
    if cluster is None:
        yield None
        return
    from wattstep.sweep.cluster import connect

    client = connect(cluster)
    try:
        yield client
    finally:
        client.close()


def _whole_numbers(shape: Any) -> list[int]:
    """A batch's shape.

    Raises:
        InvalidValueError: It is none.
    """
    try:
        sizes = [] if isinstance(shape, str) else [index(size) for size in shape]
    except TypeError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise InvalidValueError(
            f"inputs {shape!r}: a batch, or its shape in whole numbers from 1 on, e.g. (16, 3, 224, 224)",
            id="malformed-shape",
        )
    return sizes


# Settings of torch's optimizers that are true or false and change what a step does.
_SWITCHES = ("amsgrad", "nesterov", "centered")


def _settings_of(optimizer: Any, model: Any) -> OptimizerSettings:
    """Of torch's optimizer: its name, and what of its settings are numbers.

    Raises:
        InvalidValueError: It is no optimizer, or not one of the parameters that the model trains.
    """
    from wattstep.schema.workload import OptimizerSettings

    try:
        defaults, groups = optimizer.defaults, optimizer.param_groups
    except AttributeError:
        raise InvalidValueError(
            f'optimizer {optimizer!r}: torch\'s object, or text as "adam" or "sgd,momentum=0.9"',
            id="not-an-optimizer",
        ) from None
    updated = {id(each) for group in groups for each in group["params"]}
    if hasattr(model, "parameters") and not isinstance(
        model, type
    ):  # of a function they come later
        mine = {id(each): each.requires_grad for each in model.parameters()}
        trained, others = {key for key, trains in mine.items() if trains}, updated - set(mine)
        if others or not trained <= updated:
            raise InvalidValueError(
                f"the optimizer has {len(updated & trained)} of the model's {len(trained)} parameters that train, and "
                f"{len(others)} of other models: it must have all of the former (freeze what stays), and no others",
                id="other-optimizer",
            )
    numbers = {
        key: value
        for key, value in defaults.items()
        if isinstance(value, (int, float)) and (key in _SWITCHES or not isinstance(value, bool))
    }
    rate = float(numbers.pop("lr", 0.01))
    return OptimizerSettings(name=type(optimizer).__name__.lower(), rate=rate, options=numbers)


def export(
    run: Run | RunReport | RunPath,
    to: str,
    output: RunPath | None = None,
    *,
    force: bool = False,
    on_progress: Callable[[str, float], None] | None = None,
) -> Exported:
    """Writes a run in the format of another tool, in one piece or not at all.

    >>> wattstep.export("runs/mine", "perfetto").path                # doctest: +SKIP

    Args:
        run: A run, its folder, or the report of a run that was never recorded (tables only).
        to: "perfetto", "chrome", "csv" or "parquet".
        output: The file or folder to write; None: the run's name, in the working directory.
        force: Whether to replace what is there.
        on_progress: Told what is written, and how far all of it is (0 to 1).

    Returns:
        What was written: `path`, `size` in B, counts and notes.

    Raises:
        InvalidValueError: There is no such format, or the path does not fit it.
        DamagedRunError: The run cannot be read.
        ExportError: It is there already, or cannot be written.
    """
    from wattstep.report.export.export import export_run, targets
    from wattstep.schema.run_report import RunReport

    source: Path | RunReport
    if isinstance(run, RunReport):
        source = run
    else:
        source = Path(run) if isinstance(run, (str, PathLike)) else run.path
    folder = Path(source.run) if isinstance(source, RunReport) else source
    (target,) = targets([folder], to, None if output is None else Path(output))
    return export_run(source, to, target, force=force, on_progress=on_progress)


def sweep(
    workloads: str | Sequence[str],
    batches: Sequence[int],
    *,
    threads: Sequence[int | None] = (None,),
    precisions: Sequence[str] = ("fp32",),
    engines: Sequence[str] = ("torch",),
    repeats: int = 1,
    memory_limit: str | None = None,
    cooldown: str = "auto",
    out: RunPath = "sweep",
    listener: SweepListener | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Trains every combination on this machine, each in a process of its own: what fits, at what cost.

    >>> report = wattstep.sweep("lenet", [1, 16], steps=50)           # doctest: +SKIP
    >>> [each["status"] for each in report["outcomes"]]               # doctest: +SKIP

    Args:
        workloads: One or more.
        batches: Samples of one forward pass.
        threads: Of an operation; None: the framework's choice.
        precisions: "fp32", "bf16", "amp".
        engines: Frameworks, as `wattstep engines` lists them.
        repeats: Rounds of all combinations, one after the other.
        memory_limit: Of each training process, e.g. "8GiB".
        cooldown: Between trainings: "auto", "none", or seconds.
        out: Folder of the sweep; one that was begun continues.
        listener: Told where the sweep is.
        settings: Fields of `wattstep.train.settings.TrainingSettings` that all have in common; `trace`
            is "none" unless given.

    Returns:
        The document of `wattstep sweep --json`, without its report.

    Raises:
        InvalidValueError: A setting cannot be used.
        RecordingError: Nothing can be measured or written any more.
    """
    from wattstep import workloads as suite
    from wattstep.sweep.folder import SweepFolder, load_sweep
    from wattstep.sweep.plan import ONE_ENGINE, SweepPlan
    from wattstep.sweep.sweep import sweep_here
    from wattstep.train.child.limits import parse_size
    from wattstep.train.child.local_machine import this_machine

    names = (workloads,) if isinstance(workloads, str) else tuple(workloads)
    if not names:
        raise InvalidValueError("there is nothing to sweep: give workloads", id="nothing-to-sweep")
    for name in names:
        suite.check_name(name)
    shared = {
        "least_steps": SWEEP_STEPS, "trace": "none", "engine": next(iter(engines), "torch"), **settings
    }  # fmt: skip
    plan = SweepPlan(
        settings=_settings(workload=names[0], **shared),
        workloads=names,
        batches=tuple(batches),
        threads=tuple(threads),
        precisions=tuple(precisions),
        engines=tuple(engines) if len(engines) > 1 else ONE_ENGINE,
        repeats=repeats,
        memory_limit=None if memory_limit is None else parse_size(memory_limit),
        cooldown=cooldown,
    )
    listener = listener or _Unwatched()
    folder = SweepFolder(Path(out), plan, this_machine(plan.settings.processor), listener.warns)
    try:
        sweep_here(plan, folder, listener)
    finally:
        folder.close()
    return load_sweep(Path(out), warn=listener.warns).to_dict()


def tune(
    what: RunPath,
    arguments: Sequence[str] = (),
    *,
    goal: str = "time",
    batch_size: int | None = None,
    memory_limit: str | None = None,
    allow: Sequence[str] = (),
    turn: Sequence[str] | None = None,
    threads: Sequence[int] = (),
    cores: Sequence[str] = (),
    module: bool = False,
    step_marker: str = "optimizer",
    power_model: str | None = None,
    out: RunPath | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    **settings: Any,
) -> TuneReport:
    """Finds settings under which steps here take less time or energy and learn the same.

    >>> tuned = wattstep.tune("lenet", turn=["threads", "allocator"])  # doctest: +SKIP
    >>> tuned.tuned.chosen, tuned.command                             # doctest: +SKIP

    Args:
        what: A workload of the suite, or a training script (a name that ends in ".py", or a `module`).
        arguments: The script's own.
        goal: What is to be the least: "time" or "energy".
        batch_size: Of a workload; 4 where it is not given.
        memory_limit: Of each process that trains, e.g. "8GiB".
        allow: What may change what is learnt: "precision", "losses".
        turn: What is turned, e.g. ["threads", "channels-last"]; None: all that can be.
        threads: Numbers of threads that are tried; none: 1, 2, 4, ... up to the cores.
        cores: Sets of cores that are tried, e.g. ["0-3", "4-7"]; none: each kind of core.
        module: Whether `what` is a module, as of `python -m`.
        step_marker: What ends a step of a script.
        power_model: Models power where no sensor tells it, e.g. "vcpu".
        out: Folder of the tune; one that was begun continues. None: a new one below `tunes/`.
        on_progress: Told the stage, and the share that is done (0 to 1).
        settings: Of a workload: any other field of `wattstep.train.settings.TrainingSettings`.

    Returns:
        The report: `tuned.chosen` is None where the default is to be kept.

    Raises:
        InvalidValueError: It cannot be tuned, or the folder is another's.
        RecordingError: The folder cannot be written.
    """
    from wattstep.store.files import new_name
    from wattstep.tune.space import parse_allowed, parse_turned
    from wattstep.tune.tuning import Question, check_given, goal_of, settings_of
    from wattstep.tune.tuning import tune as search

    given = {} if batch_size is None else {"batch_size": batch_size}
    question = Question(
        settings=settings_of(
            str(what), arguments, module=module, step_marker=step_marker, power_model=power_model,
            **given, **settings,
        ),
        goal=goal_of(goal),
        limit=_limit(memory_limit, here=True),
        allow=parse_allowed(",".join(allow)),
        given=check_given(threads, cores),
        turned=parse_turned(None if turn is None else ",".join(turn)),
    )  # fmt: skip
    folder = Path("tunes", new_name(Path(question.name).stem)) if out is None else Path(out)
    return search(question, folder, on_progress or (lambda stage, share: None), _warn)


def open_execution_host(target: str | None, say: Callable[[str], None]) -> ExecutionHost:
    """Opens the host on which a training runs; devices' code is loaded only where one is named.

    Args:
        target: As given to `--target`, or None.
        say: Takes a line for the user: what is installed, what stays there.

    Raises:
        WattstepError: The device cannot be reached, or nothing can run there.
        UnrecordedInterrupt: The user stopped it.
    """
    from wattstep.train.execution_hosts import LocalHost, is_elsewhere

    if target is None or not is_elsewhere(target):
        return LocalHost()
    from wattstep.remote.execution_hosts import open_device

    return open_device(target, say)


class _Unwatched:
    """Nobody is told where a sweep is; warnings are warnings."""

    def begins(self, configuration: object, done: int, total: int) -> None:
        """Not told."""

    def progresses(self, progress: Progress) -> None:
        """Not told."""

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """Not told."""

    def warns(self, text: str) -> None:
        """As a warning."""
        _warn(text)


def _settings(**fields: Any) -> TrainingSettings:
    from dataclasses import fields as fields_of

    from wattstep.train.settings import TrainingSettings

    known = [each.name for each in fields_of(TrainingSettings)]
    if unknown := [name for name in fields if name not in known]:
        raise InvalidValueError(
            f"there is no setting {', '.join(unknown)}: {', '.join(known)}", id="unknown-setting"
        )
    return TrainingSettings(**fields)


def _limit(text: str | None, *, here: bool) -> MemoryLimit | None:
    from wattstep.train.child.limits import find_limit, limit_elsewhere, parse_size

    if text is None:
        return None
    return find_limit(parse_size(text)) if here else limit_elsewhere(parse_size(text))


def _runs(side: RunPath | RunReport | Sequence[RunPath | RunReport]) -> list[Path | RunReport]:
    from wattstep.schema.run_report import RunReport

    runs = [side] if isinstance(side, (str, PathLike, RunReport)) else side
    return [run if isinstance(run, RunReport) else Path(run) for run in runs]


def _unheard(progress: Progress) -> None:
    """Nobody is told where a training is."""


def _warn(text: str) -> None:
    from wattstep.record.recorder import RecordingWarning

    warnings.warn(text, RecordingWarning, stacklevel=4)
