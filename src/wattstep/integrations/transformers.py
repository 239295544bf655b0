"""A callback for Hugging Face's Trainer and those built on it (TRL): one line records a training as a run."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from wattstep.integrations.session import Beginning, CallbackSettings, Session, tell
from wattstep.integrations.steps import loss_in, samples_in
from wattstep.schema.extras import require

_transformers: Any = require("transformers")
require("accelerate")  # transformers installs without it, and its Trainer needs it
Trainer = _transformers.Trainer
_ORDER = ("logging", "evaluation", "checkpointing")  # what the trainer does after a step


class WattstepCallback(_transformers.TrainerCallback):  # type: ignore[misc]  # it has no types
    """Records each `train` as a run.

    >>> trainer = Trainer(..., callbacks=[WattstepCallback()])       # doctest: +SKIP

    The first process of each machine records. What it is asked for is explained at
    `wattstep.integrations.session.CallbackSettings`.

    Attributes:
        runs: Folders of the runs of this process, the last training's last.

    Raises:
        InvalidValueError: A setting cannot be used.
    """

    def __init__(self, folder: str | Path = "runs", **settings: Any) -> None:
        self._settings = CallbackSettings(folder=folder, **settings)
        self._session: Session | None = None
        self._trainer: Any = None
        self._first = _First(self)
        self.runs: list[Path] = []
        _follow_trainers()

    # --- beginning and end ------------------------------------------------------------------

    def enters(self, trainer: Any) -> None:
        """`trainer.train` was called."""
        self._trainer = trainer
        trainer.callback_handler.callbacks.insert(0, self._first)

    def leaves(self, error: BaseException | None) -> None:
        """`trainer.train` has ended."""
        self._trainer.callback_handler.callbacks.remove(self._first)
        self._trainer = None
        session, self._session = self._session, None
        if session is not None:
            session.end() if error is None else session.failed(error)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The model is where it will train."""
        if args.local_process_index != 0:
            return
        if self._session is not None:  # begun anew, with a smaller batch
            self._session.end(log=False)
        trainer = self._trainer
        session = self._session = Session(self._settings)
        session.begin(_beginning(args, state, kwargs.get("model"), trainer, self._settings.log))
        if session.path is None:
            return
        self.runs.append(session.path)
        if trainer is None:
            session.note(
                "samples and phases are not known: the training was not begun by Trainer.train"
            )
        else:
            self._listen(session, trainer)
        if args.eval_on_start:
            tell(self._session, lambda session: session.marks.span_begins("evaluation"))

    def _listen(self, session: Session, trainer: Any) -> None:
        """Wraps the training step for batches, which no event tells."""
        session.wrap(trainer, "training_step", self._batch)

    def end(self) -> None:
        """The training is over; the loggers are still open."""
        if self._session is not None:
            self._session.end()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends the session where nothing did so before."""
        self.end()

    # --- the loop ---------------------------------------------------------------------------

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Data is asked for."""
        tell(self._session, lambda session: session.marks.asks_for_data())

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All batches of the step are there."""
        if self._trainer is None:
            tell(self._session, lambda session: session.marks.batch(None))

    def _batch(self, plain: Any) -> Any:
        """Around the forward and backward pass of one batch."""

        @functools.wraps(plain)
        def training_step(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            tell(self._session, lambda session: session.marks.batch(samples_in(inputs)))
            loss = plain(model, inputs, *args, **kwargs)
            tell(self._session, lambda session: session.marks.loss(loss_in(loss)))
            return loss

        return training_step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The optimizer has made its step."""
        tell(self._session, lambda session: self._step_ends(session, state, control))

    def _step_ends(self, session: Session, state: Any, control: Any) -> None:
        session.step_ends(state.global_step)
        if self._settings.progress and self._trainer is not None:
            _show(self._trainer, session.live.words())
        self._go_on(session, control, "")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Values have been logged; an evaluation logs what it found before it ends."""
        if not any(str(key).startswith("eval_") for key in logs or ()):
            tell(self._session, lambda session: self._go_on(session, control, "logging"))

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation is over."""
        tell(self._session, lambda session: self._go_on(session, control, "evaluation"))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A checkpoint is written."""
        tell(self._session, lambda session: self._go_on(session, control, "checkpointing"))

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """An evaluation or a checkpoint may follow."""
        tell(self._session, lambda session: self._go_on(session, control, "", ends=True))

    def _go_on(self, session: Session, control: Any, over: str, *, ends: bool = False) -> None:
        """After a step, or something beside it: what the trainer does next, in its own order.

        Args:
            session: The recording.
            control: Actions that the trainer will take.
            over: Action that has just ended; "" for a step.
            ends: True if no step follows at once.
        """
        marks = session.marks
        if marks.training:
            return  # somebody logs within a step
        if over and not marks.span:
            marks.book_span(over)
        marks.span_ends()
        coming = _coming(control, over)
        if coming:
            marks.span_begins(coming)
        elif not ends and not control.should_training_stop:
            marks.asks_for_data()


class _First(_transformers.TrainerCallback):  # type: ignore[misc]  # it has no types
    """Stands before the callbacks that log: at the end they close what figures are logged to."""

    def __init__(self, callback: WattstepCallback) -> None:
        self._callback = callback

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._callback.end()


def _coming(control: Any, over: str) -> str:
    """Name of what follows: the trainer logs, then evaluates, then saves; "" for a step."""
    wanted = (control.should_log, control.should_evaluate, control.should_save)
    since = _ORDER.index(over) + 1 if over else 0
    return next((name for name, on in list(zip(_ORDER, wanted, strict=True))[since:] if on), "")


@functools.cache
def _follow_trainers() -> None:
    """Once: callbacks are told when `train` begins, and that it has ended, by an error as well.

    A Trainer tells its callbacks of the end only where all went well, and never who it is.
    """
    plain = Trainer.train

    @functools.wraps(plain)
    def train(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        ours = [c for c in trainer.callback_handler.callbacks if isinstance(c, WattstepCallback)]
        error: BaseException | None = None
        for callback in ours:
            callback.enters(trainer)
        try:
            return plain(trainer, *args, **kwargs)
        except BaseException as problem:
            error = problem
            raise
        finally:
            for callback in ours:
                callback.leaves(error)

    Trainer.train = train


def _beginning(args: Any, state: Any, model: Any, trainer: Any, log: bool) -> Beginning:
    here = int(os.environ.get("LOCAL_WORLD_SIZE", args.world_size))  # as torchrun tells it
    return Beginning(
        name=type(model).__name__,
        model=model,
        batch_size=args.train_batch_size,
        accumulate=args.gradient_accumulation_steps,
        first_step=state.global_step,
        total_steps=max(state.max_steps - state.global_step, 0) or None,
        processes=here,
        trainer=f"transformers {_transformers.__version__}",
        loggers=_loggers(trainer) if log and trainer is not None else (),
    )


def _loggers(trainer: Any) -> list[Any]:
    """Loggers of the trainer, by its callbacks."""
    kinds = _transformers.integrations
    loggers: list[Any] = []
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, kinds.TensorBoardCallback) and callback.tb_writer is not None:
            loggers.append(callback.tb_writer)
        elif isinstance(callback, kinds.WandbCallback) and require("wandb").run is not None:
            loggers.append("wandb")
        elif isinstance(callback, kinds.MLflowCallback) and require("mlflow").active_run():
            loggers.append("mlflow")
    return loggers


def _show(trainer: Any, words: str) -> None:
    """In the progress line of a terminal, or before that of a notebook."""
    if not words:
        return
    for callback in trainer.callback_handler.callbacks:
        bar = getattr(callback, "training_bar", None)
        if bar is not None:
            bar.set_postfix_str(words, refresh=False)
        tracker = getattr(callback, "training_tracker", None)
        if tracker is not None:
            tracker.prefix = words
