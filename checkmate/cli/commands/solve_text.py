from __future__ import annotations

from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.machine.cost_origin import cost_text, origin_words
from checkmate.progress import Cancelled
from checkmate.solvers.constraints import list_assumptions
from checkmate.solvers.portfolio.least_memory import LeastMemory
from checkmate.units import format_bytes, format_bytes_up, format_overhead, format_seconds, plural


def solve_text(graph: Graph, result: SolveResult, path: Path | None) -> str:
    head = f"{graph.name} within {format_bytes(result.budget_bytes)}: {_status(result)}"
    if result.schedule is None:
        said = [f"  {line}" for line in (result.message, _advice(result)) if line]
        return "\n".join([head, *said])
    lines = [
        head,
        f"  peak      {format_bytes(result.peak_bytes)} (requested bytes, predicted)",
        *_schedule_lines(graph, result),
        *([f"  {result.message}"] if result.message else []),
        f"  solved by {result.solver} in {format_seconds(result.solve_seconds)}",
    ]
    if path is not None:
        lines.append(f"wrote {path}")
    return "\n".join(lines)


def _status(result: SolveResult) -> str:
    if result.status is SolveStatus.OPTIMAL:
        return "optimal under assumptions, proved" if result.assumptions else "optimal, proved"
    if result.status is SolveStatus.FEASIBLE:
        if result.gap is None:
            return "a schedule; no bound says how good it is"
        best = "best possible under assumptions" if result.assumptions else "best possible"
        return f"a schedule, at most {100 * (result.above_best or result.gap):.2f} % above the {best}"
    return {
        SolveStatus.INFEASIBLE: "infeasible under assumptions, proved"
        if result.assumptions
        else "infeasible, proved",
        SolveStatus.LIMIT: "no schedule found; one may exist",
        SolveStatus.CANCELLED: "cancelled before a schedule was found",
    }.get(result.status, "the solver failed")


def _schedule_lines(graph: Graph, result: SolveResult) -> list[str]:
    cost, schedule = result.cost or 0.0, result.require_schedule()
    lines = [
        f"  cost      {cost_text(graph, cost)}, {format_overhead(cost, result.base_cost)} "
        f"over computing everything once (costs of ops: {origin_words(graph)})",
        f"  steps     {len(schedule.steps)}, {schedule.recomputations} of them recomputed",
    ]
    return [*lines, *([f"  assuming  {list_assumptions(result.assumptions)}"] if result.assumptions else [])]


def _advice(result: SolveResult) -> str:
    needed = result.statistics.get("needed_bytes")
    drop = "drop a constraint, " if result.assumptions else ""
    if needed is not None:
        return f"{drop}raise the budget to at least {format_bytes_up(needed)}, or use a smaller batch"
    return {
        SolveStatus.INFEASIBLE: f"{drop}raise the budget, or use a smaller batch",
        SolveStatus.LIMIT: "raise the budget, give --time-limit more seconds, or try another --solver",
    }.get(result.status, "")


def least_facts(found: LeastMemory) -> dict[str, Any]:
    unlimited = found.max_overhead is None
    return {
        "max_overhead": found.max_overhead,
        "cost_cap": None if unlimited else found.cost_cap,
        "lower_bound_bytes": found.lower_bound_bytes,
        "proved": found.proved,
        "gap": found.gap,
        "probes": found.probes,
        "seconds": found.seconds,
    }


def least_text(graph: Graph, found: LeastMemory, path: Path | None) -> str:
    result = found.result
    plain = planning.keep_everything_peak(graph)
    at = "at any cost" if found.max_overhead is None else f"at most {100 * found.max_overhead:g} % extra cost"
    least = format_bytes(found.peak_bytes)
    return "\n".join(
        [
            f"{graph.name} {at}: "
            f"{'the least memory is' if found.proved else 'the least memory found is'} {least}",
            f"  peak      {least} (requested bytes, predicted), "
            f"{100 * found.peak_bytes / max(1, plain):.1f} % of keep-everything",
            f"  proved    {_proof(found)}",
            *_schedule_lines(graph, result),
            f"  solved by {result.solver} in {format_seconds(found.seconds)}, "
            f"{plural(found.probes, 'budget')} tried",
            *([] if path is None else [f"wrote {path}"]),
        ]
    )


def _proof(found: LeastMemory) -> str:
    which = "no schedule under the assumptions" if found.assumptions else "no schedule, in any order,"
    within = "" if found.max_overhead is None else " at this cost"
    if found.proved:
        return f"{which} needs less{within}"
    bound = format_bytes(found.lower_bound_bytes)
    return (
        f"{which} needs less than {bound}{within}; the gap of {100 * found.gap:.1f} "
        "% from there to the peak is open"
    )


_OF = "of this graph, with its sizes and costs and each op whole"
_TRUSTED = "the solver's own, which is trusted here"
_VERIFIED = "verified apart from the solver, with exact sums"


def proof_of(graph: Graph, result: SolveResult, cancelled: Cancelled, *, certifiable: bool) -> str:
    """``verified``: by a certificate that was made and checked now; ``solver``: by the solver alone; or
    nothing is claimed.
    """
    proved = result.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    if not proved and (result.status is not SolveStatus.FEASIBLE or result.gap is None):
        return ""
    tried = proved and certifiable and not result.assumptions
    return "verified" if tried and planning.confirmed(graph, result, cancelled=cancelled) else "solver"


def proof_lines(result: SolveResult, proof: str, *, certifiable: bool) -> list[str]:
    if not proof:
        return []
    what = "bound" if result.status is SolveStatus.FEASIBLE else "proof"
    if proof == "verified":
        return [f"  {what}     {_OF}; {_VERIFIED}"]
    more = "; checkmate certify writes one that others can check" if certifiable else ""
    return [f"  {what}     {_OF}; {_TRUSTED}{more}"]
