"""PoCL is told a CPU of the same instructions where it knows none, in its record of the device and nowhere else."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from wattstep.opencl import pocl

VERSION = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-"
AVX512 = frozenset({"avx512f", "avx2"})
AVX2 = frozenset({"avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "sse2"})


class Record:
    """A driver's record with pointers to texts among other words."""

    def __init__(self, *texts: bytes) -> None:
        self.words = (ctypes.c_uint64 * 600)()
        self.texts = [ctypes.create_string_buffer(text, 64) for text in texts]
        for number, text in enumerate(self.texts):
            self.words[40 + 7 * number] = ctypes.addressof(text)
        self.words[3] = 12  # no pointer
        self.words[4] = 0x7FFF_FFFF_F000  # one to nowhere
        self.before = list(self.words)

    def handle(self, cpu: str = "generic") -> SimpleNamespace:
        return SimpleNamespace(version=VERSION + cpu, int_ptr=ctypes.addressof(self.words))

    def changed(self) -> list[int]:
        return [n for n, word in enumerate(self.words) if word != self.before[n]]

    def text(self, number: int) -> bytes:
        return ctypes.string_at(self.words[number])


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocl, "_cpu_flags", lambda: AVX512)


@pytest.mark.usefixtures("flags")
def test_the_one_name_of_the_cpu_is_replaced_once() -> None:
    record = Record(b"pthread", b"generic", b"generic-more")
    assert pocl.name_target(pocl.PLATFORM, record.handle()) == "skylake-avx512"
    assert record.changed() == [47]
    assert record.text(47) == b"skylake-avx512"
    assert pocl.name_target(pocl.PLATFORM, record.handle()) == "skylake-avx512"
    assert record.text(47) == b"skylake-avx512"


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize("texts", [[], [b"pthread"], [b"generic", b"generic"]])
def test_a_record_of_another_layout_is_left_alone(texts: list[bytes]) -> None:
    record = Record(*texts)
    assert pocl.name_target(pocl.PLATFORM, record.handle()) == ""
    assert record.changed() == []


@pytest.mark.usefixtures("flags")
@pytest.mark.parametrize(("platform", "cpu"), [("ARM", "generic"), (pocl.PLATFORM, "znver3")])
def test_what_knows_its_cpu_or_is_no_pocl_is_not_looked_at(platform: str, cpu: str) -> None:
    record = Record(b"generic")
    assert pocl.name_target(platform, record.handle(cpu)) == ""
    assert record.changed() == []


@pytest.mark.parametrize(
    ("can", "target"), [(AVX512, "skylake-avx512"), (AVX2, "haswell"), (AVX2 - {"fma"}, "")]
)
def test_the_target_can_no_more_than_the_cpu(
    monkeypatch: pytest.MonkeyPatch, can: frozenset[str], target: str
) -> None:
    monkeypatch.setattr(pocl, "_cpu_flags", lambda: can)
    assert pocl.name_target(pocl.PLATFORM, Record(b"generic").handle()) == target
