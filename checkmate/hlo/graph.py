"""A dump of XLA's as a graph: its instructions, or what XLA will fuse of them, are the ops.

It is an estimate of what XLA holds: XLA orders and fuses again what is compiled anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from checkmate.catalog.cards import Card, cards_called
from checkmate.errors import FormatError, GraphError
from checkmate.hlo.assignment import assigned_peak
from checkmate.hlo.layers import NO_LAYER, layer_of
from checkmate.hlo.module import HloError, Module
from checkmate.hlo.peak import Held, Peak, peak_of
from checkmate.hlo.read import Dump, damaged, read_dump
from checkmate.hlo.steps import Reader, Step, Steps
from checkmate.ir import CostOrigin, CostUnit, Graph, GraphBuilder, Phase

_CARD = "A100 40 GB"  # of the middle of the table; what matters is what products cost beside bytes
_OF_PEAK = 0.7  # that products and bytes reach
_HALF = ("f16", "bf16")
_NOTE = "This is an estimate of what XLA holds: it fuses and orders again what is compiled anew."


def read_dump_graph(path: Path) -> Graph:
    """Raise FormatError where the dump is damaged, or has no program."""
    dump = read_dump(path)
    if dump.module is None:
        raise FormatError(
            f"{path} is a buffer assignment, which does not tell what reads what",
            hint="name the dump of the module beside it",
        )
    try:
        return graph_of(dump.module)
    except (HloError, GraphError) as error:
        raise damaged(path, error) from error


class _Plan:
    """The steps of a module, and where its results are. ``inside``: values that take no bytes of their own,
    in the buffers of donated arguments, or of ``reserved`` results.
    """

    def __init__(self, module: Module) -> None:
        self.steps = steps = Reader(module).steps(module.entry)
        if not steps.steps:
            raise HloError("there is nothing to compute in it")
        self.written = {value for step in steps.steps for value in step.writes}
        self.results = self.written.intersection(steps.results)
        inside = _in_arguments(module, steps)
        self.reserved = self._reserved() - inside
        self.inside = inside | self.reserved

    def _reserved(self) -> set[int]:
        """The results that XLA holds from the beginning: most else is too large for their buffers."""
        size = {value: self.steps.values[value].bytes for value in self.written}
        largest = max((size[value] for value in self.written - self.results), default=0)
        return {value for value in self.results if size[value] < largest}

    @property
    def fixed(self) -> dict[str, int]:
        sizes = self.steps.bytes_of
        return {"arguments": sizes(self.steps.arguments), "results": sizes(self.reserved)}


def graph_of(module: Module) -> Graph:
    """Raise HloError where the module contradicts itself, or computes nothing."""
    plan, builder = _Plan(module), GraphBuilder(module.name)
    steps, fixed = plan.steps, plan.fixed
    ids: dict[int, int] = {}
    for value in dict.fromkeys(value for step in steps.steps for value in (*step.reads, *step.writes)):
        shape = steps.values[value]
        size = 0 if value in steps.constants or value in plan.inside else shape.bytes
        told = {"shape": shape.dims, "dtype": shape.dtype, "keep": value in plan.results}
        ids[value] = builder.value(steps.names[value], size, **told)
    phase, (card,) = _Phases(), cards_called([_CARD])
    for step in steps.steps:
        over = dict[int, tuple[int, int]]()
        for pair in step.over:
            if pair[1] in plan.written and pair[0] not in plan.inside:
                over.setdefault(pair[0], (ids[pair[0]], ids[pair[1]]))
        layer = layer_of(step.last.op_name)
        builder.op(
            step.last.name,
            [ids[value] for value in step.reads],
            [ids[value] for value in step.writes],
            type=step.last.opcode,
            phase=phase.of(step),
            group="" if layer == NO_LAYER else layer,
            cost=_seconds(steps, step, card),
            workspace_bytes=step.inner,
            recomputable=not step.has_effects,
            takes_over=tuple(over.values()),
        )
    return builder.build(
        fixed_bytes=sum(fixed.values()),
        fixed=fixed,
        cost_unit=CostUnit.SECONDS,
        cost_origin=CostOrigin.ANALYTIC,
        metadata={
            "notes": [_NOTE],
            "hlo": {"framework": _framework(module), "donated": bool(module.aliases)},
        },
    )


def peak_of_dump(dump: Dump) -> Peak:
    """Return what a dump's step holds at most: exact where XLA's buffer assignment is there, and estimated
    where XLA has not fused and ordered it yet. Raise HloError.
    """
    if dump.module is None:
        return assigned_peak(dump.allocations)
    if not dump.module.scheduled:
        return planned_peak(dump.module)
    counted = peak_of(dump.module)
    return replace(assigned_peak(dump.allocations), held=counted.held) if dump.allocations else counted


def planned_peak(module: Module) -> Peak:
    """Return what the ops of a module's graph hold at most, in their order."""
    plan = _Plan(module)
    steps, fixed = plan.steps, plan.fixed
    maker = {value: step for step in steps.steps for value in step.writes}
    outside = steps.arguments | steps.constants | plan.inside
    most, place, held = steps.fullest(outside, plan.results)
    rows = [Held(name[:-1], "", name, size) for name, size in fixed.items()]
    for value in held:
        what = "result" if value in plan.results else "temporary"
        rows.append(Held(what, maker[value].last.op_name, steps.names[value], steps.values[value].bytes))
    last = steps.steps[place].last
    rows.append(Held("temporary", last.op_name, last.name, steps.steps[place].inner))
    own = steps.bytes_of(plan.results.intersection(held))
    rows = sorted((row for row in rows if row.bytes), key=lambda row: -row.bytes)
    return Peak(fixed["arguments"], fixed["results"] + own, 0, most - own, tuple(rows))


def _framework(module: Module) -> str:
    told = [each for part in module.computations.values() for each in part.instructions]
    if module.keras or any("compile_loss/" in each.op_name for each in told):
        return "keras"
    return "tensorflow" if any(each.op_type[:1].isupper() for each in told) else "jax"


def _in_arguments(module: Module, steps: Steps) -> set[int]:
    """Return what is written into the buffer of a donated argument, which counts already."""
    result = module.entry.instructions[module.entry.root].shape
    donated, found = set[int](), set[int]()
    for index, number, inside in module.aliases:
        if number < len(steps.parameters):
            parameter = module.entry.instructions[module.entry.parameters[number]].shape
            donated.add(steps.parameters[number][parameter.place(inside)])
            found.add(steps.results[result.place(index)])
    last = {value: step for step in steps.steps for value in step.reads}
    for step in steps.steps:
        for written, read in step.over:
            if (read in donated or read in found) and last[read] is step:
                found.add(written)
    return found


class _Phases:
    """Tells the part of the step that an op is of: an update reads gradients, and is of neither pass."""

    def __init__(self) -> None:
        self._late: set[int] = set()

    def of(self, step: Step) -> Phase:
        name = next((each.op_name for each in reversed(step.members) if each.op_name), "")
        after = not self._late.isdisjoint(step.reads)
        if "transpose(" in name or "gradient_tape/" in name or "gradients/" in name:
            phase = Phase.BACKWARD
        elif "jvp(" in name and not after:
            phase = Phase.FORWARD
        elif after:
            phase = Phase.BACKWARD if "jvp(" in name else Phase.UPDATE
        else:
            phase = Phase.FORWARD
        if phase is not Phase.FORWARD:
            self._late.update(step.writes)
        return phase


def _seconds(steps: Steps, step: Step, card: Card) -> float:
    half = any(steps.values[value].dtype in _HALF for value in step.writes)
    products = 2 * step.products / (card.half if half else card.matrix)
    return max(products, steps.moved(step) / card.bandwidth) / _OF_PEAK
