"""The sections of steps: measured beside the plain one, a schedule, a graph, an exported step of JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checkmate.charts.live_bytes import memory_svg
from checkmate.charts.svg_chart import LARGE, Size
from checkmate.errors import FormatError
from checkmate.formats import read_any_graph
from checkmate.formats.files import Fields
from checkmate.formats.schedule import result_from_json
from checkmate.ir import CostOrigin, Graph, Schedule, SolveStatus
from checkmate.machine.cost_origin import is_other_pace, origin_words, reading_words
from checkmate.memory.simulate import simulate
from checkmate.reports.curves import ORIGINS
from checkmate.reports.grouping import REPORT, SCHEDULE, Loaded
from checkmate.reports.html import Block, Note, Picture, Section, Table
from checkmate.runner import Runner, runner_of
from checkmate.units import NONE, format_bytes, format_overhead, format_seconds, plural

_CAPTION = (
    "Live bytes as the ops request them, predicted by replaying the schedule; what the allocator shows "
    "differs, and is measured. Ticks on the axis: recomputations."
)
_COLUMNS = (
    "",
    "predicted",
    "measured",
    "plain step, predicted",
    "plain step, measured",
    "reloaded, measured",
)


def run(group: Sequence[Loaded]) -> list[Section]:
    by_kind = {entry.kind: entry for entry in group}
    graph = None
    if graph_file := next((entry for entry in group if entry.kind not in (REPORT, SCHEDULE)), None):
        graph = read_any_graph(graph_file.path)
    told, said = (
        Fields(by_kind[kind].path, by_kind[kind].data) if kind in by_kind else None
        for kind in (REPORT, SCHEDULE)
    )
    return [step_section(told, said, graph)]


def step_section(
    told: Fields | None, said: Fields | None, graph: Graph | None, size: Size = LARGE
) -> Section:
    """Return the section of a report, a schedule and a graph, or of those that there are."""
    blocks: list[Block] = []
    facts: list[str] = []
    cards: list[tuple[str, str]] = []
    title = ""
    if told is not None:
        title = f"{told.get('model', str)}: measured beside the plain step"
        facts += _report_facts(told)
        cards += _report_cards(told)
        blocks += _report_blocks(told)
    if said is not None:
        if not title:
            title = f"{said.get('graph_name', str, 'a graph')}: a schedule"
            cards += _schedule_cards(said)
        blocks += _schedule_blocks(said, graph, size)
    elif graph is not None:
        title = title or f"{graph.name}: a graph"
        plain = Schedule.plain(graph)
        blocks.append(Picture(memory_svg(graph, plain, None, size), _CAPTION))
    if graph is not None:
        facts += [f"{graph.n} ops", _origin(graph)]
        if told is None and (doubts := reading_words(graph)):  # a report already has it among its notes
            blocks.append(Note((f"Note: {doubts}.",)))
    return Section(title, tuple(facts), tuple(cards), tuple(blocks))


def _origin(graph: Graph) -> str:
    measured = graph.cost_origin is CostOrigin.MEASURED
    return f"costs {origin_words(graph)}" if measured else ORIGINS[graph.cost_origin.value]


def _report_facts(told: Fields) -> list[str]:
    batch = told.whole("batch_size", None)
    return [
        *([f"batch {batch}"] if batch else []),
        f"measured on {told.get('device', str)}",
        f"budget {format_bytes(told.whole('budget_bytes'))}",
        f"{told.whole('steps'):,} steps, {told.whole('recomputations'):,} of them recomputed",
    ]


def _runner(told: Fields) -> Runner:
    return runner_of(told.get("settings", dict, {}))


def _report_cards(told: Fields) -> list[tuple[str, str]]:
    peak, gradients = told.get("peak_bytes", dict), told.get("gradients", dict)
    # XLA plans its buffers; none is measured.
    how, kind = ("measured", "measured") if _runner(told).metered else ("as XLA says", "predicted")
    measured, plain = peak.get(kind), peak.get(f"plain_{kind}")
    smaller = f" (−{100 * (1 - measured / plain):.0f} % against the plain step)" if measured and plain else ""
    same = "bitwise equal" if gradients.get("bitwise") else "equal" if gradients.get("equal") else "DIFFERENT"
    same = "not compared" if gradients.get("equal") is None else same
    what = gradients.get("compared", "gradients")
    return [
        ("as promised" if told.get("ok", bool) else "NOT as promised", f"loss, {what}, peak"),
        (format_bytes(measured), f"peak, {how}{smaller}"),
        (format_seconds(told.get("seconds", dict).get("measured")), "a step, measured"),
        (same, f"{what}, with the same kernels, measured{_at_batch(told, gradients)}"),
    ]


def _at_batch(told: Fields, gradients: dict[str, Any]) -> str:
    batch = gradients.get("batch_size")
    return "" if batch in (None, told.whole("batch_size", None)) else f" at batch {batch}"


def _apart(gradients: Mapping[str, Any]) -> str:
    worst, scaled = gradients["worst"], gradients.get("worst_of_largest")
    what = gradients.get("compared", "gradients")
    most = f"{worst['relative_error']:.1e} ({worst['name']})"  # of a report of an earlier version
    if scaled:
        largest = "the step's largest gradient" if what == "gradients" else "the largest of them"
        most = f"{scaled['error']:.1e} of {largest} ({scaled['name']})"
    if scaled and not scaled["error"]:
        return f"With default kernels the {what} do not differ."
    overall = f"{gradients['overall_relative_error']:.1e}"
    return f"With default kernels the {what} are {overall} apart overall, at most {most}."


def _report_blocks(told: Fields) -> list[Block]:
    peak, seconds, loss = (told.get(name, dict) for name in ("peak_bytes", "seconds", "loss"))
    peak_name = "peak on the allocator's meter" if _runner(told).metered else "peak, as XLA says"
    rows = [
        (peak_name, *_line(peak, "", format_bytes)),
        ("requested bytes", *_line(peak, "_requested", format_bytes)),
        ("seconds a step", *_line(seconds, "", format_seconds)),
        ("loss", NONE, _plainly(loss.get("optimized")), NONE, _plainly(loss.get("plain")), NONE),
    ]
    gradients = told.get("gradients", dict)
    lines = []
    if gradients.get("overall_relative_error") is not None and gradients.get("worst"):
        lines.append(_apart(gradients))
    profiled, today = seconds.get("predicted"), seconds.get("predicted_today")
    if profiled and today and is_other_pace(today / profiled):
        lines.append(
            "Scaled by the plain step as it was measured, a step was predicted to take "
            f"{format_seconds(today)}."
        )
    lines += [f"Problem: {problem}" for problem in told.get("problems", list, [])]
    lines += [f"Note: {note}" for note in told.get("notes", list, [])]
    return [
        Table.of(
            "The scheduled step and the plain one", _COLUMNS, [row for row in rows if {*row[1:]} != {NONE}]
        ),
        Note(tuple(lines)),
    ]


def _line(told: dict[str, Any], ending: str, words: Any) -> list[str]:
    names = ("predicted", "measured", "plain_predicted", "plain_measured", "reloaded_measured")
    return [words(told.get(f"{name}{ending}")) for name in names]


def _plainly(value: Any) -> str:
    return NONE if value is None else f"{value:.6g}"


def _schedule_cards(said: Fields) -> list[tuple[str, str]]:
    cost, base = said.number("cost", None), said.number("base_cost", None)
    cards = (
        [(format_bytes(said.whole("peak_bytes")), "peak, predicted")] if said.data.get("peak_bytes") else []
    )
    if cost is not None and base is not None:
        cards.append((format_overhead(cost, base), "extra cost, solved"))
    return [*cards, (_known(said), "what is known of it")]


def _known(said: Fields) -> str:
    try:
        status = SolveStatus(said.get("status", str, "feasible"))
    except ValueError:
        raise FormatError(f"{said.path}: {said.data['status']!r} is not a status") from None
    assumed = said.get("assumptions", list, [])
    under = f" assuming {', '.join(map(str, assumed))}" if assumed else ""
    if status is SolveStatus.OPTIMAL:
        return f"optimal, proved{under}"
    gap = said.number("gap", None)
    return "a schedule, no bound" if gap is None else f"gap at most {100 * gap:.2g} %{under}"


def _schedule_blocks(said: Fields, graph: Graph | None, size: Size) -> list[Block]:
    steps = said.ids("steps")
    words = [
        f"The schedule: {len(steps):,} steps, solved by {said.get('solver', str, 'unknown')}, {_known(said)}."
    ]
    if graph is None:
        return [Note((*words, "Its graph was not given and is not beside it, so there is no memory curve."))]
    result = result_from_json(said.path, said.data, graph)
    schedule = result.require_schedule()
    timeline = simulate(graph, schedule)
    plain = simulate(graph, Schedule.plain(graph))
    words.append(
        f"Replayed: peak {format_bytes(timeline.peak_bytes)} at step {timeline.peak_step + 1} (keep "
        f"everything: {format_bytes(plain.peak_bytes)}), {format_overhead(timeline.cost, plain.cost)} cost, "
        f"{plural(schedule.recomputations, 'recomputation')}; budget {format_bytes(result.budget_bytes)} of "
        "requested bytes."
    )
    return [Picture(memory_svg(graph, schedule, result.budget_bytes, size), _CAPTION), Note(tuple(words))]


_XLA_BYTES = ("", "whole", "arguments", "results", "shared", "temporary")
_JAX_STEPS = (
    ("plain_bytes", "the plain step"),
    ("reached_bytes", "the scheduled step"),
    ("reloaded_bytes", "the step read from the file"),
)


def jax_export(path: Path, data: Any) -> list[Section]:
    told = Fields(path, data)
    ok, calls = told.get("ok", bool), told.get("call", str)
    rows = [(words, *_sizes(Fields(path, told.get(name, dict), name))) for name, words in _JAX_STEPS]
    blocks: list[Block] = [Table.of("Bytes, read from XLA's compiled steps", _XLA_BYTES, rows)]
    if problems := told.get("problems", list):
        blocks.append(Note(tuple(map(str, problems))))
    reached = told.get("reloaded_bytes", dict).get("whole")
    facts = (
        f"exported for the {told.get('platform', str)} by JAX {told.get('versions', dict).get('jax')}",
        f"budget {format_bytes(told.whole('budget_bytes'))}",
        "called as the step is" if calls == "tree" else "called with flat arrays",
    )
    cards = (
        ("as promised" if ok else "NOT as promised", "the step read from its file"),
        (format_bytes(reached), "peak of it, as XLA says"),
        (f"{100 * told.get('predicted_overhead', (int, float)):+.1f} %", "extra cost, predicted by counts"),
    )
    return [Section(f"{told.get('step', str)}: exported by jax.export", facts, cards, tuple(blocks))]


def _sizes(told: Fields) -> list[str]:
    return [format_bytes(told.whole(name)) for name in _XLA_BYTES[1:]]
