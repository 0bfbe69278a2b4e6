"""The segments that a policy can choose: layers, blocks and runs of layers that are computed again as one.

A framework keeps a segment's inputs, and runs it again right before its backward pass first reads what is
inside (``jax.checkpoint``, ``keras.remat``, ``torch.utils.checkpoint``). What the backward pass does not need
is left out: TensorFlow and JAX prune it, PyTorch stops early. What it needs is computed even where another
reader still holds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.policies.candidates import NO_LAYERS, Candidates
from checkmate.policies.segment import Segment, in_forward, is_keras

_LONGEST = 48  # layers of a run


@dataclass(frozen=True, eq=False)
class Segments:
    """All segments of a graph by rising end.

    ``units``: the names of what they consist of; a run's are contiguous, and so are a module's. ``unit``: of
    each op, its unit; -1 for none.
    """

    graph: Graph
    units: tuple[str, ...]
    found: tuple[Segment, ...]
    unit: tuple[int, ...]

    @cached_property
    def spans(self) -> dict[tuple[int, int], list[Segment]]:
        """By first unit and end, the segments there."""
        spans: dict[tuple[int, int], list[Segment]] = {}
        for segment in self.found:
            spans.setdefault((segment.first, segment.end), []).append(segment)
        return spans

    @classmethod
    def of(cls, graph: Graph) -> Segments:
        """Return a Keras model's runs of layers, and the modules or scopes of other steps."""
        keras = is_keras(graph)
        layers = [_layer_path(op.group, whole=keras) for op in graph.ops]
        first: dict[tuple[str, ...], int] = {}  # of each module or scope, the first op of the forward pass
        paths = {path: op for op, path in enumerate(layers) if path and in_forward(graph, op)}
        for op in range(graph.n):
            for length in range(1, len(layers[op]) + 1 if in_forward(graph, op) else 0):
                first.setdefault(layers[op][:length], op)
        ordered = sorted(paths, key=lambda path: [first[path[: i + 1]] for i in range(len(path))])
        unit = {path: number for number, path in enumerate(ordered)}
        separator = "." if any("." in op.group for op in graph.ops) else "/"
        names = tuple(separator.join(path) for path in ordered)
        candidates = Candidates.of(graph, names, [unit.get(path, -1) for path in layers])
        spans = _runs(len(ordered)) if keras else _modules(ordered, separator)
        # A `ModuleList` is no segment: nobody calls it.
        called = graph.origin.modules
        found = (
            each
            for name, first, end in spans
            if not called or name in called
            for each in candidates.ways(name, first, end)
        )
        return cls(graph, names, tuple(found), tuple(candidates.unit))

    def shown(self, segment: Segment) -> str:
        """Return the segment's name: the module or scope, or the first and the last layer."""
        first, last = self.units[segment.first], self.units[segment.end - 1]
        name = segment.name or (first if first == last else f"{first} to {last}")
        return f"{name}, except {', '.join(segment.kept)}" if segment.kept else name

    def steps(self, chosen: Collection[Segment]) -> list[int]:
        """Return the steps of the policy that computes the ``chosen`` segments again; they do not overlap."""
        again = {segment.before: segment.again for segment in chosen}
        return [step for op in range(self.graph.n) for step in (*again.get(op, ()), op)]

    def peak_bytes(self, chosen: Collection[Segment]) -> int:
        """Return the peak of the policy, with what TensorFlow copies and what PyTorch holds in vain."""
        steps = self.steps(chosen)
        live = simulate(self.graph, Schedule.of(self.graph, steps)).live_bytes.copy()
        last = {op: step for step, op in enumerate(steps)}
        extra = self._copied if is_keras(self.graph) else self._held
        for segment in chosen:
            begin = last[segment.before] - len(segment.again)
            for first, end, size in extra(segment, begin, last):
                live[first:end] += size
        return int(live.max())

    def _copied(
        self, segment: Segment, begin: int, last: Mapping[int, int]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield the steps and the bytes that ``tf.recompute_grad`` has twice: it adds a zero to each input,
        and the sum is a copy where something else still reads the input.
        """
        graph, again = self.graph, set(segment.again)
        for owner in segment.reads:
            own, other = begin, -1
            for reader in self._readers[owner]:
                inside = segment.first <= self.unit[reader] < segment.end and graph.late[reader]
                if inside or reader in again:
                    own = max(own, last[reader])
                else:
                    other = max(other, last[reader])
            yield begin, min(own, other) + 1, graph.values[owner].bytes

    def _held(self, segment: Segment, begin: int, last: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
        """Yield the steps and the bytes of what PyTorch holds and nothing reads: until the segment runs
        again, or until its backward pass ends if it was given from outside or is made behind what runs again.
        """
        late = (
            op
            for op, unit in enumerate(self.unit)
            if self.graph.late[op] and segment.first <= unit < segment.end
        )
        over = max((last[op] for op in late), default=begin)
        for owner in segment.held:
            made = int(self.graph.producer[owner])
            read = max((last[reader] for reader in self._readers.get(owner, ())), default=last[made])
            inside = segment.first <= self.unit[made] < segment.end
            end = begin if inside and made < segment.again[-1] else over + 1
            yield max(read, last[made]) + 1, end, self.graph.values[owner].bytes

    @cached_property
    def _readers(self) -> dict[int, list[int]]:
        """By the owner of a buffer, the ops that read it."""
        found: dict[int, list[int]] = {}
        for value, readers in enumerate(self.graph.value_readers.lists()):
            found.setdefault(int(self.graph.owner[value]), []).extend(readers)
        return found


def _layer_path(group: str, *, whole: bool) -> tuple[str, ...]:
    """Split a layer's name; ``whole``: into the outermost layer only."""
    if group in NO_LAYERS:
        return ()
    return (group.partition("/")[0],) if whole else tuple(group.replace(".", "/").split("/"))


def _runs(count: int) -> Iterator[tuple[str, int, int]]:
    for end in range(1, count + 1):
        for first in range(max(0, end - _LONGEST), end):
            yield "", first, end


def _modules(ordered: Sequence[tuple[str, ...]], separator: str) -> Iterator[tuple[str, int, int]]:
    spans: dict[tuple[str, ...], list[int]] = {}
    for number, path in enumerate(ordered):
        for length in range(1, len(path) + 1):
            spans.setdefault(path[:length], []).append(number)
    for path, members in sorted(spans.items(), key=lambda item: (item[1][-1], item[1][0])):
        yield separator.join(path), members[0], members[-1] + 1
