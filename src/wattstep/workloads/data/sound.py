"""Sound: waveforms from files, and the mel features that networks are given instead of them."""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wattstep.errors import InvalidValueError

Waveform = npt.NDArray[np.int16]
Values = npt.NDArray[np.float32]

RATE = 16_000
LOUDEST = 32_768
SPEECH_BANDS, COEFFICIENTS = 40, 10


def read_wav(path: Path) -> Waveform:
    """The samples (N,) of a WAV file with one channel of 16 bits at 16 kHz.

    Raises:
        InvalidValueError: It is another kind of file, cut short or empty.
    """
    try:
        with wave.open(str(path), "rb") as file:
            kind = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            length = file.getnframes()
            # A damaged header may promise gigabytes, which must not be made room for.
            short = 2 * length > path.stat().st_size
            content = b"" if short else file.readframes(length)
    # A chunk that is longer than the file ends in a RuntimeError of Python's reader.
    except (OSError, EOFError, RuntimeError, wave.Error) as error:
        raise InvalidValueError(
            f"{path}: not a WAV file, or damaged ({error})", id="damaged-data-file"
        ) from error
    if kind != (1, 2, RATE):
        channels, width, rate = kind
        raise InvalidValueError(
            f"{path}: {channels} channels of {8 * width} bits at {rate} Hz, not 1 of 16 at {RATE}",
            id="other-sound-format",
        )
    if not content or len(content) != 2 * length:
        raise InvalidValueError(
            f"{path}: cut short: its header says {length} samples", id="truncated-recording"
        )
    waveform: Waveform = np.frombuffer(content, np.int16).copy()
    return waveform


def spectrum(waveforms: Waveform, *, window: int, step: int, size: int) -> Values:
    """Magnitudes (..., frames, size // 2 + 1) of the Fourier transform of Hann windows.

    Args:
        waveforms: (..., N), scaled to ±1 here.
        window: Samples of a frame.
        step: Samples from one frame to the next.
        size: Of the transform; frames are followed by zeros up to it.
    """
    frames = np.lib.stride_tricks.sliding_window_view(waveforms, window, axis=-1)[..., ::step, :]
    # The periodic window of signal processing, not the symmetric one of numpy.
    hann = np.hanning(window + 1)[:-1].astype(np.float32) / LOUDEST
    magnitudes: Values = np.abs(np.fft.rfft(frames * hann, n=size)).astype(np.float32)
    return magnitudes


def mel_htk(frequency: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Mels of frequencies (Hz) by O'Shaughnessy's formula, which HTK and TensorFlow use."""
    return 1127.0 * np.log1p(np.asarray(frequency, np.float64) / 700.0)


def mel_slaney(frequency: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Mels of frequencies (Hz) in Slaney's Auditory Toolbox, which librosa uses.

    Linear up to 1 kHz (15 mels there), then logarithmic: 27 mels from 1 to 6.4 kHz.
    """
    hertz = np.asarray(frequency, np.float64)
    return np.where(
        hertz < 1000, hertz * 3 / 200, 15 + 27 * np.log(np.maximum(hertz, 1) / 1000) / np.log(6.4)
    )


def hertz_slaney(mels: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The inverse of `mel_slaney`."""
    mel = np.asarray(mels, np.float64)
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) / 27 * np.log(6.4)))


def _triangles(points: npt.NDArray[np.float64], edges: npt.NDArray[np.float64]) -> Values:
    """Weights (points, len(edges) - 2): each triangle rises from one edge to the next, and falls."""
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    rising = (points[:, None] - low) / (middle - low)
    falling = (high - points[:, None]) / (high - middle)
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


def speech_features() -> Callable[[Waveform], Values]:
    """The function from waveforms (B, N) to mel-frequency cepstral coefficients (B, frames, 10).

    Frames of 30 ms every 20 ms; magnitudes in 40 mel bands from 20 to 4000 Hz; logarithm;
    cosine transform (type II, scaled as in HTK). One second makes 49 frames.

    Source: keyword spotting of MLPerf Tiny (Banbury et al., arXiv 2106.07597), whose features
    are those of `tf.signal`.
    """
    bins = mel_htk(np.arange(257) * RATE / 512)
    filters = _triangles(bins, np.linspace(mel_htk(20.0), mel_htk(4000.0), SPEECH_BANDS + 2))
    filters[0] = 0  # a constant pressure is no sound
    places = (np.arange(SPEECH_BANDS) + 0.5) * np.pi / SPEECH_BANDS
    cosines = np.cos(np.outer(places, np.arange(COEFFICIENTS))).astype(np.float32)
    cosines *= np.float32(np.sqrt(2 / SPEECH_BANDS))

    def compute(waveforms: Waveform) -> Values:
        mels = spectrum(waveforms, window=480, step=320, size=512) @ filters
        features: Values = np.log(mels + np.float32(1e-6)) @ cosines
        return features

    return compute


def machine_features(*, bands: int) -> Callable[[Waveform], Values]:
    """The function from a waveform (N,) to log-mel energies (frames, bands) in decibels.

    Frames of 1024 samples every 512, the first one centred on the start; energies in mel bands
    of equal area up to 8 kHz.

    Source: anomaly detection of MLPerf Tiny (Banbury et al., arXiv 2106.07597), which is the
    baseline of DCASE 2020 task 2 (Koizumi et al., arXiv 2006.05822); its features are librosa's.
    """
    edges = hertz_slaney(np.linspace(0, float(mel_slaney(RATE / 2)), bands + 2))
    filters = _triangles(np.arange(513) * RATE / 1024, edges)
    filters *= (2 / (edges[2:] - edges[:-2])).astype(np.float32)

    def compute(waveform: Waveform) -> Values:
        energies = spectrum(np.pad(waveform, 512), window=1024, step=512, size=1024) ** 2
        decibels: Values = 10 * np.log10(energies @ filters + np.float32(2.2e-16))
        return decibels

    return compute
