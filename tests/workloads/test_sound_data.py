"""What the readers of sound promise; features are checked against other people's formulas."""

import wave

import numpy as np
import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.errors import InvalidValueError
from wattstep.workloads.data.samples import spread_evenly
from wattstep.workloads.data.sound import (
    hertz_slaney,
    machine_features,
    mel_htk,
    mel_slaney,
    read_wav,
    spectrum,
    speech_features,
)
from wattstep.workloads.data.speech_commands import (
    SOUNDS,
    WORDS,
    read_waveforms,
    speak,
)
from wattstep.workloads.data.toyadmos import read_machine, stack_frames


def write_wav(path, values, *, channels=1, width=2, rate=16_000):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(np.asarray(values, "<i2").tobytes())
    return path


def tone(frequency, seconds=1.0):
    return (
        8000 * np.sin(2 * np.pi * frequency * np.arange(int(16_000 * seconds)) / 16_000)
    ).astype(np.int16)


# Files


def test_a_wav_file_is_read_sample_by_sample(tmp_path):
    values = [0, 1, -1, 32_767, -32_768]
    assert read_wav(write_wav(tmp_path / "a.wav", values)).tolist() == values


@pytest.mark.parametrize("size", [0, 3, 11, 12, 20, 35, 43, 44, 45, 52, 53])
def test_a_truncated_wav_file_is_named(tmp_path, size):
    path = write_wav(tmp_path / "cut.wav", [1, 2, 3, 4, 5])
    assert path.stat().st_size == 54
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InvalidValueError, match=r"cut\.wav"):
        read_wav(path)


def test_a_damaged_header_ends_in_one_kind_of_error(tmp_path):
    random = np.random.default_rng(0)
    content = write_wav(tmp_path / "a.wav", range(50)).read_bytes()
    path = tmp_path / "damaged.wav"
    refusals_name_the_file = []
    for _ in range(400):
        damaged = bytearray(content)
        damaged[random.integers(44)] = random.integers(256)
        damaged[random.integers(44)] = random.integers(256)
        path.write_bytes(damaged)
        try:
            read_wav(path)  # what can still be read is; any other error ends the test
        except InvalidValueError as error:
            refusals_name_the_file.append(str(path) in str(error))
    assert refusals_name_the_file
    assert all(refusals_name_the_file)


@pytest.mark.parametrize(
    "kind", [{"channels": 2}, {"width": 1}, {"rate": 44_100}, {"channels": 2, "rate": 8_000}]
)
def test_another_kind_of_sound_is_refused(tmp_path, kind):
    path = write_wav(tmp_path / "other.wav", [1, 2, 3, 4], **kind)
    with refused("other-sound-format", "other.wav", "16000"):
        read_wav(path)


def test_what_is_no_wav_file_or_empty_or_missing_is_refused(tmp_path):
    (tmp_path / "text.wav").write_text("RIFFraff, but nothing that is sound")
    write_wav(tmp_path / "empty.wav", [])
    for name in ("text.wav", "empty.wav", "missing.wav"):
        with pytest.raises(InvalidValueError, match=name):
            read_wav(tmp_path / name)


# Features


def test_the_mel_scales_have_the_values_of_the_literature():
    # O'Shaughnessy: 1000 mels at 1 kHz. Slaney, as in the documentation of librosa.hz_to_mel.
    assert float(mel_htk(1000.0)) == pytest.approx(1000, abs=0.02)
    assert mel_slaney([60, 110, 220, 440]).tolist() == pytest.approx([0.9, 1.65, 3.3, 6.6])
    assert mel_slaney([1000, 6400]).tolist() == pytest.approx([15, 42])
    assert hertz_slaney([1, 3, 42]).tolist() == pytest.approx([200 / 3, 200, 6400])


def test_the_spectrum_is_the_sum_that_defines_the_fourier_transform():
    sound = np.random.default_rng(1).integers(-9000, 9000, 50).astype(np.int16)
    frames = spectrum(sound, window=20, step=15, size=32)
    assert frames.shape == (3, 17)
    n = np.arange(20)
    hann = np.sin(np.pi * n / 20) ** 2
    for frame in range(3):
        part = sound[15 * frame : 15 * frame + 20] / 32_768 * hann
        for k in range(17):
            wanted = abs(np.sum(part * np.exp(-2j * np.pi * k * n / 32)))
            assert frames[frame, k] == pytest.approx(wanted, abs=1e-6)


def test_speech_features_are_those_of_other_libraries():
    audio_utils = pytest.importorskip("transformers.audio_utils")
    fft = pytest.importorskip("scipy.fft")
    sound = speak("yes", np.random.default_rng(3))
    # Kaldi's mel scale is ln(1 + f / 700) · 1127, as is that of `tf.signal`.
    filters = audio_utils.mel_filter_bank(
        257, 40, 20.0, 4000.0, 16_000, mel_scale="kaldi", triangularize_in_mel_space=True
    )
    filters[0] = 0
    mels = spectrum(sound, window=480, step=320, size=512) @ filters
    cosines = fft.dct(np.log(mels + 1e-6), type=2, norm="ortho")[:, :10]
    cosines[:, 0] *= np.sqrt(2)  # HTK scales the first coefficient as the others
    features = speech_features()(sound[None])
    assert features.shape == (1, 49, 10)
    np.testing.assert_allclose(features[0], cosines, atol=2e-3)


def test_machine_features_are_those_of_other_libraries():
    audio_utils = pytest.importorskip("transformers.audio_utils")
    sound = tone(440) + np.random.default_rng(0).integers(-500, 500, 16_000).astype(np.int16)
    filters = audio_utils.mel_filter_bank(
        513, 128, 0.0, 8000.0, 16_000, norm="slaney", mel_scale="slaney"
    )
    energies = audio_utils.spectrogram(
        sound / 32_768,
        audio_utils.window_function(1024, "hann"),
        frame_length=1024,
        hop_length=512,
        power=2.0,
        pad_mode="constant",
        mel_filters=filters,
        mel_floor=0.0,
    )
    features = machine_features(bands=128)(sound)
    assert features.shape == (32, 128)
    # Some of 128 bands are narrower than a bin of 15.6 Hz, and empty in either.
    np.testing.assert_allclose(features, 10 * np.log10(energies.T + 2.2e-16), atol=0.02)


# Speech Commands: each file is filled with a number of its own.

FILES = {
    "yes/a.wav": 10,
    "yes/b.wav": 11,
    "yes/c.wav": 12,
    "yes/d.wav": 13,
    "no/a.wav": 20,
    "no/b.wav": 21,
    "cat/a.wav": 30,
    "tree/a.wav": 40,
    "tree/b.wav": 41,
}


def write_commands(root, *, testing=("yes/c.wav", "tree/b.wav"), validation=("yes/d.wav",)):
    folder = root / "speech_commands_v0.02"
    for name, value in FILES.items():
        write_wav(folder / name, np.full(16_000, value))
    write_wav(folder / "_background_noise_" / "noise.wav", np.arange(20_000))
    (folder / "testing_list.txt").write_text("".join(f"{name}\n" for name in testing))
    (folder / "validation_list.txt").write_text("".join(f"{name}\n" for name in validation))
    (folder / "README.md").write_text("Speech Commands")
    return folder


def said(inputs, targets):
    """The number and the word of each waveform, without the silences."""
    pairs = zip(inputs[:, 0].tolist(), targets.tolist(), strict=True)
    return sorted((number, WORDS[target]) for number, target in pairs if target != 11)


def test_speech_commands_are_read_and_their_test_list_is_held_out(tmp_path):
    write_commands(tmp_path)
    samples = read_waveforms(tmp_path, limit=120)
    assert samples.inputs.dtype == np.int16
    assert samples.inputs.shape[1:] == (16_000,)
    assert said(samples.inputs, samples.targets) == [
        (10, "yes"),
        (11, "yes"),
        (20, "no"),
        (21, "no"),
        (30, "unknown"),
        (40, "unknown"),
    ]
    held_out = said(samples.held_out_inputs, samples.held_out_targets)
    assert held_out == [(12, "yes"), (41, "unknown")]
    facts = samples.facts
    assert (facts.stand_in, facts.stands_for, facts.samples) == (False, None, 8)
    assert_says(facts.name, "Speech Commands", "8 of its")


def test_silence_is_cut_from_the_background_noise(tmp_path):
    write_commands(tmp_path)
    samples = read_waveforms(tmp_path, limit=120)
    quiet = samples.inputs[samples.targets == WORDS.index("silence")]
    # Two, as many as the largest class has, spread over 20,000 samples that count up.
    assert quiet[:, 0].tolist() == [0, 2_000]
    assert quiet[:, -1].tolist() == [15_999, 17_999]


def test_a_limit_is_shared_by_the_classes(tmp_path):
    write_commands(tmp_path)
    samples = read_waveforms(tmp_path, limit=12)
    words = [WORDS[target] for target in samples.targets]
    assert words == ["yes", "no", "unknown", "silence"]


def test_a_short_word_is_followed_by_silence_and_a_long_one_cut(tmp_path):
    folder = write_commands(tmp_path)
    write_wav(folder / "no/a.wav", np.full(9_000, 20))
    write_wav(folder / "no/b.wav", np.full(18_000, 21))
    samples = read_waveforms(tmp_path, limit=120)
    short, long = samples.inputs[samples.targets == WORDS.index("no")]
    assert short.tolist() == [20] * 9_000 + [0] * 7_000
    assert long.tolist() == [21] * 16_000


def test_a_file_that_a_list_names_must_be_there(tmp_path):
    write_commands(tmp_path, testing=("yes/c.wav", "yes/z.wav"))
    with refused("missing-data-file", "yes/z.wav"):
        read_waveforms(tmp_path, limit=120)


@pytest.mark.parametrize("name", ["validation_list.txt", "_background_noise_/noise.wav"])
def test_an_incomplete_folder_of_speech_commands_is_refused(tmp_path, name):
    (write_commands(tmp_path) / name).unlink()
    with pytest.raises(InvalidValueError, match=name.split("/")[0]):
        read_waveforms(tmp_path, limit=120)


def test_a_damaged_word_is_named(tmp_path):
    path = write_commands(tmp_path) / "no" / "b.wav"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InvalidValueError, match=r"no.b\.wav"):
        read_waveforms(tmp_path, limit=120)


def test_a_list_that_is_no_text_is_named(tmp_path):
    (write_commands(tmp_path) / "testing_list.txt").write_bytes(b"\xff\xfe")
    with refused("damaged-data-file", "testing_list.txt"):
        read_waveforms(tmp_path, limit=120)


def test_files_are_chosen_at_equal_distances():
    assert spread_evenly(list("abcdefghij"), 5) == list("acegi")
    assert spread_evenly(list("abc"), 5) == list("abc")


@pytest.mark.parametrize("folder", [None, "."])
def test_without_files_synthesised_speech_stands_in(tmp_path, folder):
    samples = read_waveforms(folder and tmp_path, limit=24)
    assert (samples.facts.stand_in, samples.facts.stands_for) == (True, "Speech Commands")
    assert samples.inputs.shape == (24, 16_000)
    assert sorted(samples.targets.tolist()) == sorted([*range(12)] * 2)
    assert len(samples.held_out_targets) == 12
    again = read_waveforms(None, limit=24)
    assert again.facts.sha256 == samples.facts.sha256
    trained = {each.tobytes() for each in samples.inputs}
    assert trained.isdisjoint(each.tobytes() for each in samples.held_out_inputs)


def test_every_word_but_silence_has_a_sound():
    assert set(SOUNDS) == set(WORDS) - {"silence"}


# ToyADMOS


def write_machine(root, *, train=("normal_id_01_00000000", "normal_id_02_00000000"), test=()):
    folder = root / "ToyCar"
    for part, names in (("train", train), ("test", test)):
        for n, name in enumerate(names):
            write_wav(folder / part / f"{name}.wav", tone(200 * (n + 1)))
    return folder


def test_toyadmos_is_read_in_windows_of_five_frames(tmp_path):
    write_machine(tmp_path, test=("normal_id_01_00000001", "anomaly_id_01_00000000"))
    samples = read_machine(tmp_path)
    # A second has 1 + 16000 // 512 = 32 frames, and so 28 windows of five.
    assert samples.inputs.shape == (2 * 28, 640)
    assert samples.targets is samples.inputs
    # Of the test recordings, the normal one alone, every 30th window of it.
    assert samples.held_out_inputs.shape == (1, 640)
    assert samples.facts.name == "ToyADMOS (ToyCar), 2 recordings"
    assert not samples.facts.stand_in
    frames = machine_features(bands=128)(tone(200))
    np.testing.assert_array_equal(samples.inputs[3], frames[3:8].reshape(-1))


def test_a_tone_is_loudest_in_its_own_band(tmp_path):
    write_machine(tmp_path)
    window = read_machine(tmp_path).inputs[10].reshape(5, 128)
    # 200 Hz are 3 mels of 45.25 up to 8 kHz in 128 bands with 130 edges: band 3 / 45.25 · 129 - 1.
    assert window.argmax(axis=1).tolist() == pytest.approx([3 / 45.25 * 129 - 1] * 5, abs=1)


def test_frames_follow_one_another_in_a_window():
    frames = np.arange(7 * 128, dtype=np.float32).reshape(7, 128)
    stacked = stack_frames(frames)
    assert stacked.shape == (3, 640)
    assert stacked[2].tolist() == list(range(2 * 128, 7 * 128))


def test_toyadmos_without_normal_recordings_is_refused(tmp_path):
    write_machine(tmp_path, train=("anomaly_id_01_00000000",))
    with refused("no-normal-recording", "ToyCar/train"):
        read_machine(tmp_path)


def test_a_damaged_recording_is_named(tmp_path):
    path = write_machine(tmp_path) / "train" / "normal_id_02_00000000.wav"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidValueError, match="normal_id_02_00000000"):
        read_machine(tmp_path)


def test_without_files_a_synthesised_hum_stands_in():
    samples = read_machine(None)
    assert (samples.facts.stand_in, samples.facts.stands_for) == (True, "ToyADMOS")
    # Eight times ten seconds: 313 frames, 309 windows.
    assert samples.inputs.shape == (8 * 309, 640)
    assert samples.facts.sha256 == read_machine(None).facts.sha256
    assert len(samples.held_out_inputs) == 2 * 11
