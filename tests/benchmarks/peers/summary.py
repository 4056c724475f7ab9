"""From the rounds of a peer to its figures."""

from itertools import pairwise
from statistics import median

from tests.benchmarks.figures import Figure
from tests.benchmarks.peers.rounds import Reading, Round

MIB = 1 << 20
SWEEPS_A_DAY = 288


def figures(peer: str, rounds: list[Round]) -> list[Figure]:
    """The medians of at least two rounds, one after the other; nothing of fewer."""
    if len(rounds) < 2:
        return []
    resting = median(
        _rate(earlier.after, later.before, "cpu") for earlier, later in pairwise(rounds)
    )
    database_resting = median(
        _rate(earlier.after, later.before, "postgres") for earlier, later in pairwise(rounds)
    )
    sweep = median(_beyond(one, "cpu", resting) for one in rounds)
    database = median(_beyond(one, "postgres", database_resting) for one in rounds)
    done = [one.seconds for one in rounds if one.seconds is not None]
    return [
        *([Figure(peer, "from due to the last site failed", median(done), "s")] if done else []),
        Figure(peer, "sweeps that did it in their minute", len(done) / len(rounds) * 100, "%"),
        Figure(peer, "CPU of a sweep", sweep, "s"),
        Figure(peer, "PostgreSQL's time for a sweep", database, "s"),
        Figure(peer, "peak memory", median(one.peak for one in rounds) / MIB, "MiB"),
        *_standing(peer, rounds),
        Figure(peer, "CPU at rest, an hour", resting * 3600, "s"),
        Figure(peer, "PostgreSQL's time at rest, an hour", database_resting * 3600, "s"),
        Figure(
            peer,
            "CPU a day, 25 stuck every five minutes",
            (resting * 86_400 + sweep * SWEEPS_A_DAY) / 60,
            "min",
        ),
    ]


def _standing(peer: str, rounds: list[Round]) -> list[Figure]:
    total = median(sum(one.standing.values()) for one in rounds)
    return [
        Figure(peer, "standing memory", total / MIB, "MiB"),
        *(
            Figure(
                peer,
                f"standing memory: {part}",
                median(one.standing[part] for one in rounds) / MIB,
                "MiB",
            )
            for part in rounds[0].standing
        ),
    ]


def _rate(earlier: Reading, later: Reading, what: str) -> float:
    used: float = getattr(later, what) - getattr(earlier, what)
    return used / (later.at - earlier.at)


def _beyond(one: Round, what: str, resting: float) -> float:
    """What a sweep used beyond what the peer uses at rest in that time."""
    return (_rate(one.before, one.after, what) - resting) * (one.after.at - one.before.at)
