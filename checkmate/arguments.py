"""Arguments of the Python functions: graphs, budgets, extra costs.

They are read as the command line reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import TypeVar

from checkmate.errors import UsageError
from checkmate.graphs.by_name import read_or_build
from checkmate.ir.graph import Graph
from checkmate.request import OnMiss, Target
from checkmate.units import Budget, parse_budget, parse_bytes, parse_overhead, plural

GraphLike = Graph | str | Path
BudgetLike = Budget | str | int

_LEAST_BUDGET = 2**10  # bytes; who writes less means a share or another unit
_LARGE_STEP = 2**20  # bytes
_BUDGET_HINT = 'for example budget="6GiB"'
Value = TypeVar("Value")


def graph_of(given: GraphLike) -> Graph:
    """Return the graph that is given, or that ``given`` names.

    It is read or built where ``given`` is a file, a bundled graph's name or ``paper.NAME``.

    Raises:
        FormatError: the file is missing or broken. UsageError: there is no such network.
    """
    return given if isinstance(given, Graph) else read_or_build(given)


def budget_of(given: BudgetLike) -> Budget:
    """Return the budget that ``given`` stands for.

    It is ``"6GiB"``, ``"60%"``, ``"min"``, or a number of bytes.

    Raises:
        UsageError: it cannot be read, or leaves no memory at all.
    """
    if isinstance(given, Budget):
        return given
    try:
        found = Budget(bytes_=int(given)) if _is_whole(given) else parse_budget(str(given))
    except ValueError as error:
        raise UsageError(str(error), hint=_BUDGET_HINT) from error
    if found.bytes_ is not None and found.bytes_ <= 0:
        raise UsageError(f"a budget of {given} leaves no memory at all", hint=_BUDGET_HINT)
    return found


def step_budget_of(given: BudgetLike, peak_bytes: int = _LARGE_STEP) -> Budget:
    """Return the budget that ``given`` stands for, for a step that is no toy.

    ``peak_bytes``: what the step takes where it keeps everything, if that is known. A step of a few bytes may
    have any budget.

    Raises:
        UsageError: as for ``budget_of``; or it is so few bytes that another unit was meant.
    """
    found = budget_of(given)
    few = found.bytes_
    if few is not None and few < _LEAST_BUDGET and peak_bytes >= _LARGE_STEP:
        share = f'"{few}%" for a share of the plain step\'s peak, or ' if few <= 100 else ""
        raise UsageError(
            f"a budget of {plural(few, 'byte')} is less than any step needs", hint=f'write {share}"{few}GiB"'
        )
    return found


def _is_whole(given: object) -> bool:
    """Return whether ``given`` is a whole number; True and False are none."""
    if isinstance(given, float):
        return given.is_integer()
    return isinstance(given, Integral) and not isinstance(given, bool)


def budgets_of(given: int | str | Sequence[BudgetLike]) -> int | tuple[Budget, ...]:
    """Return a count as it is, and a list of budgets read one by one.

    ``"25%,50%,8GiB"`` is a list.

    Raises:
        UsageError: one of them cannot be read.
    """
    if isinstance(given, int):
        return given
    return tuple(budget_of(part) for part in (given.split(",") if isinstance(given, str) else given))


def budget_bytes_of(given: BudgetLike) -> int:
    """Return a budget in bytes.

    Raises:
        UsageError: it cannot be read, or depends on the graph.
    """
    found = budget_of(given)
    if found.bytes_ is None:
        raise UsageError(
            f"{str(given)!r} depends on the batch; write the budget as a size, like 16GiB", hint=_BUDGET_HINT
        )
    return found.bytes_


def on_miss_of(given: OnMiss | str) -> OnMiss:
    """Return what is to be done where no schedule keeps the budget.

    Raises:
        UsageError: it is neither ``"closest"`` nor ``"raise"``.
    """
    try:
        return OnMiss(given)
    except ValueError as error:
        raise UsageError(
            f"on_miss={given!r} is not known",
            hint='write on_miss="closest" (train with the schedule that is least over the budget) or '
            'on_miss="raise"',
        ) from error


def target_of(given: Target | str | None) -> Target | None:
    """Return what is to run the step; None: what the model says.

    Raises:
        UsageError: it is neither ``"executor"`` nor ``"xla"``.
    """
    try:
        return None if given is None else Target(given)
    except ValueError as error:
        raise UsageError(
            f"target={given!r} is not known",
            hint='write target="executor" (TensorFlow runs op after op) or target="xla" (compiled)',
        ) from error


def bytes_of(given: str | int | None) -> int | None:
    """Return a size in bytes; None stays None.

    Raises:
        UsageError: it cannot be read.
    """
    return _read(parse_bytes, given) if isinstance(given, str) else given


def overhead_of(given: str | float | None) -> float | None:
    """Return an extra cost as a fraction; None stays None.

    It is infinite for ``"any"``.

    Raises:
        UsageError: it cannot be read.
    """
    return _read(parse_overhead, given) if isinstance(given, str) else given


def _read(parse: Callable[[str], Value], text: str) -> Value:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
