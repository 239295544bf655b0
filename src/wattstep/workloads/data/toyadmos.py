"""The sound of toy machines: ToyADMOS from disk, or a synthesised hum in its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.samples import Array, Samples, describe, folders, spread_evenly
from wattstep.workloads.data.sound import (
    LOUDEST,
    RATE,
    Values,
    Waveform,
    machine_features,
    read_wav,
)

NAME = "ToyADMOS"
TOY = "ToyCar"
BANDS = 128
FRAMES = 5
# What the network sees: five frames of 32 ms steps, one after the other.
VALUES = BANDS * FRAMES
# Of the 4,000 normal recordings: about 100 MB as features, 309 samples of 2.5 kB each.
FILES = 128
# Half a thousand windows from all of them, as an evaluation looks at the first few only.
HELD_OUT_FILES, HELD_OUT_STEP = 50, 30
SECONDS = 10
STAND_IN_FILES, STAND_IN_HELD_OUT = 8, 2


def read_machine(data_dir: Path | None, *, files: int = FILES) -> Samples:
    """Log-mel energies (N, 640) in decibels; the targets are the same array.

    The layout is that of the development data of DCASE 2020 task 2: `ToyCar/train` holds
    normal recordings only; of `ToyCar/test` the normal ones are held out. The anomalies are
    not read: how well they are told apart is no loss.

    Args:
        data_dir: Where the folder ToyCar lies.
        files: The most recordings to train on, evenly spread over their names.

    Raises:
        InvalidValueError: ToyADMOS is there, but cannot be read.
    """
    folder = _find(data_dir)
    return _stand_in() if folder is None else _official(folder, files)


def _find(data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    candidates = (path for path in folders(data_dir) if path.name == TOY)
    return next((path for path in candidates if (path / "train").is_dir()), None)


def _official(folder: Path, files: int) -> Samples:
    trained = _choose(folder / "train", files)
    inputs = _features([read_wav(path) for path in trained])
    held_out = None
    if (folder / "test").is_dir():
        judged = [read_wav(path) for path in _choose(folder / "test", HELD_OUT_FILES)]
        held_out = _features(judged, step=HELD_OUT_STEP)
    return _describe(
        f"{NAME} ({TOY}), {len(trained)} recordings", inputs, held_out, stands_for=None
    )


def _choose(folder: Path, count: int) -> list[Path]:
    normal = sorted(folder.glob("normal_*.wav"))
    if not normal:
        raise InvalidValueError(
            f"{folder}: no recording of a normal machine (normal_*.wav)", id="no-normal-recording"
        )
    return spread_evenly(normal, count)


def _features(waveforms: Sequence[Waveform], *, step: int = 1) -> Values:
    """Windows of five frames (N, 640), each `step` frames after the one before."""
    compute = machine_features(bands=BANDS)
    windows = [stack_frames(compute(waveform))[::step] for waveform in waveforms]
    features: Values = np.concatenate(windows)
    return features


def stack_frames(frames: Values) -> Values:
    """Frames (T, 128) as windows (T - 4, 640)."""
    windows = np.lib.stride_tricks.sliding_window_view(frames, FRAMES, axis=0)
    stacked: Values = windows.transpose(0, 2, 1).reshape(-1, VALUES)
    return stacked


def _describe(
    name: str, inputs: Array, held_out: Array | None, *, stands_for: str | None
) -> Samples:
    return describe(
        name=name,
        inputs=inputs,
        targets=inputs,
        held_out=None if held_out is None else (held_out, held_out),
        stands_for=stands_for,
    )


def _stand_in() -> Samples:
    random = np.random.default_rng(0)
    machines = [hum(random) for _ in range(STAND_IN_FILES + STAND_IN_HELD_OUT)]
    return _describe(
        "synthesised hum of small motors",
        _features(machines[:STAND_IN_FILES]),
        _features(machines[STAND_IN_FILES:], step=HELD_OUT_STEP),
        stands_for=NAME,
    )


def hum(random: np.random.Generator) -> Waveform:
    """Ten seconds of a motor: a tone with overtones whose speed wavers, and the noise of air."""
    seconds = np.arange(SECONDS * RATE) / RATE
    wavering = 1 + 0.03 * np.sin(2 * np.pi * random.uniform(0.1, 0.5) * seconds)
    turns = np.cumsum(random.uniform(80, 160) * wavering) / RATE
    tones = sum(np.sin(2 * np.pi * turns * overtone) / overtone for overtone in (1, 2, 3, 5, 8, 13))
    noise = random.normal(0, 0.02, len(seconds))
    waveform: Waveform = ((0.2 * tones + noise) * (LOUDEST - 1) / 2).astype(np.int16)
    return waveform
