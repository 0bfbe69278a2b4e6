"""``checkmate solve``: for a budget, or for the least memory within a cost, perhaps with constraints."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.cli import common_options, output
from checkmate.cli.commands import solve_text
from checkmate.cli.commands.certify import certified, no_certificate
from checkmate.errors import CancelledError, UsageError
from checkmate.formats import write_matrices
from checkmate.formats.files import require_writable, write_json
from checkmate.formats.schedule import result_to_json
from checkmate.graphs.by_name import read_or_build
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.progress import Cancelled, Report
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.portfolio.least_memory import LeastMemory
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.terminal import Interrupt, progress_line
from checkmate.units import Budget

# The time to find the least memory for ``--budget min``: a share of the limit, and at most so many seconds.
_MINIMUM_SHARE, _MINIMUM_S = 0.2, 5.0


def add_solve(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser, _solve, example="checkmate solve resnet50.json --budget 60% -o schedule.json"
    )
    common_options.add_graph(parser)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--budget",
        type=common_options.budget,
        help="the budget: 6.5GiB, 16GB, 60%% of keep-everything, or min",
    )
    common_options.add_max_overhead(asked, "find the least memory within this extra cost: 5%%, 0.05 or any")
    _add_constraints(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="S.json", help="the schedule file to write")
    parser.add_argument(
        "--matrices", type=Path, metavar="FILE.npz", help="write the paper's matrices R and S to this file"
    )
    parser.add_argument(
        "--certificate",
        type=Path,
        metavar="C.json",
        help="also write a proof that others can check, in at most --time-limit again; exit code 4 if there "
        "was not enough time for any",
    )
    common_options.add_solver(parser, limit_s=60.0)


def _add_constraints(parser: argparse.ArgumentParser) -> None:
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
class _Question:
    """Exactly one of ``budget`` and ``max_overhead`` (a fraction, infinite for any) is set."""

    graph: Graph
    budget: Budget | None
    max_overhead: float | None
    solver: str
    options: SolveOptions
    constraints: Constraints

    @property
    def certifiable(self) -> bool:
        return self.budget is not None and self.constraints.is_empty


@dataclass(frozen=True, eq=False)
class _Answer:
    """``least`` is set if the least memory was asked for."""

    graph: Graph
    result: SolveResult
    least: LeastMemory | None = None

    def facts(self) -> dict[str, Any]:
        facts = result_to_json(self.graph, self.result)
        if self.least is None:
            return facts
        return {**facts, "least_memory": solve_text.least_facts(self.least)}

    def text(self, path: Path | None) -> str:
        if self.least is None:
            return solve_text.solve_text(self.graph, self.result, path)
        return solve_text.least_text(self.graph, self.least, path)


def _solve(options: argparse.Namespace, interrupt: Interrupt) -> int:
    find_solver(options.solver)
    for path in filter(None, (options.output, options.matrices, options.certificate)):
        require_writable(path)
    asked = _question(read_or_build(options.graph), options)
    if options.certificate is not None:
        _require_certifiable(asked)
    with progress_line(quiet=options.quiet) as report:
        found = _answer(asked, report, interrupt)
    if interrupt.asked:
        raise CancelledError("cancelled")  # an unfinished result is not the answer
    _write(found, options.output, options.matrices)
    if options.certificate is not None:
        return _certify(asked, found, options, interrupt)
    proof = solve_text.proof_of(asked.graph, found.result, interrupt, certifiable=asked.certifiable)
    facts = {**found.facts(), "proof": proof} if proof else found.facts()
    lines = solve_text.proof_lines(found.result, proof, certifiable=asked.certifiable)
    output.show(options.json, facts, "\n".join([found.text(options.output), *lines]))
    return output.solve_exit_code(found.result.status)


def _question(graph: Graph, given: argparse.Namespace) -> _Question:
    options = common_options.solve_options(given)
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
    return _Question(graph, given.budget, given.max_overhead, given.solver, options, constraints)


def _require_certifiable(asked: _Question) -> None:
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


def _certify(asked: _Question, found: _Answer, options: argparse.Namespace, interrupt: Interrupt) -> int:
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
        return no_certificate(options.time_limit)
    facts = {**found.facts(), "certificate": proof.facts()}
    output.show(options.json, facts, f"{found.text(options.output)}\n{proof.text()}")
    return output.solve_exit_code(result.status)


def _answer(asked: _Question, report: Report, cancelled: Cancelled) -> _Answer:
    if asked.budget is None:
        found = _least(asked, asked.max_overhead, asked.options, report, cancelled)
        return _Answer(asked.graph, found.result, found)
    options = asked.options
    if asked.budget == Budget() and asked.solver == "auto":
        seconds = min(_MINIMUM_S, _MINIMUM_SHARE * options.time_limit_s)
        found = _least(asked, None, replace(options, time_limit_s=seconds, gap=0.0), report, cancelled)
        if found.result.status is SolveStatus.OPTIMAL:
            return _Answer(asked.graph, found.result)
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
    return _Answer(asked.graph, result)


def _least(
    asked: _Question,
    max_overhead: float | None,
    options: SolveOptions,
    report: Report,
    cancelled: Cancelled,
) -> LeastMemory:
    return planning.least_memory(
        asked.graph,
        max_overhead=max_overhead,
        options=options,
        listener=planning.FollowingMemory(asked.graph, report, cancelled),
        constraints=asked.constraints,
    )


def _write(found: _Answer, schedule: Path | None, matrices: Path | None) -> None:
    if found.result.schedule is None:
        return
    if schedule is not None:
        write_json(schedule, found.facts())
    if matrices is not None:
        write_matrices(matrices, found.graph, found.result.schedule)
