"""Define the options of commands that sweep.

They choose the engine, how many tasks run at once, and the journal.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from checkmate.cli.shared import options as cli_options
from checkmate.errors import UsageError
from checkmate.progress import Cancelled
from checkmate.sweeps.engine import Engine, Pool, open_pool, parse_engine

if TYPE_CHECKING:
    from checkmate.sweeps.journal import Journal


@dataclass(frozen=True, eq=False)
class OpenedSweep:
    """Hold what a sweep runs on and what it keeps. ``engine`` is as the user would write it."""

    engine: str
    pool: Pool
    journal: Journal | None


def add_engine(parser: argparse.ArgumentParser, *, why: str, moves: bool = True) -> None:
    """Add --engine, --jobs, --journal and, where ``moves``, --moves.

    ``why``: what running several tasks at once does to this command.
    """
    add = parser.add_argument_group("sweeps", why).add_argument
    add(
        "--engine",
        type=cli_options.typed(parse_engine),
        metavar="WHERE",
        help="where the solves run: processes, processes:N or dask://host:port; by default in this process",
    )
    add(
        "--jobs",
        type=cli_options.positive,
        metavar="N",
        help="run at most this many solves at once (default: as many as the engine has room for)",
    )
    add(
        "--journal",
        type=Path,
        metavar="FILE.jsonl",
        help="write each finished solve to this file, and skip those that it already has; an interrupted "
        "sweep then goes on where it stopped",
    )
    if not moves:
        return
    add(
        "--moves",
        type=cli_options.positive,
        metavar="N",
        help="end local-search after N moves, not by the clock; every machine then gives the same answer",
    )


def wants_engine(options: argparse.Namespace) -> bool:
    """Return whether an option that needs an engine is given."""
    return bool(options.engine or options.jobs or options.journal)


@contextmanager
def opened(options: argparse.Namespace, cancelled: Cancelled) -> Iterator[OpenedSweep]:
    """Yield the engine and the journal asked for.

    With a journal alone, one process runs at a time.

    Raises:
        EngineUnavailableError: the engine is not there. FormatError, UsageError: the journal cannot be
        used.
    """
    from checkmate.sweeps.journal import open_journal

    engine: Engine = options.engine or Engine(count=options.jobs or 1)
    with ExitStack() as stack:
        journal = stack.enter_context(open_journal(options.journal)) if options.journal else None
        pool = stack.enter_context(
            open_pool(engine, jobs=options.jobs, workers=options.workers, cancelled=cancelled)
        )
        yield OpenedSweep(str(engine), pool, journal)


def require_counting(options: argparse.Namespace, solvers: list[str]) -> None:
    """Raise where --moves is given but cannot decide when to stop.

    That is so where no solver counts moves, or where one searches until its time is up and does not count
    them.

    Raises:
        UsageError: it cannot.
    """
    from checkmate.solvers.problem import SolverFeature
    from checkmate.solvers.registry import find_solver

    if options.moves is None:
        return
    features = {name: find_solver(name).features for name in solvers}
    deaf = [name for name in solvers if SolverFeature.COUNTS_MOVES not in features[name]]
    wrong = [name for name in deaf if SolverFeature.ANYTIME in features[name] or len(deaf) == len(solvers)]
    if wrong:
        raise UsageError(
            f"solver {wrong[0]!r} does not count moves", hint="--moves is for --solver local-search"
        )
