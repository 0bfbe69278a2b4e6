"""Print measured trials as JSON-able facts and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from checkmate.bench.common.machine import Machine
from checkmate.bench.solvers.published import Figure, find_graph
from checkmate.bench.solvers.trials import MARKS, Trial, relative_costs, standings
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveStatus
from checkmate.solvers.problem import SolveOptions
from checkmate.text_table import aligned_lines

_NONE = "–"
_NAME = 26  # characters of a graph's name


def marks(options: SolveOptions) -> tuple[float, ...]:
    """Return the seconds after which the cost is shown. They are those within the time limit."""
    return tuple(mark for mark in MARKS if mark <= options.time_limit_s)


def facts(trials: Sequence[Trial], options: SolveOptions, machine: Machine) -> dict[str, Any]:
    """Return all that was measured as one JSON object.

    Overheads are in percent, costs in the graph's unit, seconds are wall time.
    """
    return {
        "format": "checkmate-bench",
        "version": 1,
        "machine": machine.to_json(),
        "options": {
            "time_limit_s": options.time_limit_s,
            "workers": options.workers,
            "seed": options.seed,
            "moves": options.moves,
        },
        "trials": [
            _trial_facts(trial, ratio, options)
            for trial, ratio in zip(trials, relative_costs(trials), strict=True)
        ],
        "solvers": [
            {"solver": s.solver, "relative_to_best": s.ratio, "solved": s.solved, "cases": s.cases}
            for s in standings(trials)
        ],
    }


def _trial_facts(trial: Trial, ratio: float | None, options: SolveOptions) -> dict[str, Any]:
    case, result, convergence = trial.case, trial.result, trial.convergence
    return {
        "graph": case.graph.name,
        "fingerprint": case.graph.fingerprint,
        "ops": case.graph.n,
        "budget": case.label,
        "budget_bytes": case.budget_bytes,
        "plain_peak_bytes": case.plain_bytes,
        "solver": trial.solver,
        "status": result.status.value,
        "message": result.message,
        "base_cost": case.graph.base_cost,
        "cost": result.cost,
        "peak_bytes": result.peak_bytes,
        "overhead_percent": _percent(trial.overhead(result.cost)),
        "lower_bound": result.lower_bound,
        "bound_percent": _percent(trial.overhead(result.lower_bound)),
        "assumptions": list(result.assumptions),
        "gap_percent": _percent(result.gap),
        "relative_to_best": ratio,
        "seconds": trial.seconds,
        "at_once": trial.at_once,
        "host": trial.host or None,
        "ended_by": trial.ended or None,
        "seconds_to_first": convergence.seconds_to_first,
        "seconds_to_within_1_percent": convergence.seconds_to_within(0.01),
        "seconds_to_final": convergence.seconds_to_final,
        "overhead_percent_after": {
            f"{mark:g}": _percent(trial.overhead(convergence.cost_after(mark))) for mark in marks(options)
        },
        "costs": convergence.costs,
        "bounds": convergence.bounds,
        "published": [_figure_facts(figure) for figure in case.published],
    }


def _figure_facts(figure: Figure) -> dict[str, Any]:
    return {
        "graph": figure.graph,
        "method": figure.method,
        "overhead_percent": _percent(figure.overhead),
        "seconds": figure.seconds,
        "source": figure.source.value,
    }


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 9)


@dataclass(frozen=True)
class _Column:
    """Describe one column of the table.

    ``cell`` makes the text from a trial and its relative cost. Words are aligned left, numbers right.
    """

    title: str
    cell: Callable[[Trial, float | None], str]
    words: bool = False


def _columns(options: SolveOptions, *, several: bool) -> list[_Column]:
    head = [
        _Column("graph", lambda t, r: _name(t.case.graph), words=True),
        _Column("ops", lambda t, r: str(t.case.graph.n)),
        _Column("budget", lambda t, r: t.case.label),
        _Column("solver", lambda t, r: t.solver, words=True),
        _Column("status", lambda t, r: t.result.status.value, words=True),
        _Column("first s", lambda t, r: _seconds(t.convergence.seconds_to_first)),
        _Column("to 1 % s", lambda t, r: _seconds(t.convergence.seconds_to_within(0.01))),
        _Column("to final s", lambda t, r: _seconds(t.convergence.seconds_to_final)),
    ]
    on_the_way = [_after(mark) for mark in marks(options)]
    tail = [
        _Column("final %", lambda t, r: _overhead(t.overhead(t.result.cost))),
        _Column(
            "bound %",
            lambda t, r: _overhead(t.overhead(t.result.lower_bound)) + "*" * bool(t.result.assumptions),
        ),
        _Column("gap %", lambda t, r: _overhead(t.result.gap)),
        _Column("s", lambda t, r: _seconds(t.seconds)),
    ]
    if several:
        tail.append(_Column("× best", lambda t, r: _NONE if r is None else f"{r:.4f}"))
    tail.append(_Column("published", lambda t, r: _published(t.case.published), words=True))
    return [*head, *on_the_way, *tail]


def _after(mark: float) -> _Column:
    return _Column(f"{mark:g} s %", lambda t, r: _overhead(t.overhead(t.convergence.cost_after(mark))))


def _published(figures: Sequence[Figure]) -> str:
    if not figures:
        return _NONE
    best = figures[0]
    seconds = "" if best.seconds is None else f", {best.seconds:g} s"
    return f"{100 * best.overhead:g} % {best.method}{seconds}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return _NONE
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}" if seconds < 100 else f"{seconds:.0f}"


def _overhead(fraction: float | None) -> str:
    return _NONE if fraction is None else f"{max(0.0, 100 * fraction):.2f}"


def _name(graph: Graph) -> str:
    """Return a graph's short name.

    It is the papers' name, if they have one, then the beginning of the graph's own: that is where names
    differ.
    """
    published = find_graph(graph)
    name = graph.name if published is None else f"{published.key} {graph.name}"
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"


def text(trials: Sequence[Trial], options: SolveOptions, machine: Machine) -> str:
    """Return what ``bench solvers`` prints. It has the table, what it means, and the machine."""
    ratios = relative_costs(trials)
    several = len({trial.solver for trial in trials}) > 1
    columns = _columns(options, several=several)
    rows = [
        [column.cell(trial, ratio) for column in columns] for trial, ratio in zip(trials, ratios, strict=True)
    ]
    titles = [column.title for column in columns]
    left = [place for place, column in enumerate(columns) if column.words]
    lines = [
        *aligned_lines([titles, *rows], left=left),
        "",
        *_comparison(trials, several),
        *_notes(trials),
        *_legend(trials, options, machine),
    ]
    return "\n".join(lines)


def _comparison(trials: Sequence[Trial], several: bool) -> list[str]:
    if not several:
        return []
    return [
        f"{standing.solver}: no schedule on any of {standing.cases} cases"
        if standing.ratio is None
        else f"{standing.solver}: {standing.ratio:.4f} × the best cost (geometric mean), a schedule on "
        f"{standing.solved} of {standing.cases} cases"
        for standing in standings(trials)
    ]


def _notes(trials: Sequence[Trial]) -> list[str]:
    """Return why there is no schedule, and what bounds assume."""
    notes = [
        f"{_name(t.case.graph)} at {t.case.label}, {t.solver}: {t.result.message}"
        for t in trials
        if t.result.message and not t.result.status.has_schedule
    ]
    assumptions = dict.fromkeys(a for t in trials for a in t.result.assumptions)
    return notes + ([f"* a bound under assumptions: {', '.join(assumptions)}"] if assumptions else [])


def _legend(trials: Sequence[Trial], options: SolveOptions, machine: Machine) -> list[str]:
    moves = "" if options.moves is None else f"{options.moves} moves, "
    return [
        "% is cost over computing everything once; seconds are wall time from the call, libraries loaded "
        "and kernels compiled;",
        f"time limit {options.time_limit_s:g} s, {moves}{options.workers} "
        f"worker{'s' * (options.workers != 1)}, seed {options.seed}; published seconds are on their "
        "authors' machines.",
        *_crowd(trials),
        f"on {machine}",
    ]


def _crowd(trials: Sequence[Trial]) -> list[str]:
    """Return the note on how an engine affects the figures."""
    lines = []
    most = max((trial.at_once for trial in trials), default=1)
    if most > 1:
        lines.append(
            f"up to {most} solves ran at once and shared cores; one solver alone would have taken other "
            "seconds, and found other schedules by the time limit;"
        )
    hosts = {trial.host for trial in trials if trial.host}
    if len(hosts) > 1:
        lines.append(f"measured on {len(hosts)} machines, named in the JSON; started from the one below;")
    timed = sum(trial.ended == "time" for trial in trials)
    if hosts:
        ends = f"{timed} of {len(trials)} solves ended at the time limit; another run may give other costs;"
        lines.append(
            ends if timed else "no solve ended at the time limit, so another run gives the same costs;"
        )
    return lines


def any_failed(trials: Sequence[Trial]) -> bool:
    """Return whether a solver crashed or gave a wrong schedule."""
    return any(trial.result.status is SolveStatus.FAILED for trial in trials)
