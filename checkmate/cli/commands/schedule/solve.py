"""Parse and run ``checkmate solve``: ask its question, and answer it.

The question is for a budget, or for the least memory within a cost, perhaps with constraints. The work is the
planning's.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output
from checkmate.cli.shared.certified import certified
from checkmate.errors import CancelledError, ExitCode, UsageError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.machine.cost_origin import cost_text, origin_words
from checkmate.progress import Cancelled, Report
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.problem import SolveOptions
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import Budget, format_bytes, format_overhead, format_seconds, plural

if TYPE_CHECKING:
    from checkmate.solvers.portfolio.least_memory import LeastMemory


_MINIMUM_SHARE, _MINIMUM_S = (
    0.2,
    5.0,
)  # of the time limit, and at most so many seconds, to find the least memory for ``--budget min``


def add_solve(commands: Any, common: Any) -> None:
    """Add ``solve`` to the parser of all commands."""
    parser = cli_options.add_command(
        commands,
        "solve",
        common,
        "find a schedule for a budget",
        _solve,
        "checkmate solve resnet50.json --budget 60% -o schedule.json",
    )
    parser.add_argument("graph", type=Path, metavar="G.json", help=cli_options.GRAPH_HELP)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--budget", type=cli_options.budget, help="the budget: 6.5GiB, 16GB, 60%% of keep-everything, or min"
    )
    add_overhead(asked)
    add_constraints(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="S.json", help="the schedule file to write")
    parser.add_argument(
        "--matrices", type=Path, metavar="FILE.npz", help="write the paper's matrices R and S to this file"
    )
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="C.json",
        help="also write a proof that others can check: how near the schedule is to the best, or that none "
        "fits; it takes at most --time-limit again. The exit code is 4 if there was not enough time for any",
    )
    cli_options.add_solver(parser, limit_s=60.0)


def _solve(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.formats.files import require_writable
    from checkmate.graphs.by_name import read_or_build
    from checkmate.solvers.registry import find_solver

    find_solver(options.solver)
    for path in filter(None, (options.output, options.matrices, options.certificate)):
        require_writable(path)
    graph = read_or_build(options.graph)
    asked = question(graph, options, cli_options.solve_options(options))
    if options.certificate is not None:
        _require_certifiable(asked)
    with progress_line(quiet=options.quiet) as report:
        found = answer(asked, report, interrupt)
    if interrupt.asked:
        raise CancelledError("cancelled")  # an unfinished result is not the answer
    write(found, options.output, options.matrices)
    if options.certificate is not None:
        return _certify(asked, found, options, interrupt)
    free = asked.budget is not None and asked.constraints.is_empty
    proof = proof_of(graph, found.result, interrupt, certifiable=free)
    facts = {**found.facts(), "proof": proof} if proof else found.facts()
    lines = proof_lines(found.result, proof, certifiable=free)
    output.show(options.json, facts, "\n".join([found.text(options.output), *lines]))
    return output.solve_exit_code(found.result.status)


def _require_certifiable(asked: Question) -> None:
    """Raise where no certificate could say what was asked.

    Raises:
        UsageError: the question has constraints, or is not for a budget.
    """
    if not asked.constraints.is_empty:
        raise UsageError(
            "a certificate holds for every schedule; it knows no --keep, --never-recompute or "
            "--no-gradient-recompute",
            hint="leave them out, or leave out --certificate",
        )
    if asked.budget is None:
        raise UsageError(
            "a certificate is for a budget, not for the least memory within a cost",
            hint="give a --budget, or leave out --certificate",
        )


def _certify(asked: Question, found: SolveAnswer, options: argparse.Namespace, interrupt: Interrupt) -> int:
    """Certify what was found, and show both."""
    result = found.result
    with progress_line(quiet=options.quiet) as report:
        proof = certified(
            asked.graph,
            result.budget_bytes,
            options.certificate,
            known_cost=math.inf if result.cost is None else result.cost,
            seconds=options.time_limit,
            report=report,
            cancelled=interrupt,
        )
    if proof is None:
        output.show(options.json, found.facts(), found.text(options.output))
        sentence = f"no certificate was made in {options.time_limit:g} s"
        output.complain(sentence, "give it more time: --time-limit 600")
        return ExitCode.NO_SCHEDULE
    facts = {**found.facts(), "certificate": proof.facts()}
    output.show(options.json, facts, f"{found.text(options.output)}\n{proof.text()}")
    return output.solve_exit_code(result.status)


def add_overhead(parser: Any) -> None:
    """Add ``--max-overhead``, which replaces a budget."""
    parser.add_argument(
        "--max-overhead",
        type=cli_options.overhead,
        metavar="X",
        help="find the least memory within this extra cost: 5%%, 0.05 or any",
    )


def add_constraints(parser: argparse.ArgumentParser) -> None:
    """Add ``--keep`` and ``--never-recompute``, both repeatable."""
    parser.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="VALUE_OR_LAYER",
        help="keep the value in memory from when it is made to its last use; repeatable",
    )
    parser.add_argument(
        "--never-recompute",
        action="append",
        default=[],
        metavar="OP_OR_LAYER",
        help="run the op only once; a name like block1_* stands for many ops; repeatable",
    )


@dataclass(frozen=True, eq=False)
class Question:
    """Say what to solve.

    Exactly one of ``budget`` and ``max_overhead`` (a fraction, infinite for any cost) is set.
    """

    graph: Graph
    budget: Budget | None
    max_overhead: float | None
    solver: str
    options: SolveOptions
    constraints: Constraints


def question(graph: Graph, given: argparse.Namespace, options: SolveOptions) -> Question:
    """Return what the command line asks about ``graph``.

    Raises:
        UnknownNameError: a name is not in the graph. UsageError: the solver cannot find the least memory.
    """
    constraints = Constraints.named(
        graph,
        keep=given.keep,
        never_recompute=given.never_recompute,
        recompute_gradients=options.recompute_gradients,
    )
    if given.max_overhead is not None and given.solver != "auto":
        raise UsageError(
            f"--max-overhead works with the solver auto only, not with {given.solver}",
            hint="leave --solver out, or give a --budget",
        )
    return Question(graph, given.budget, given.max_overhead, given.solver, options, constraints)


@dataclass(frozen=True, eq=False)
class SolveAnswer:
    """Hold a result, and ``least`` if the least memory was asked for."""

    graph: Graph
    result: SolveResult
    least: LeastMemory | None = None

    def facts(self) -> dict[str, Any]:
        """Return the schedule file's content. What is known of the least memory is in ``least_memory``."""
        from checkmate.formats.schedule import result_to_json

        facts = result_to_json(self.graph, self.result)
        return facts if self.least is None else {**facts, "least_memory": least_facts(self.least)}

    def text(self, path: Path | None) -> str:
        if self.least is None:
            return output.solve_text(self.graph, self.result, path)
        return least_text(self.graph, self.least, path)


def answer(asked: Question, report: Report, cancelled: Cancelled) -> SolveAnswer:
    """Solve the question."""
    from checkmate import planning

    if asked.budget is None:
        found = _least(asked, asked.max_overhead, asked.options, report, cancelled)
        return SolveAnswer(asked.graph, found.result, found)
    options = asked.options
    if asked.budget == Budget() and asked.solver == "auto":
        seconds = min(_MINIMUM_S, _MINIMUM_SHARE * options.time_limit_s)
        found = _least(asked, None, replace(options, time_limit_s=seconds, gap=0.0), report, cancelled)
        if found.result.status is SolveStatus.OPTIMAL:
            return SolveAnswer(asked.graph, found.result)
        budget, options = found.peak_bytes, replace(options, start=found.schedule)
    else:
        budget = planning.resolve_budget(asked.graph, asked.budget, constraints=asked.constraints)
    result = planning.solve(
        asked.graph,
        budget,
        solver=asked.solver,
        options=options,
        listener=planning.Following(asked.graph, report, cancelled),
        constraints=asked.constraints,
    )
    return SolveAnswer(asked.graph, result)


def _least(
    asked: Question,
    max_overhead: float | None,
    options: SolveOptions,
    report: Report,
    cancelled: Callable[[], bool],
) -> LeastMemory:
    from checkmate import planning

    return planning.least_memory(
        asked.graph,
        max_overhead=max_overhead,
        options=options,
        listener=planning.FollowingMemory(asked.graph, report, cancelled),
        constraints=asked.constraints,
    )


def write(found: SolveAnswer, schedule: Path | None, matrices: Path | None) -> None:
    """Write the requested files; nothing where there is no schedule."""
    from checkmate.formats import write_matrices
    from checkmate.formats.files import write_json

    if found.result.schedule is None:
        return
    if schedule is not None:
        write_json(schedule, found.facts())
    if matrices is not None:
        write_matrices(matrices, found.graph, found.result.schedule)


def least_facts(found: LeastMemory) -> dict[str, Any]:
    """Return what is known of the least memory.

    ``max_overhead`` is a fraction, null for any; ``cost_cap`` is the limit on the cost. The bound is in
    bytes. ``proved`` says whether the peak is the minimum.
    """
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
    """Return what ``solve --max-overhead`` prints."""
    from checkmate import planning

    result = found.result
    assert result.cost is not None and result.schedule is not None
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
            f"  cost      {cost_text(graph, result.cost)}, {format_overhead(result.cost, result.base_cost)} "
            f"over computing everything once (costs of ops: {origin_words(graph)})",
            f"  steps     {len(result.schedule.steps)}, {result.schedule.recomputations} of them recomputed",
            *output.assumption_lines(result),
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


_TRUSTED = "the solver's own, which is trusted here"
_VERIFIED = "verified apart from the solver, with exact sums"


def proof_of(graph: Graph, result: SolveResult, cancelled: Cancelled, *, certifiable: bool) -> str:
    """Return how a claim about every schedule is proved.

    ``verified``: by a certificate that was made and checked now. ``solver``: by the solver alone, as any
    bound is that leaves a gap. Empty: the result claims nothing of every schedule. ``certifiable``: a
    certificate could say what was asked.
    """
    from checkmate import planning

    proved = result.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE)
    if not proved and (result.status is not SolveStatus.FEASIBLE or result.gap is None):
        return ""
    tried = proved and certifiable and not result.assumptions
    return "verified" if tried and planning.confirmed(graph, result, cancelled=cancelled) else "solver"


def proof_lines(result: SolveResult, proof: str, *, certifiable: bool) -> list[str]:
    """Return the line on who proves a claim, if there is one."""
    if not proof:
        return []
    what = "bound" if result.status is SolveStatus.FEASIBLE else "proof"
    if proof == "verified":
        return [f"  {what}     {_VERIFIED}"]
    more = "; checkmate certify writes one that others can check" if certifiable else ""
    return [f"  {what}     {_TRUSTED}{more}"]
