"""Print trials beside published results, one line per method.

The results are for the same graph and budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from checkmate.bench.solvers.published import find_graph
from checkmate.bench.solvers.trials import Trial
from checkmate.text_table import aligned_lines

_NONE = "–"


def text(trials: Sequence[Trial]) -> str:
    """Return a table of extra cost in percent and of seconds.

    Each trial is followed by the published results, and the sources stand below.
    """
    rows = [["graph", "budget", "method", "extra cost %", "bound %", "seconds"]]
    sources: dict[str, None] = {}
    for trial in trials:
        rows.append(_measured(trial))
        for figure in trial.case.published:
            rows.append(["", "", figure.method, f"{100 * figure.overhead:.2f}", "", _seconds(figure.seconds)])
            sources[str(figure.source.value)] = None
    said = [f"published figures: {source}" for source in sources]
    return "\n".join(
        [*aligned_lines(rows), *(said or ["nothing is published for these graphs at these budgets"])]
    )


def _measured(trial: Trial) -> list[str]:
    published, result = find_graph(trial.case.graph), trial.result
    name = trial.case.graph.name[:24] if published is None else published.key
    cost, bound = trial.overhead(result.cost), trial.overhead(result.lower_bound)
    extra = result.status.value if cost is None else f"{100 * cost:.2f}"
    proved = _NONE if bound is None else f"{max(0.0, 100 * bound):.2f}"
    return [name, trial.case.label, f"checkmate {trial.solver}", extra, proved, _seconds(trial.seconds)]


def _seconds(seconds: float | None) -> str:
    return _NONE if seconds is None else f"{seconds:.1f}" if seconds < 100 else f"{seconds:.0f}"
