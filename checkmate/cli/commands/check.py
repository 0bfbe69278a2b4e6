from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.cli import common_options, output
from checkmate.cli.commands.certify import proved_by
from checkmate.errors import ExitCode, UsageError
from checkmate.formats import read_schedule
from checkmate.graphs.by_name import read_or_build
from checkmate.ir import CheckReport, Graph, SolveResult
from checkmate.memory.recomputed import Recomputation, recomputations
from checkmate.terminal import Interrupt
from checkmate.text_table import aligned_lines
from checkmate.units import format_bytes, format_overhead, plural

_LISTED = 30  # the most recomputations that are listed in words; --json lists all


def add_check(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser, _check, example="checkmate check unet-b8.graph schedule.json --recomputed"
    )
    common_options.add_graph(parser)
    add = parser.add_argument
    add("schedule", type=Path, nargs="?", metavar="S.json", help="a schedule file for this graph")
    add(
        "--certificate",
        type=Path,
        metavar="C.json",
        help="check a proof that checkmate certify wrote, and how near the schedule is to what it proves; "
        "S.json may be left out then",
    )
    add("--budget", type=common_options.budget, help="the budget to check (default: the schedule's own)")
    add(
        "--recomputed",
        action="store_true",
        help="list what is computed again: since when it was gone, and how full the memory was meanwhile",
    )


def _check(options: argparse.Namespace, interrupt: Interrupt) -> int:
    graph = read_or_build(options.graph)
    if options.schedule is None and options.certificate is None:
        raise UsageError(
            "check needs a schedule, a certificate or both", hint="checkmate check G.json S.json"
        )
    if options.schedule is None:
        proved = proved_by(graph, options.certificate)
        output.show(options.json, {"certificate": proved.facts()}, proved.text(graph))
        return ExitCode.DONE
    result = read_schedule(options.schedule, graph)
    budget = result.budget_bytes if options.budget is None else planning.resolve_budget(graph, options.budget)
    found = planning.check_schedule(graph, result, budget=budget)
    claims = _false_claims(result, found)
    facts, text = _facts(found, claims), _text(found, claims)
    if options.recomputed and found.valid:
        again = recomputations(graph, result.require_schedule())
        facts["recomputed"] = [_recomputed_facts(graph, each) for each in again]
        text = "\n".join([text, *_recomputed_lines(graph, again)])
    if options.certificate is not None and found.valid:
        proved = proved_by(graph, options.certificate, found)
        facts["certificate"] = proved.facts()
        text += f"\n{proved.text(graph)}"
    output.show(options.json, facts, text)
    return ExitCode.DONE if found.ok and not claims else ExitCode.NOT_AS_PROMISED


def _false_claims(result: SolveResult, found: CheckReport) -> list[str]:
    claims = []
    if result.peak_bytes and result.peak_bytes != found.peak_bytes:
        claims.append(
            f"the schedule says its peak is {result.peak_bytes}, the replay finds {found.peak_bytes}"
        )
    if result.cost is not None and abs(result.cost - found.cost) > 1e-6 * max(1.0, abs(found.cost)):
        claims.append(f"the schedule says its cost is {result.cost:g}, the replay finds {found.cost:g}")
    return claims


def _facts(found: CheckReport, claims: Sequence[str]) -> dict[str, Any]:
    return {
        "valid": found.valid and not claims,
        "within_budget": found.within_budget,
        "budget_bytes": found.budget_bytes,
        "peak_bytes": found.peak_bytes,
        "peak_step": found.peak_step,
        "cost": found.cost,
        "base_cost": found.base_cost,
        "overhead_percent": 100 * (found.cost / found.base_cost - 1) if found.base_cost else None,
        "recomputations": found.recomputations,
        "problems": [*(v.message for v in found.violations), *claims],
    }


def _text(found: CheckReport, claims: Sequence[str]) -> str:
    problems = [
        *(
            f"  step {v.step}: {v.message}" if v.step is not None else f"  {v.message}"
            for v in found.violations
        ),
        *(f"  {claim}" for claim in claims),
    ]
    verdict = "valid" if found.valid and not claims else "NOT VALID"
    if found.budget_bytes is not None:
        verdict += ", within" if found.within_budget else ", OVER"
        verdict += f" the budget {format_bytes(found.budget_bytes)}"
    return "\n".join(
        [
            verdict,
            *problems,
            f"  peak {format_bytes(found.peak_bytes)} ({found.peak_bytes} bytes) "
            f"at step {found.peak_step}, counted from 0",
            f"  cost {found.cost:.6g}, {format_overhead(found.cost, found.base_cost)}; "
            f"{plural(found.recomputations, 'recomputation')}",
        ]
    )


def _recomputed_facts(graph: Graph, again: Recomputation) -> dict[str, Any]:
    return {
        "op": graph.ops[again.op].name,
        "step": again.step,
        "step_before": again.before,
        "freed_after": again.freed_after,
        "bytes": again.bytes,
        "cost": graph.ops[again.op].cost,
        "read_at": again.read_at,
        "reader": None if again.reader is None else graph.ops[again.reader].name,
        "fullest_step": again.fullest_step,
        "fullest_bytes": again.fullest_bytes,
    }


def _recomputed_lines(graph: Graph, again: Sequence[Recomputation]) -> list[str]:
    if not again:
        return ["nothing is computed again"]
    head = ("at step", "op", "bytes", "gone after", "fullest meanwhile", "extra cost", "read next by")
    rows = [head, *(_recomputed_cells(graph, each) for each in again[:_LISTED])]
    lines = ["computed again:"]
    lines += [f"  {line}" for line in aligned_lines(rows, left=(1, 6))]
    if len(again) > _LISTED:
        lines.append(f"  and {len(again) - _LISTED} more; --json lists all")
    return lines


def _recomputed_cells(graph: Graph, again: Recomputation) -> tuple[str, ...]:
    op, full = graph.ops[again.op], again.fullest_bytes
    return (
        str(again.step),
        op.name,
        format_bytes(again.bytes) if again.bytes else "a view",
        f"step {again.freed_after}",
        "-" if full is None else f"{format_bytes(full)} at step {again.fullest_step}",
        format_overhead(graph.base_cost + op.cost, graph.base_cost),
        "-" if again.reader is None else graph.ops[again.reader].name,
    )
