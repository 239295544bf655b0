"""The ledger by itself: lifetimes written out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wattstep.engines.torch.allocations import CATEGORIES, Ledger


def operations(ledger: Ledger, phase: str, count: int = 1, *, recorded: bool = False) -> None:
    ledger.phase = phase
    for _ in range(count):
        ledger.begin(recorded=recorded)


def test_a_storage_is_there_from_the_operation_that_made_it_to_the_last_that_saw_it() -> None:
    ledger = Ledger()
    operations(ledger, "forward", 2)
    storage = ledger.add(10, recorded=False, device="cpu")
    operations(ledger, "forward")
    ledger.free(storage)
    operations(ledger, "forward")
    ledger.close()
    there = [sum(ledger.during(number).values()) for number in range(5)]
    assert there == [0, 0, 10, 10, 0]
    assert ledger.heaviest() == 2


def test_what_the_backward_pass_finds_is_a_feature_map_and_the_rest_of_the_forward_is_not() -> None:
    ledger = Ledger()
    operations(ledger, "forward", recorded=True)
    kept = ledger.add(1, recorded=True, device="cpu")
    gone = ledger.add(2, recorded=True, device="cpu")
    operations(ledger, "forward", recorded=True)
    ledger.free(gone)
    operations(ledger, "backward")
    ledger.close()
    assert (kept.category, gone.category) == ("feature_maps", "workspace")


def test_what_is_computed_anew_for_the_backward_pass_is_a_feature_map_too() -> None:
    ledger = Ledger()
    operations(ledger, "backward")
    operations(ledger, "backward", recorded=True)
    again = ledger.add(1, recorded=True, device="cpu")
    operations(ledger, "backward", recorded=True)
    gradient = ledger.add(1, recorded=False, device="cpu")
    operations(ledger, "backward")
    ledger.close()
    assert (again.category, gradient.category) == ("feature_maps", "workspace")


def test_the_input_is_what_a_forward_pass_finds_whatever_the_phase_of_the_data_is_called() -> None:
    ledger = Ledger()
    operations(ledger, "game")
    indices, batch = (ledger.add(1, recorded=False, device="cpu") for _ in range(2))
    ledger.free(indices)
    operations(ledger, "forward")
    ledger.close()
    assert (indices.category, batch.category) == ("workspace", "input")


def test_owners_have_the_last_word_and_what_was_there_before_is_held() -> None:
    ledger = Ledger()
    weight, samples = (ledger.add(1, recorded=False, device="cpu") for _ in range(2))
    weight.label = "parameters"
    operations(ledger, "forward")
    ledger.close()
    assert (weight.category, samples.category) == ("parameters", "held_tensors")


def test_another_device_has_its_own_account() -> None:
    ledger = Ledger()
    operations(ledger, "forward")
    ledger.add(7, recorded=False, device="cuda")
    ledger.close()
    assert sum(ledger.during(1).values()) == 0
    assert sum(ledger.during(1, "cuda").values()) == 7


@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**9),  # bytes
            st.integers(0, 8),  # made by
            st.integers(0, 8),  # freed so many operations later; 8: not
            st.sampled_from(["data", "forward", "backward", "optimizer"]),
        ),
        max_size=30,
    )
)
def test_every_byte_is_in_one_category_at_each_moment(
    lives: list[tuple[int, int, int, str]],
) -> None:
    ledger = Ledger()
    ends: dict[int, list[int]] = {}
    for number in range(10):
        if number:
            ledger.begin(recorded=False)
        for end in ends.get(number, []):
            ledger.free(ledger.storages[end])
        for size, made, life, phase in lives:
            if made == number:
                ledger.phase = phase
                ledger.add(size, recorded=False, device="cpu")
                ends.setdefault(made + life if life < 8 else 99, []).append(
                    len(ledger.storages) - 1
                )
    ledger.close()
    for number in range(10):
        there = [
            storage.size
            for storage in ledger.storages
            if storage.made <= number and (storage.freed is None or number < storage.freed)
        ]
        table = ledger.during(number)
        assert set(table) == set(CATEGORIES)
        assert sum(table.values()) == sum(there)
        for category, size in table.items():
            assert size <= ledger.highest()[category]
