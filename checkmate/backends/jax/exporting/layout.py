"""Say how an exported step is called: as the step, or by flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from checkmate.backends.jax.plan import JaxPlan


@dataclass(frozen=True, eq=False)
class Calling:
    """A plan's step as a function that JAX can export.

    ``function``: of ``arguments``, which are shapes. ``donated``: the numbers of arguments that it may take
    over. ``leaves``: it takes and returns flat arrays, since a file cannot name the types of their trees.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    donated: tuple[int, ...]
    leaves: bool


def as_called(plan: JaxPlan) -> Calling:
    """Return the step as it is called, without its static arguments.

    An argument is donated where all of it is.
    """
    arguments = tuple(plan.arguments)
    counts = [len(jax.tree.leaves(each)) for each in arguments]
    firsts = [sum(counts[:number]) for number in range(len(counts))]
    given = set(plan.donated)
    donated = tuple(
        number
        for number, (first, count) in enumerate(zip(firsts, counts, strict=True))
        if count and given.issuperset(range(first, first + count))
    )

    def step(*args: Any) -> Any:
        return jax.tree.unflatten(plan.results, plan.jitted(*jax.tree.leaves(args)))

    return Calling(step, arguments, donated, leaves=False)


def by_leaves(plan: JaxPlan) -> Calling:
    """Return the step as a function of the flat arrays of its arguments."""
    arguments = tuple(jax.tree.leaves(plan.arguments))

    def step(*leaves: Any) -> Any:
        return plan.jitted(*leaves)

    return Calling(step, arguments, plan.donated, leaves=True)


def described(tree: Any, donated: Sequence[int] | None) -> list[dict[str, Any]]:
    """Return the arrays of a tree of shapes, as JSON-able data.

    ``donated``: numbers of flat arrays that a step may take over; None for results.
    """
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [
        {
            "path": jax.tree_util.keystr(path),
            "shape": list(leaf.shape),
            "dtype": str(leaf.dtype),
            **({} if donated is None else {"donated": number in donated}),
        }
        for number, (path, leaf) in enumerate(found)
    ]
