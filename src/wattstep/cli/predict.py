"""`wattstep predict`: what a training will cost on a device that is not here, without running it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from wattstep.cli import completing
from wattstep.cli.options import Batches, Json, Quiet, named_device, parse_batches
from wattstep.cli.settings_options import with_settings
from wattstep.errors import InvalidValueError
from wattstep.schema.extras import staying

if TYPE_CHECKING:
    from wattstep.schema.workload import ModuleSource, OptimizerSettings, Specification

SGD = "sgd,momentum=0.9,weight_decay=0.0005"

# Options that `plan` takes, too.
Input = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--input", help="One sample of FILE.py:make, e.g. 3x224x224.", metavar="SHAPE"),
]
Classes = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Classes that are told apart.", metavar="N"),
]
ImageSize = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Height and width of a workload's images.", metavar="N"),
]
EngineName = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Framework, as the device's file names it, e.g. torch-1.6.", metavar="NAME"),
]


@with_settings(
    "batch", "accumulate", "input_", "classes", "image_size",
    "checkpointing", "train_last", "lora", "optimizer", "offload",
    "precision", "mode", "engine", "like", "data_time", "json", "quiet",
)  # fmt: skip
def predict(
    what: Annotated[
        str,
        typer.Argument(
            autocompletion=completing.workloads,
            metavar="WORKLOAD|FILE.py:make",
            help="A workload of the suite, or a function of a file that gives a torch module.",
        ),
    ],
    on: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--on",
            help="Device, see devices; its file; or this, once calibrated.",
            metavar="DEVICE",
            autocompletion=completing.devices,
        ),
    ] = None,
    device_: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--device", hidden=True),
    ] = None,
    batch: Batches = "4,16,64",
    input_: Input = None,
    classes: Classes = None,
    image_size: ImageSize = None,
    precision: Annotated[str, typer.Option(help="Of the training.", metavar="KIND")] = "fp32",
    mode: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="Power mode of the device, e.g. 30W; without it the one that its file is of.",
            metavar="NAME",
        ),
    ] = None,
    engine: EngineName = None,
    like: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            "--like",
            help="Recorded run of another network or batch on the same device, which corrects the "
            "prediction. Again for more.",
            metavar="RUN",
            autocompletion=completing.runs,
        ),
    ] = None,
    data_time: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            help="In which one sample is read and prepared, e.g. 3ms: added to the step. Without it a workload's "
            "own operations count, and nothing of FILE.py:make.",
            metavar="TIME",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Predict time, memory and energy of a training on a device that is not here."""
    with staying():
        from wattstep import devices, engines
        from wattstep.cli.lean import without_last_search
        from wattstep.cli.progress import stages_of
        from wattstep.predict import Predictor, check_device, predictor_for
        from wattstep.schema.settings import parse_duration
        from wattstep.schema.workload import Preparation
        from wattstep.store import this_device
        from wattstep.train.strategies import MemoryStrategies

    named = f"--device {device_}: predict calls it --on" if device_ else "no device is named"
    on = named_device(on, f"wattstep predict {what} --on {device_ or 'DEVICE'}", named)
    engines.check_predicted(engine)
    device = devices.find(this_device.find(on))
    check_device(device, engine=engine, precision=precision, mode=mode)
    sizes = parse_batches(batch)
    for size in sizes:
        Predictor.check_batch(size)
    accumulate = given.pop("accumulate")
    strategies = MemoryStrategies(**given)
    strategies.check_strategies(compiled=False)
    without_last_search()
    # What the user's file prints is no part of the prediction.
    with redirect_stdout(sys.stderr):
        training = training_of(what, input_, classes, image_size)
        preparation = Preparation(
            batch_size=max(sizes),
            accumulate=accumulate,
            classes=training.classes,
            image_size=image_size,
            **strategies.prepared,
        )
        with stages_of("predicting", quiet=quiet or json) as stage:
            stage("capturing a step")
            captured = engines.find(engines.DEFAULT).capture(
                training.of, preparation, precision, evaluated=True
            )
            predictor = predictor_for(
                captured, device, engine=engine, precision=precision, mode=mode
            )
            predictor.sample_s = 0.0 if data_time is None else parse_duration(data_time)
            if like:
                from wattstep.run import load
                from wattstep.train.evidence import learn_from

                stage("predicting what was recorded")
                learn_from(
                    predictor,
                    [load(path) for path in like],
                    device,
                    here=on == this_device.THIS,
                    engine=engine,
                    mode=mode,
                )
            predictions = []
            for size in sizes:
                stage(f"batch {size}")
                predictions.append(predictor.at(size))
            stage("looking for the largest batch")
            largest = {str(sure): predictor.largest(sure) for sure in (0.98, 0.5)}
    if json:
        from wattstep.report.json_document import dump

        reports = [
            one.report(
                workload=training.name,
                title=training.title,
                tokens_per_sample=training.tokens_per_sample,
                options=strategies.strategies,
            ).to_dict()
            for one in predictions
        ]
        fits = {
            "probability": {str(one.batch_size): one.fits_with for one in predictions},
            "largest_batch": largest,
            "searched_to": predictor.searched,
        }
        recorded = [asdict(each) for each in predictor.evidence.trainings]
        dump({"runs": reports, "fits": fits, "like": recorded}, sys.stdout)
        return
    from wattstep.cli.screen import screen
    from wattstep.report.terminal.predict import print_predictions
    from wattstep.report.wording import strategies as words

    ways = [f"accumulated {accumulate} times"] if accumulate != 1 else []
    ways += filter(None, words(strategies.strategies).values())
    print_predictions(
        ", ".join([training.title, *ways]),
        predictor,
        predictions,
        screen(),
        largest=(largest["0.98"], largest["0.5"]),
    )


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is to be predicted.

    Attributes:
        of: The workload, or the user's own module.
        name: Of it.
        title: In words.
        classes: Of a workload, as its preparation takes them.
        tokens_per_sample: Of a workload whose samples are sequences of tokens.
    """

    of: Specification | ModuleSource
    name: str
    title: str
    classes: int | None = None
    tokens_per_sample: int | None = None


def training_of(
    what: str,
    input_: str | None,
    classes: int | None,
    image_size: int | None,
    optimizer: str | None = None,
) -> Training:
    """What a command is to predict: a workload of the suite, or a function of the user's file.

    Args:
        what: Name of a workload, or "FILE.py:make".
        input_: With --input, or None.
        classes: With --classes, or None.
        image_size: With --image-size, or None.
        optimizer: With --optimizer, or None.

    Raises:
        InvalidValueError: There is no such thing, or an option is of the other kind.
    """
    from wattstep import workloads
    from wattstep.schema.workload import OptimizerSettings

    if ".py:" in what:
        if image_size is not None:
            raise InvalidValueError(
                "--image-size is of a workload; FILE.py:make takes --input", id="needless-option"
            )
        source = module_source(what, input_, classes, OptimizerSettings.parse(optimizer or SGD))
        return Training(of=source, name=source.name, title=source.name)
    if input_ is not None:
        raise InvalidValueError(
            "--input is of FILE.py:make; a workload takes --image-size", id="needless-option"
        )
    if optimizer is not None:
        raise InvalidValueError(
            "--optimizer is of FILE.py:make; a workload has its own", id="needless-option"
        )
    of = workloads.find(what)
    return Training(
        of=of,
        name=of.facts.name,
        title=of.facts.title,
        classes=classes,
        tokens_per_sample=of.facts.tokens_per_sample,
    )


def module_source(
    what: str, shape: str | None, classes: int | None, optimizer: OptimizerSettings
) -> ModuleSource:
    """The network that a function of a file gives.

    Args:
        what: "FILE.py:make".
        shape: Of one sample, "3x224x224".
        classes: Of the loss.
        optimizer: Of its parameters.

    Raises:
        InvalidValueError: There is no such file or function, or no shape.
    """
    from wattstep.schema.workload import ModuleSource

    file, _, name = what.rpartition(":")
    if shape is None:
        raise InvalidValueError(
            f"{what} needs the shape of one sample: --input 3x224x224", id="needs-input"
        )
    try:
        sizes = tuple(int(part) for part in shape.lower().split("x"))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise InvalidValueError(
            f"--input {shape!r}: whole numbers with x between them, e.g. 3x224x224",
            id="malformed-shape",
        )
    make = getattr(_module(Path(file)), name, None)
    if not callable(make):
        raise InvalidValueError(f"{file} has no function {name!r}", id="no-such-function")
    return ModuleSource(
        make=make,
        name=f"{Path(file).stem}:{name}",
        input_shape=sizes,
        classes=classes,
        optimizer=optimizer,
    )


def _module(path: Path) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.is_file():
        raise InvalidValueError(f"{path} is no file", id="no-such-file")
    specification = spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = module_from_spec(specification)
    sys.path.insert(0, str(path.parent.absolute()))  # what it imports lies beside it
    try:
        specification.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InvalidValueError(
            f"{path} fails: {type(error).__name__}: {error}", id="file-fails"
        ) from error
    finally:
        sys.path.pop(0)
    return module
