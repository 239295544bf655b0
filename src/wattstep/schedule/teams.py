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
    teams: Sequence[tuple[int, ...]],
    *,
    rank: Sequence[float] | None = None,
    policy: str = "",
) -> Schedule:
    """A plan in which each worker has the same cores all the time.

    A ready task goes to the team on which it ends first, and waits for it where that is still busy.

    Args:
        costs: Of the tasks.
        teams: Cores of each, within one cluster; no core twice.
        rank: As of `along_the_clock`.
        policy: As of `Schedule`.
    """
    cluster_of = costs.machine.cluster_of

    def choose(state: State) -> list[Start]:
        begin = dict.fromkeys(teams, state.now)
        begin.update((team, state.ends[task]) for task, team in state.cores.items())
        free = {team for team in teams if team[0] in state.free}
        starts: list[Start] = []
        for task in state.ready:
            if not free:
                break
            ends = {
                team: at + costs.seconds(task, len(team), cluster_of[team[0]])
                for team, at in begin.items()
            }
            first = min(ends, key=lambda team: (ends[team], team not in free, -len(team)))
            if first in free:
                starts.append((task, first))
                free.remove(first)
                begin[first] = ends[first]
        return starts

    cores = [core for team in teams for core in team]
    return along_the_clock(costs, cores, choose, rank=rank, policy=policy)
