"""Spoken words of one second: Speech Commands from disk, or sine-wave speech in its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.samples import (
    Array,
    Samples,
    describe,
    folders,
    read_bytes,
    spread_evenly,
)
from wattstep.workloads.data.sound import LOUDEST, RATE, Waveform, read_wav

NAME = "Speech Commands"
# The twelve classes of Warden, arXiv 1804.03209, section 6: ten words, all others, and none.
WORDS = (
    *("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"),
    *("unknown", "silence"),
)
UNKNOWN, SILENCE = len(WORDS) - 2, len(WORDS) - 1
NOISE = "_background_noise_"
TESTING, VALIDATION = "testing_list.txt", "validation_list.txt"
SECOND = RATE
# Of the 36,923 that the twelve classes have in training: 128 MB at 32 kB each.
LIMIT = 4_000
STAND_IN_LIMIT = 480
# One is held out for so many that are trained on.
HELD_OUT_SHARE = 8


def read_waveforms(data_dir: Path | None, *, limit: int = LIMIT) -> Samples:
    """Waveforms (N, 16000) of 16 bits at 16 kHz, and which of `WORDS` is spoken in each (N,).

    The classes are equally large as far as the files go, and each is spread evenly over its
    files. Only the files that are chosen are read.

    Args:
        data_dir: Where the folder of the official archive lies.
        limit: The most waveforms to train on; an eighth of it is held out.

    Raises:
        InvalidValueError: Speech Commands is there, but cannot be read.
    """
    folder = _find(data_dir)
    return _stand_in(limit) if folder is None else _official(folder, limit)


def _find(data_dir: Path | None) -> Path | None:
    if data_dir is None:
        return None
    return next((path for path in folders(data_dir) if (path / TESTING).is_file()), None)


def _official(folder: Path, limit: int) -> Samples:
    testing, validation = _read_list(folder / TESTING), _read_list(folder / VALIDATION)
    files = [path for path in sorted(folder.glob("*/*.wav")) if path.parent.name != NOISE]
    named = {f"{path.parent.name}/{path.name}": path for path in files}
    lost = sorted((testing | validation) - named.keys())
    if lost:
        raise InvalidValueError(
            f"{folder}: {lost[0]} is missing, which its lists name", id="missing-data-file"
        )
    # The validation list is for choosing among models: neither trained on nor judged by.
    trained = [path for name, path in named.items() if name not in testing | validation]
    noises = _read_noises(folder / NOISE)
    inputs, targets = _read(trained, noises, limit)
    return describe(
        name=f"{NAME}, {len(inputs)} of its training waveforms",
        inputs=inputs,
        targets=targets,
        held_out=_read([named[name] for name in sorted(testing)], noises, limit // HELD_OUT_SHARE),
    )


def _read_list(path: Path) -> set[str]:
    try:
        return set(read_bytes(path).decode("ascii").split())
    except UnicodeDecodeError as error:
        raise InvalidValueError(
            f"{path}: not a list of files ({error})", id="damaged-data-file"
        ) from error


def _read_noises(folder: Path) -> list[Waveform]:
    noises = [read_wav(path) for path in sorted(folder.glob("*.wav"))]
    if not any(len(noise) >= SECOND for noise in noises):
        raise InvalidValueError(
            f"{folder}: no noise of a second or more, which is the silence", id="no-noise"
        )
    return [noise for noise in noises if len(noise) >= SECOND]


def _read(files: list[Path], noises: list[Waveform], limit: int) -> tuple[Array, Array]:
    """Waveforms and classes: the first of each class, the second of each, and so on."""
    classes: list[list[Path]] = [[] for _ in WORDS]
    for path in files:
        word = path.parent.name
        classes[WORDS.index(word) if word in WORDS[:UNKNOWN] else UNKNOWN].append(path)
    share = max(1, limit // len(WORDS))
    spread = [spread_evenly(paths, share) for paths in classes[:SILENCE]]
    quiet = list(_cut_noises(noises, count=max(len(paths) for paths in spread)))
    waveforms, targets = [], []
    for rank in range(len(quiet)):
        for number, paths in enumerate(spread):
            if rank < len(paths):
                waveforms.append(fit(read_wav(paths[rank])))
                targets.append(number)
        waveforms.append(quiet[rank])
        targets.append(SILENCE)
    if not waveforms:
        raise InvalidValueError("Speech Commands: its folder has lists, but no words")
    return np.stack(waveforms), np.array(targets, np.uint8)


def fit(waveform: Waveform) -> Waveform:
    """The waveform cut to a second, or followed by silence up to it."""
    fitted: Waveform = np.zeros(SECOND, np.int16)
    fitted[: len(waveform)] = waveform[:SECOND]
    return fitted


def _cut_noises(noises: list[Waveform], *, count: int) -> Iterator[Waveform]:
    """Seconds of noise, each from the next file, spread over its length."""
    for n in range(count):
        noise = noises[n % len(noises)]
        start = n * (len(noise) - SECOND) // count
        yield noise[start : start + SECOND]


# First and second formant (Hz) of vowels: means over men in Peterson and Barney 1952, table II.
FORMANTS = {
    "i": (270, 2290),
    "e": (530, 1840),
    "ae": (660, 1720),
    "a": (730, 1090),
    "o": (570, 840),
    "u": (440, 1020),
    "oo": (300, 870),
    "uh": (640, 1190),
    "er": (490, 1350),
}
# The vowels that each word glides between, and where it hisses: before, after or not at all.
SOUNDS = {
    "yes": ("i", "e", "after"),
    "no": ("uh", "u", ""),
    "up": ("uh", "uh", ""),
    "down": ("ae", "u", ""),
    "left": ("e", "e", "after"),
    "right": ("a", "i", ""),
    "on": ("a", "a", ""),
    "off": ("o", "o", "after"),
    "stop": ("a", "a", "before"),
    "go": ("uh", "oo", ""),
    "unknown": ("er", "ae", "before"),
}


def _stand_in(limit: int) -> Samples:
    trained = max(len(WORDS), min(limit, STAND_IN_LIMIT))
    held_out = max(len(WORDS), trained // HELD_OUT_SHARE)
    random = np.random.default_rng(0)
    targets = np.arange(trained + held_out, dtype=np.uint8) % len(WORDS)
    inputs = np.stack([speak(WORDS[target], random) for target in targets])
    return describe(
        name="sine-wave speech: synthesised tones that glide as the formants of each word do",
        inputs=inputs[:trained],
        targets=targets[:trained],
        held_out=(inputs[trained:], targets[trained:]),
        stands_for=NAME,
    )


def speak(word: str, random: np.random.Generator) -> Waveform:
    """Second of sound in which the word is said once, by another voice at another time at each call.

    Two tones follow the formants of the word's vowels, in pulses at the pitch of the voice.
    Source of the idea: Remez et al., Speech perception without traditional speech cues,
    Science 212 (1981); three such tones are understood by listeners.
    """
    sound = random.normal(0, 0.002, SECOND)
    if word != "silence":
        spoken = _say(*SOUNDS[word], random)
        start = random.integers(0, SECOND - len(spoken))
        sound[start : start + len(spoken)] += spoken
    waveform: Waveform = (np.clip(sound, -1, 1) * (LOUDEST - 1)).astype(np.int16)
    return waveform


def _say(first: str, last: str, hiss: str, random: np.random.Generator) -> Array:
    length = int(random.integers(4_000, 7_000))
    glide = np.linspace(0, 1, length)
    # Shorter vocal tracts have higher formants and, mostly, higher pitch.
    voice = random.uniform(0.9, 1.25)
    pitch = 2 * np.pi * 120 * voice**2 / RATE * np.arange(length)
    pulses = (0.5 + 0.5 * np.cos(pitch)) ** 2 * np.sin(np.pi * glide) ** 0.5
    tones = sum(
        np.sin(2 * np.pi * voice / RATE * np.cumsum(start + (end - start) * glide))
        for start, end in zip(FORMANTS[first], FORMANTS[last], strict=True)
    )
    vowel = 0.3 * tones * pulses
    noise = random.normal(0, 0.1, 2_000 if hiss else 0)
    return np.concatenate((noise, vowel) if hiss == "before" else (vowel, noise))
