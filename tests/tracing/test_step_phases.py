"""Phases of a step by what runs in it, in the order in which it runs."""

from __future__ import annotations

from wattstep.engines.step_phases import (
    BACKWARD,
    CLEARING,
    CLIPPING,
    DATA,
    FORWARD,
    MOST_EVENTS,
    OPTIMIZER,
    StepPhases,
)


class Marked:
    """A recorder whose clock counts what it is asked."""

    tracing = True  # so that its clock is asked

    def __init__(self, phases_on: bool = True) -> None:
        self.phases_on = phases_on
        self.now = 0
        self.told: list[tuple[str, int]] = []

    on_device = False

    def boundary(self) -> int:
        self.now += 1
        return self.now

    def phase(self, name: str, since_ns: int) -> None:
        self.told.append((name, since_ns))

    def update(self, name: str, at_ns: int) -> None:
        self.told.append((f"updated {name}", at_ns))


def phases_of(*events: str, on: bool = True) -> list[str]:
    """What is told of a step: "+" begins something, "-" ends it, "=" is an update, "*" the begin of a graph, "#" the end of a block without gradients."""
    marked = Marked(on)
    phases = StepPhases(marked)
    phases.begin()
    for event in events:
        sign, what = event[0], event[1:]
        if sign == "+":
            phases.enter(what)
        elif sign == "-":
            phases.leave(what)
        elif sign == "*":
            phases.builds()
        elif sign == "#":
            phases.without_gradients()
        else:
            phases.update(lambda name=what: name)
    phases.end()
    times = [at for _, at in marked.told]
    assert times == sorted(times)
    return [name for name, _ in marked.told]


def both(what: str) -> tuple[str, str]:
    return f"+{what}", f"-{what}"


TRAINED = (*both(FORWARD), *both(BACKWARD), *both(OPTIMIZER))


def test_a_step_without_a_loader_has_its_forward_pass_told() -> None:
    assert phases_of(*TRAINED) == ["loop", "forward", "backward", "optimizer"]


def test_a_step_with_a_loader_prepares_its_batch_in_the_phase_of_the_data() -> None:
    told = phases_of(*both(DATA), *TRAINED)
    assert told == ["loop", "data", "forward", "backward", "optimizer"]


def test_a_forward_pass_after_the_first_of_two_updates_is_forward() -> None:
    told = phases_of(*TRAINED, "=judge", *TRAINED, "=maker")
    once = ["loop", "forward", "backward", "optimizer"]
    assert told == [*once, "updated judge", *once, "updated maker"]


def test_several_networks_in_a_row_are_one_forward_phase() -> None:
    told = phases_of(*both(FORWARD), *both(FORWARD), *TRAINED)
    assert told == ["loop", "forward", "backward", "optimizer"]


def test_a_loss_without_any_network_is_forward() -> None:
    assert phases_of(*both(BACKWARD), *both(OPTIMIZER)) == ["forward", "backward", "optimizer"]


def test_a_penalty_on_gradients_is_backward_and_what_is_made_of_it_forward() -> None:
    told = phases_of(*both(FORWARD), *both(BACKWARD), *TRAINED)
    assert told == ["loop", "forward", "backward", "loop", "forward", "backward", "optimizer"]
    told = phases_of(*both(FORWARD), *both(BACKWARD), *both(BACKWARD), *both(OPTIMIZER))
    assert told == ["loop", "forward", "backward", "forward", "backward", "optimizer"]


def test_accumulated_batches_go_forward_and_backward_before_one_optimizer() -> None:
    batch = (*both(DATA), *both(FORWARD), *both(BACKWARD))
    told = phases_of(*batch, *batch, *both(OPTIMIZER))
    once = ["loop", "data", "forward", "backward"]
    assert told == [*once, *once, "optimizer"]


def test_clearing_gradients_is_the_optimizer_s_wherever_it_stands() -> None:
    told = phases_of(*both(DATA), *both(CLEARING), *TRAINED)
    assert told == ["loop", "data", "optimizer", "data", "forward", "backward", "optimizer"]
    told = phases_of(*both(FORWARD), *both(CLEARING), *both(BACKWARD), *both(OPTIMIZER))
    assert told == ["loop", "forward", "optimizer", "forward", "backward", "optimizer"]


def test_what_a_script_does_between_clearing_and_the_call_of_a_network_is_not_forward() -> None:
    """Whether the clearing ends the step before or begins this one cannot be seen."""
    assert phases_of(*both(CLEARING), *TRAINED) == [
        "loop", "optimizer", "loop", "forward", "backward", "optimizer",
    ]  # fmt: skip
    once = ["loop", "forward", "backward", "optimizer"]
    told = phases_of(*TRAINED, *both(CLEARING), *TRAINED)
    assert told == [*once, "loop", "optimizer", *once]
    told = phases_of(*both(DATA), *both(CLEARING), *both(DATA), *TRAINED)
    assert told == ["loop", "data", "optimizer", "data", "forward", "backward", "optimizer"]


def test_without_networks_forward_is_from_the_begin_of_the_graph_to_the_gradients() -> None:
    once = ["loop", "forward", "backward", "optimizer"]
    assert phases_of("*", *both(BACKWARD), *both(OPTIMIZER)) == once
    cleared = phases_of("*", *both(CLEARING), *both(BACKWARD), *both(OPTIMIZER))
    assert cleared == ["loop", "forward", "optimizer", "forward", *once[2:]]
    loaded = phases_of(*both(DATA), "*", *both(BACKWARD), *both(OPTIMIZER))
    assert loaded == ["loop", "data", *once[1:]]
    twice = phases_of(*["*", *both(BACKWARD)] * 2, *both(OPTIMIZER))
    assert twice == [*once[:3], *once]


def test_a_graph_begins_once_and_a_network_s_is_its_own() -> None:
    once = ["loop", "forward", "backward", "optimizer"]
    assert phases_of("*", "*", *both(BACKWARD), *both(OPTIMIZER)) == once
    assert phases_of("+forward", "*", "-forward", *both(BACKWARD), *both(OPTIMIZER)) == once
    head = phases_of("*", *both(FORWARD), *both(BACKWARD), *both(OPTIMIZER))
    assert head == once


def test_a_closure_without_networks_goes_forward_within_the_optimizer_s() -> None:
    told = phases_of("+optimizer", *both(CLEARING), "*", *both(BACKWARD), "-optimizer")
    assert told == ["loop", "optimizer", "forward", "backward", "optimizer"]


def test_forward_begins_at_the_moment_at_which_the_graph_does() -> None:
    marked = Marked()
    phases = StepPhases(marked)
    phases.begin()
    marked.now += 50  # the script's own
    phases.builds()
    began = marked.now
    phases.enter(BACKWARD)
    phases.leave(BACKWARD)
    phases.end()
    assert ("forward", began) in marked.told


def test_clipping_is_a_phase_from_the_gradients_to_its_end() -> None:
    marked = Marked()
    phases = StepPhases(marked)
    phases.begin()
    phases.enter(BACKWARD)
    phases.leave(BACKWARD)
    done = marked.now
    marked.now += 10  # the parameters are listed
    phases.enter(CLIPPING)
    phases.leave(CLIPPING)
    clipped = marked.now
    phases.enter(OPTIMIZER)
    phases.leave(OPTIMIZER)
    phases.end()
    assert marked.told[-2:] == [("clipping", done), ("optimizer", clipped)]


def test_gradients_may_be_clipped_in_steps_that_accumulate() -> None:
    batch = (*both(DATA), *both(FORWARD), *both(BACKWARD), *both(CLIPPING))
    once = ["data", "forward", "backward", "clipping"]
    assert phases_of(*batch, *batch, *both(OPTIMIZER)) == [
        "loop",
        *once,
        "loop",
        *once,
        "optimizer",
    ]


def test_unscaling_begins_the_optimizer_s_phase_where_the_gradients_were_done() -> None:
    marked = Marked()
    phases = StepPhases(marked)
    phases.begin()
    phases.enter(BACKWARD)
    phases.leave(BACKWARD)
    done = marked.now
    marked.now += 100  # unscaling
    phases.enter(OPTIMIZER)
    phases.end()
    assert marked.told[-1] == ("optimizer", done)


def test_a_closure_has_phases_of_its_own_within_the_optimizer_s() -> None:
    closure = (*both(CLEARING), *both(FORWARD), *both(BACKWARD))
    told = phases_of("+optimizer", *closure, *closure, "-optimizer")
    assert told == ["loop", *["optimizer", "forward", "backward"] * 2, "optimizer"]


def test_an_update_by_hand_follows_the_gradients() -> None:
    assert phases_of(*both(FORWARD), *both(BACKWARD))[-1] == "optimizer"
    once = ["loop", "forward", "backward"]
    told = phases_of("*", *both(BACKWARD), "#", "#", *both(DATA))
    assert told == [*once, "optimizer", "loop", "data"]
    clipped = phases_of("*", *both(BACKWARD), *both(CLIPPING), "#", *both(DATA))
    assert clipped == [*once, "clipping", "optimizer", "loop", "data"]


def test_a_step_that_ends_with_the_gradients_begins_with_the_update_by_hand() -> None:
    marked = Marked()
    phases = StepPhases(marked)
    for _ in range(2):
        marked.told.clear()
        phases.begin()
        begun = marked.now
        marked.now += 10
        phases.without_gradients()
        updated = marked.now
        marked.now += 10  # an evaluation without gradients
        phases.without_gradients()
        phases.builds()
        phases.enter(BACKWARD)
        phases.leave(BACKWARD)
        phases.end()
        assert phases.by_hand
    assert marked.told[:2] == [("optimizer", begun), ("loop", updated)]
    assert [name for name, _ in marked.told[2:4]] == ["forward", "backward"]


def test_what_an_optimizer_has_used_is_not_used_again_by_hand() -> None:
    told = phases_of(*TRAINED, "#", *both(DATA))
    assert told == ["loop", "forward", "backward", "optimizer", "loop", "data"]
    assert phases_of(*both(BACKWARD), "+forward", "#", "-forward")[-1] == "forward"


def test_an_exception_within_something_leaves_the_next_step_right() -> None:
    marked = Marked()
    phases = StepPhases(marked)
    phases.begin()
    phases.enter(OPTIMIZER)
    phases.enter(FORWARD)  # raised
    phases.leave(OPTIMIZER)
    phases.begin()
    phases.enter(FORWARD)
    phases.end()
    assert [name for name, _ in marked.told] == ["loop", "forward"]


def test_a_step_that_carries_no_marks_is_told_nothing_of() -> None:
    assert phases_of(*TRAINED, "=net", on=False) == []


def test_a_phase_begins_when_it_is_told_however_long_the_naming_takes() -> None:
    """Naming, and what is marked, come behind the end of the step: while it runs nothing is told."""
    marked = Marked()
    phases = StepPhases(marked)
    phases.begin()
    for what in (FORWARD, BACKWARD, OPTIMIZER):
        marked.now += 10
        phases.enter(what)
        marked.now += 10
        phases.leave(what)
    phases.update(lambda: "net")
    assert marked.told == []
    marked.now += 1000
    phases.end()
    # Each reading of the clock adds 1: 1 at the begin, 12 where the forward pass begins, ...
    assert marked.told == [
        ("loop", 1), ("forward", 12), ("backward", 34), ("optimizer", 45), ("updated net", 67),
    ]  # fmt: skip


def test_a_step_with_millions_of_events_takes_bounded_memory_and_loses_none() -> None:
    marked = Marked()
    phases = StepPhases(marked)
    phases.begin()
    for _ in range(10 * MOST_EVENTS):
        for what in (FORWARD, BACKWARD):
            phases.enter(what)
            phases.leave(what)
        assert len(phases._events) <= MOST_EVENTS + 1
    phases.end()
    told = [name for name, _ in marked.told]
    assert told == [*["loop", "forward", "backward"] * 10 * MOST_EVENTS, "optimizer"]
    times = [at for _, at in marked.told]
    assert times == sorted(times)
