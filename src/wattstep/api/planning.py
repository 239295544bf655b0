"""Trainings that need not run: predict, plan and study_plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from operator import index
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.api.runs import RunPath
    from wattstep.plan import Budget, Plan, Study, StudyGrid, Variant
    from wattstep.predict import Prediction
    from wattstep.run import Run
    from wattstep.schema.step_graph import StepFamily
    from wattstep.schema.workload import ModuleSource, OptimizerSettings, Specification

PLANNED_UPDATE = 16  # samples, where a workload does not say for which its learning rate is right


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
