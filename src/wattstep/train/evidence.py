"""Recorded runs as evidence for predictions: what each took, over what is predicted for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log, log1p
from statistics import NormalDist
from typing import Any, Final

from wattstep import engines, workloads
from wattstep.devices.table import Device
from wattstep.errors import InvalidValueError
from wattstep.predict import AnyPredictor, Prediction, predictor_for
from wattstep.predict.fitted import NORMAL_90
from wattstep.predict.like import LABELS, Evidence, Miss, Recorded
from wattstep.record.sensors.machine import describe
from wattstep.recorded.device_memory import OUTSIDE
from wattstep.run.run import Run
from wattstep.schema.configuration import MACHINE, machine
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.figures import Metrics
from wattstep.schema.run_documents import DeviceFacts
from wattstep.schema.run_info import RunInfo
from wattstep.schema.settings import EXCLUDABLE
from wattstep.schema.workload import Preparation
from wattstep.train.calibration.device_file import chosen
from wattstep.train.strategies import STRATEGIES, MemoryStrategies

NOT_RECORDED: Final = ("replay", "emulate", "import", "predicted")  # beginnings of targets


def learn_from(
    predictor: AnyPredictor,
    runs: Sequence[Run],
    device: Device,
    *,
    here: bool = False,
    engine: str | None = None,
    mode: str | None = None,
) -> None:
    """Corrects a predictor by recorded runs: each is predicted itself, and what it took beyond that counts.

    Args:
        predictor: Of a training on `device`, with its engine, precision and mode.
        runs: Of workloads of the suite.
        device: Where it would train, as its file is.
        here: Whether that is this machine.
        engine: As `predictor_for` was given it.
        mode: Likewise.

    Raises:
        InvalidValueError: A run says nothing of this prediction: of another device, engine, processor, precision
            or mode, not of a workload of the suite, or without anything that was measured.
    """
    misses: dict[str, list[Miss]] = defaultdict(list)
    trainings = []
    for run in runs:
        info = run.info
        check_alike(run.path.name, info, predictor, device, here=here, mode=mode)
        of_run = _predictor_of(info, predictor, device, engine, mode)
        assert info.batch_size is not None
        prediction = of_run.at(info.batch_size)
        errors = of_run.errors(prediction)
        figures = measured_figures(run.metrics, prediction)
        unusable = _unusable({name: figures[name] for name in errors}, _slowed(run))
        ratios: dict[str, float] = {}
        for name in [name for name in errors if name not in unusable]:
            figure = figures[name]
            assert figure.value is not None
            ratios[name] = figure.value / _predicted(prediction, name)
            misses[name].append(
                Miss(
                    error=errors[name],
                    off=log(ratios[name]),
                    noise=deviation(figure),
                    systematic=log1p(figure.systematic or 0.0) / NORMAL_90,
                )
            )
        if not ratios:
            why = "; ".join(f"{LABELS[name]}: {reason}" for name, reason in unusable.items())
            raise InvalidValueError(
                f"--like {run.path.name}: nothing in it counts ({why})",
                id="evidence-without-figures",
            )
        trainings.append(
            Recorded(
                run=str(run.path),
                workload=info.workload,
                batch_size=info.batch_size,
                ratios=ratios,
                left_out=unusable,
            )
        )
    predictor.learn(Evidence(misses=dict(misses), trainings=tuple(trainings)))


def check_alike(
    name: str,
    info: RunInfo,
    predictor: AnyPredictor,
    device: Device,
    *,
    here: bool,
    mode: str | None,
) -> None:
    """Refuses a run that says nothing of a prediction.

    Args:
        name: Of the run.
        info: Its description.
        predictor: Of what is predicted.
        device: Where.
        here: Whether that is this machine.
        mode: Power mode of the prediction; None: the one that the device's file is of.

    Raises:
        InvalidValueError: In one line.
    """
    facts = info.device
    target = info.target.partition(":")[0]
    if target.startswith(NOT_RECORDED) or info.imported or "emulated_on" in facts:
        raise InvalidValueError(
            f"--like {name}: it was not measured on its device ({info.target})",
            id="evidence-not-measured",
        )
    if info.workload not in workloads.names() or info.batch_size is None:
        raise InvalidValueError(
            f"--like {name}: {info.title} is no workload of the suite: nothing predicts it",
            id="evidence-not-predictable",
        )
    elsewhere = _other_machine(facts, device, here)
    if elsewhere:
        raise InvalidValueError(f"--like {name}: it {elsewhere}", id="evidence-of-another-device")
    for what, own, wanted, same in (
        (
            "engine", info.engine, predictor.fitted.engine,
            _is_version_of(info.engine, predictor.fitted.engine),
        ),
        ("processor", info.processor, predictor.processor, info.processor == predictor.processor),
        ("precision", info.precision, predictor.precision, info.precision == predictor.precision),
        ("threads", info.threads, predictor.threads, predictor.threads in (None, info.threads)),
        (
            "power mode", facts.get("power_mode"), mode or "that of the device's file (--mode names another)",
            _same_mode(facts.get("power_mode"), mode, device),
        ),
        ("model", "compiled", "as it is", not info.options.get("compiled")),
        (
            "governor", info.options.get("governor") or "one of wattstep", "the device's own",
            not info.options.get("governor") and not info.conditions.get("governor"),
        ),
    ):  # fmt: skip
        if not same:
            raise InvalidValueError(
                f"--like {name}: its {what} is {own or 'not known'}, the prediction's is {wanted}",
                id="evidence-of-another-kind",
            )


def measured_figures(metrics: Metrics, prediction: Prediction) -> dict[str, Figure]:
    """What a run measured of what is predicted, as the prediction counts it, by quantity.

    Args:
        metrics: Of the run.
        prediction: Of the same training.
    """
    figures = {"step_time": metrics["step_time"], "power": metrics["mean_power"]}
    if prediction.processor == "cpu":
        return {**figures, "system": metrics["peak_memory"]}
    whole: Figure = metrics.get("device_peak_memory") or missing("B", "it was not recorded")
    beside = (metrics.get("device_memory_breakdown") or {}).get(OUTSIDE)
    if whole.value is not None and beside is not None and beside.value is not None:
        whole = Figure(
            value=whole.value - beside.value,
            unit="B",
            status=whole.status,
            source=whole.source,
            method=f"{whole.method}, less that",
        )
    return {**figures, "reserved": whole}


def _predictor_of(
    info: RunInfo, predictor: AnyPredictor, device: Device, engine: str | None, mode: str | None
) -> AnyPredictor:
    """What predicts the training of a run."""
    of, options = workloads.find(info.workload), info.options
    given: dict[str, Any] = {name: options[name] for name in STRATEGIES if options.get(name)}  # type: ignore[literal-required]
    assert info.batch_size is not None
    preparation = Preparation(
        batch_size=info.batch_size,
        accumulate=options.get("accumulate") or 1,
        classes=_unless(options.get("classes"), of.facts.classes),
        image_size=_unless(options.get("image_size"), of.facts.image_size),
        channels_last=bool(options.get("channels_last")),
        **MemoryStrategies(**given).prepared,
    )
    captured = engines.find(engines.DEFAULT).capture(of, preparation, predictor.precision)
    return predictor_for(captured, device, engine=engine, precision=predictor.precision, mode=mode)


def _predicted(prediction: Prediction, quantity: str) -> float:
    memory, power = prediction.memory, prediction.power
    if quantity == "power":
        assert power is not None
        return power[0].value
    predicted: Mapping[str, float] = {
        "step_time": prediction.time.total, "reserved": memory.reserved, "system": memory.used
    }  # fmt: skip
    return predicted[quantity]


def _slowed(run: Run) -> str:
    """That most steps which count were slowed down, in words; "" where they were not."""
    flags = [name for name in EXCLUDABLE if name not in run.excluded]
    slowed = run.conditions.steps(flags)
    if slowed.mean() <= 0.5:
        return ""
    return f"{slowed.sum()} of {len(slowed)} steps were disturbed or throttled"


def _unusable(figures: Mapping[str, Figure], slowed: str) -> dict[str, str]:
    """Why figures are no evidence, by quantity; of memory alone is one value enough."""
    reasons = {}
    for name, figure in figures.items():
        timed = name in ("step_time", "power")
        if figure.status is not Status.MEASURED or not figure.value:
            reasons[name] = figure.reason or f"it is {figure.status.value}"
        elif timed and slowed:
            reasons[name] = slowed
        elif timed and not figure.high:
            reasons[name] = "it has no interval"
    return reasons


def deviation(figure: Figure) -> float:
    """Standard deviation of a measured figure's logarithm, from its interval; 0 where it has none."""
    if figure.value is None or figure.low is None or figure.high is None or not figure.confidence:
        return 0.0
    z = NormalDist().inv_cdf((1 + figure.confidence) / 2)
    if figure.low <= 0:
        return (figure.high - figure.low) / 2 / figure.value / z
    return log(figure.high / figure.low) / 2 / z


def _unless(value: int | None, own: int | None) -> int | None:
    """A setting of a workload; None where it is the workload's own."""
    return None if value == own else value


def _other_machine(facts: DeviceFacts, device: Device, here: bool) -> str:
    """That a run is not of the device, in words; "" where it is."""
    if here:
        mine = describe()
        if all(facts.get(key) == mine.get(key) for key in MACHINE):
            return ""
        return f"is of {machine(facts)}, and not of this machine"
    if device.board is not None and facts.get("board") == device.board.name:
        return ""
    if device.board is None and chosen(facts) == device.title:
        return ""
    return f"is of {machine(facts)}, and not of {device.title}"


def _is_version_of(engine: str, fitted: str) -> bool:
    """Whether a run's "torch 1.6.0" is of what values are of: "torch-1.6", or "torch" of any version."""
    name, _, version = engine.partition(" ")
    wanted, _, release = fitted.partition("-")
    return name == wanted and (not release or f"{version}.".startswith(f"{release}."))


def _same_mode(own: str | None, mode: str | None, device: Device) -> bool:
    """Whether a run was in the power mode that is predicted, as far as it says."""
    if mode is not None:
        return own == mode
    return own is None or own.startswith("MAXN") or own not in device.modes
