"""Learn what a GPU's kernels allocate beyond the rules, by op name.

The kernels of a GPU are launched ahead of time, so the moment of a request does not tell which op runs. But
each event of the GPU's allocator names the op that asked, and says whether it asked for scratch or for an
output. So scratch is learned per op, and so are the outputs whose size no shape tells (``sizes.is_reserve``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from checkmate.backends.tf.allocator.learn import LEAST_LEARNED_BYTES
from checkmate.backends.tf.allocator.replay import Allocation, allocations
from checkmate.backends.tf.profiler import MemoryEvent, StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.sizes import is_reserve
from checkmate.backends.tf.xla_calls import bare_leaf

_NAME = re.compile(r"step(\d+)/[^/]+/([^/]+)")  # stepN/node/op, as emission names its ops
_SUFFIX = re.compile(r"\d+")

Asker = tuple[int, int]  # position in the schedule, and which of the node's ops
Pieces = tuple[int, ...]  # which of the node's ops asked, then the bytes of each request


@dataclass(frozen=True)
class LearnedByOp:
    """Hold what was learned of a step's nodes.

    ``workspace``: node → bytes of scratch beyond the rules. ``reserves``: node → bytes of its outputs of
    unknown size. ``pieces``: node → the requests that its scratch is made of. A convolution asks for its
    turned input, its turned output and cuDNN's scratch one by one, and each takes a chunk of its own.
    """

    workspace: Mapping[int, int]
    reserves: Mapping[int, int]
    pieces: Mapping[int, Pieces] = field(default_factory=dict)


def learned_by_op(
    folded: FoldedStep, traces: Sequence[StepTrace], steps: Sequence[int] | None = None
) -> LearnedByOp:
    """Return what ``traces`` show of each node.

    ``steps``: the schedule that was traced; None: the plain one. Scratch that only some runs show is a race,
    not a rule. Scratch counts where it raises the most that the node holds. If a node ran several times, the
    largest value counts.
    """
    ran = list(range(len(folded.nodes)) if steps is None else steps)
    asked = [_requests_by_op(folded, trace.memory, ran) for trace in traces]
    workspace: dict[int, int] = {}
    pieces: dict[int, Pieces] = {}
    for position, levels in enumerate(_held_by_op(folded, ran)):
        rise, held = min((_highest(each, position, levels) for each in asked), default=(0, (0,)))
        beyond, node = rise - max(levels, default=0), ran[position]
        if beyond >= max(LEAST_LEARNED_BYTES, workspace.get(node, 0)):
            workspace[node], pieces[node] = beyond, held
    reserves: dict[int, int] = {}
    for each in asked:
        for (position, _), size in each.reserves.items():
            if size > reserves.get(ran[position], 0):
                reserves[ran[position]] = size
    return LearnedByOp(workspace, reserves, pieces)


def _highest(asked: _RequestsByOp, position: int, levels: Sequence[int]) -> tuple[int, Pieces]:
    """Return the most bytes that a node held, and its scratch then.

    ``levels``: what it holds without scratch while each of its ops runs.
    """
    return max(
        (
            (
                level + asked.scratch.get((position, member), 0),
                (member, *asked.pieces.get((position, member), ())),
            )
            for member, level in enumerate(levels)
        ),
        default=(0, (0,)),
    )


def reserve_values(folded: FoldedStep) -> dict[int, list[int]]:
    """Return per node its values whose size only a trace tells."""
    found: dict[int, list[int]] = defaultdict(list)
    for value, (op, number) in enumerate(folded.values):
        outputs = folded.structure.ops[op].outputs
        if number < len(outputs) and is_reserve(outputs[number]):
            found[folded.node_of[op]].append(value)
    return dict(found)


def sizes_of_reserves(folded: FoldedStep, learned: Mapping[int, int]) -> dict[int, int]:
    """Return the bytes of each value whose size only a trace tells.

    ``learned``: node → bytes. If a node has several such values they share its bytes evenly.
    """
    values = reserve_values(folded)
    return {
        value: size // len(values[node])
        for node, size in learned.items()
        if size and node in values
        for value in values[node]
    }


@dataclass(eq=False)
class _RequestsByOp:
    """Hold what each op asked for.

    ``scratch``: the most scratch it held at once. ``pieces``: the requests that it was made of, in their
    order. ``reserves``: what it asked for beside the outputs whose size is known.
    """

    scratch: dict[Asker, int] = field(default_factory=lambda: defaultdict(int))
    pieces: dict[Asker, tuple[int, ...]] = field(default_factory=dict)
    reserves: dict[Asker, int] = field(default_factory=dict)


def _requests_by_op(folded: FoldedStep, events: Sequence[MemoryEvent], steps: Sequence[int]) -> _RequestsByOp:
    askers = askers_by_name(folded, (event.op for event in events), steps)
    found = _RequestsByOp()
    held: dict[Asker, dict[int, int]] = defaultdict(dict)
    open_: dict[int, Asker] = {}
    outputs: dict[Asker, list[int]] = defaultdict(list)
    for event in events:
        if event.requested_bytes < 0:
            if event.address in open_:
                del held[open_.pop(event.address)][event.address]
        elif (of := askers.get(event.op)) is not None:
            if event.temporary:
                open_[event.address] = of
                held[of][event.address] = event.requested_bytes
                if (level := sum(held[of].values())) > found.scratch[of]:
                    found.scratch[of], found.pieces[of] = level, tuple(held[of].values())
            else:
                outputs[of].append(event.requested_bytes)
    for asker, sizes in outputs.items():
        unknown = _size_of_reserve(folded, folded.nodes[steps[asker[0]]][asker[1]], sizes)
        if unknown is not None:
            found.reserves[asker] = unknown
    return found


def _size_of_reserve(folded: FoldedStep, op: int, sizes: list[int]) -> int | None:
    """Return the bytes of the op's output of unknown size.

    They are the largest of ``sizes`` that belongs to no other output. None: it has no such output.
    """
    outputs = folded.structure.ops[op].outputs
    if not any(is_reserve(tensor) for tensor in outputs):
        return None
    rest = list(sizes)
    for number, tensor in enumerate(outputs):
        size = folded.structure.bytes_of.get((op, number), 0)
        if not is_reserve(tensor) and size in rest:
            rest.remove(size)
    return max(rest, default=0)


def askers_by_name(folded: FoldedStep, names: Iterable[str], steps: Sequence[int]) -> dict[str, Asker]:
    """Return by emitted name the position in ``steps`` and the op of its node.

    Several ops of one name in a node are taken in their order. An op that TensorFlow put into a node under a
    name of its own counts as the node's last op.
    """
    parts = {name: found for name in set(names) if (found := _NAME.match(name)) is not None}
    alike: dict[tuple[int, str], set[str]] = defaultdict(set)
    for found in parts.values():
        alike[int(found[1]), bare_leaf(found[2])].add(found[2])
    places: dict[tuple[int, str], Asker] = {}
    for (position, bare), leaves in alike.items():
        if position >= len(steps):
            continue
        members = folded.nodes[steps[position]]
        same = [
            number
            for number, member in enumerate(members)
            if bare_leaf(folded.structure.ops[member].name.rsplit("/", 1)[-1]) == bare
        ] or [len(members) - 1]
        for number, leaf in enumerate(sorted(leaves, key=_numbers)):
            places[position, leaf] = position, same[min(number, len(same) - 1)]
    return {
        name: places[key] for name, found in parts.items() if (key := (int(found[1]), found[2])) in places
    }


def _numbers(leaf: str) -> list[int]:
    return [int(each) for each in _SUFFIX.findall(leaf[len(bare_leaf(leaf)) :])]


def _held_by_op(folded: FoldedStep, steps: Sequence[int]) -> list[list[int]]:
    """Return the bytes held per position, while each op of its node runs.

    They are counted above what was held when the node began.
    """
    born: dict[int, list[Allocation]] = defaultdict(list)
    freed: dict[int, list[Allocation]] = defaultdict(list)
    for buffer in allocations(folded, steps):
        born[buffer.born].append(buffer)
        freed[buffer.freed].append(buffer)
    found: list[list[int]] = []
    execution = 0
    for position, node in enumerate(steps):
        level, levels = 0, []
        for _ in folded.nodes[node]:
            level += sum(buffer.bytes for buffer in born[execution])
            levels.append(level)
            level -= sum(buffer.bytes for buffer in freed[execution] if buffer.released_at == position)
            execution += 1
        found.append(levels)
    return found
