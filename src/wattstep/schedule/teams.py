"""Plans whose workers keep their cores, where a framework's threads stay with the worker that began them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wattstep.schedule.placing import Costs, Start, State, along_the_clock
from wattstep.schedule.tasks import Schedule


def even(cores: int) -> Iterator[tuple[int, ...]]:
    """Sizes of 2, 4, ... teams that share cores evenly, down to one core each."""
    count = 2
    while count < 2 * cores:
        teams = min(count, cores)
        yield tuple(cores // teams + (team < cores % teams) for team in range(teams))
        count *= 2


def uneven(cores: int) -> Iterator[tuple[int, ...]]:
    """Sizes of a large team and a small one, of 1, 2, 4, ... cores."""
    small = 1
    while 2 * small <= cores:
        yield cores - small, small
        small *= 2


def of_sizes(cores: Sequence[int], sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Cores of teams of these sizes, one after the other."""
    firsts = (sum(sizes[:team]) for team in range(len(sizes)))
    return tuple(tuple(cores[at : at + size]) for at, size in zip(firsts, sizes, strict=True))


def in_teams(
    costs: Costs,
    cluster: int,
    sizes: Sequence[int],
    *,
    rank: Sequence[float] | None = None,
    policy: str = "",
) -> Schedule:
    """A plan in which each worker has the same cores all the time.

    A ready task goes to the free team on which it ends first, unless it would end sooner on one that is busy until
    the last of the running tasks ends.

    Args:
        costs: Of the tasks.
        cluster: Whose cores are shared out.
        sizes: Of the teams, in cores.
        rank: As of `along_the_clock`.
        policy: As of `Schedule`.
    """
    cores = costs.machine.cores(cluster)
    teams = of_sizes(cores, sizes)
    largest = max(sizes)

    def choose(state: State) -> list[Start]:
        free = sorted((team for team in teams if team[0] in state.free), key=len, reverse=True)
        starts: list[Start] = []
        until = state.last_end
        for task in state.ready:
            if not free:
                break
            # The largest of the free teams; what would end later there than on a larger one waits for it.
            end = state.now + costs.seconds(task, len(free[0]), cluster)
            if len(free[0]) == largest or end <= until + costs.seconds(task, largest, cluster):
                starts.append((task, free.pop(0)))
                until = max(until, end)
        return starts

    return along_the_clock(costs, cores, choose, rank=rank, policy=policy)
