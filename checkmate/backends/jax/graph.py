"""The graph of a JAX step: its fusions as ops, what they write as values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from checkmate.backends.jax.device import Speed
from checkmate.backends.jax.fusions import Fusion
from checkmate.backends.jax.program import PRODUCTS, Equation, Program, bodies, body_bytes, operations
from checkmate.ir import CostOrigin, CostUnit, Graph, GraphBuilder, Phase


def graph_of(
    program: Program, fused: Sequence[Fusion], *, name: str, speed: Speed, fixed: dict[str, int]
) -> Graph:
    """``fixed``: bytes that the step holds whatever its schedule. So a result takes no bytes of its own."""
    builder = GraphBuilder(name)
    results = {atom for atom in program.results if isinstance(atom, int)}
    ids: dict[int, int] = {}
    written = {value for fusion in fused for value in fusion.writes}
    for fusion in fused:
        for value in (*fusion.reads, *fusion.writes):
            if value not in ids:
                ids[value] = _value(builder, program, value, value in written, value in results)
    effect: int | None = None
    for index, fusion in enumerate(fused):
        reads, writes = [ids[value] for value in fusion.reads], [ids[value] for value in fusion.writes]
        if _effects(fusion):  # effects stay in their order: each reads what the one before wrote
            reads += [] if effect is None else [effect]
            effect = builder.value(f"effect:{index}", 0, keep=True)
            writes.append(effect)
        builder.op(
            f"{index}:{fusion.root.name}",
            reads,
            writes,
            type=fusion.root.name,
            phase=phase_of(fusion.root.stack),
            group=layer_of(fusion.root.stack),
            cost=_seconds(program, fusion, speed),
            workspace_bytes=_workspace(fusion),
            recomputable=not _effects(fusion),
            takes_over=tuple((ids[written], ids[read]) for written, read in fusion.overwrites),
        )
    return builder.build(
        fixed_bytes=sum(fixed.values()),
        fixed=fixed,
        cost_unit=CostUnit.SECONDS,
        cost_origin=CostOrigin.ANALYTIC,
    )


def _value(builder: GraphBuilder, program: Program, value: int, made: bool, result: bool) -> int:
    aval = program.avals[value]
    size = program.bytes_of(value)
    return builder.value(
        f"v{value}",
        0 if result and made else size,
        shape=tuple(getattr(aval, "shape", ())),
        dtype=str(getattr(aval, "dtype", "")),
        keep=result and made,
    )


def _effects(fusion: Fusion) -> bool:
    return any(each.has_effects for each in fusion.equations)


def _workspace(fusion: Fusion) -> int:
    inside = [body_bytes(body) for each in fusion.equations for body in bodies(each.source.params)]
    return max(fusion.workspace, *inside, 0)


def _seconds(program: Program, fusion: Fusion, speed: Speed) -> float:
    moved = sum(program.bytes_of(value) for value in (*fusion.reads, *fusion.writes))
    return speed.seconds(_operation_seconds(fusion, fusion.equations, speed), moved)


def product_seconds(fusion: Fusion, speed: Speed) -> float:
    """About how long a fusion's products take, whatever is moved."""
    products = [each for each in fusion.equations if each.name in PRODUCTS]
    return _operation_seconds(fusion, products, speed)


def _operation_seconds(fusion: Fusion, equations: Iterable[Equation], speed: Speed) -> float:
    inline = {fusion.equations[position] for position in fusion.inline}
    return sum(
        operations(
            each.name,
            each.source.params,
            (atom.aval for atom in each.source.invars),
            (var.aval for var in each.source.outvars),
            speed.operation_seconds,
        )
        for each in equations
        if each not in inline
    )


def phase_of(stack: str) -> Phase:
    if "transpose(" in stack:
        return Phase.BACKWARD
    return Phase.FORWARD if "jvp(" in stack else Phase.UPDATE


def layer_of(stack: str) -> str:
    """``transpose(jvp(block/dense))`` is ``block/dense``, and so is what ``jax.checkpoint`` makes of it."""
    once = re.sub(r"^transpose\(jvp\((.*?)\)\)/jvp\(\1\)", r"\1", stack)
    scopes = re.sub(r"\w+\(|\)", "", once).split("/")
    return "/".join(scope for scope in scopes if scope not in ("", "checkpoint", "rematted_computation"))
