"""Which parts of a plain step hold more than they did, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checkmate.errors import UsageError
from checkmate.planning.step_memory import LayerBytes, StepMemory
from checkmate.units import format_bytes

_NOTHING = LayerBytes()
_NEW, _KEPT, _NOT_AGAIN = "new", "kept to the end of the step", "no longer computed again"


@dataclass(frozen=True)
class Grown:
    """A layer, or a kind of fixed bytes, that holds more than before. A new one held nothing."""

    name: str
    before: LayerBytes
    now: LayerBytes
    why: tuple[str, ...]

    @property
    def more(self) -> int:
        return max(
            self.now.bytes - self.before.bytes,
            self.now.at_peak - self.before.at_peak,
            self.now.weights - self.before.weights,
        )


@dataclass(frozen=True)
class Growth:
    """What grew from ``before`` to ``now``: first what says why by itself, then the largest growth first.
    ``with_batch``: the number of other parts, which grew as the batch did, and no more.
    """

    before: StepMemory
    now: StepMemory
    grown: tuple[Grown, ...]
    with_batch: int


def growth(before: StepMemory, now: StepMemory) -> Growth:
    """Raise a UsageError where the two are not of one model."""
    if (before.model, before.framework) != (now.model, now.framework):
        raise UsageError(
            f"the baseline is of {before.model} on {before.framework}, not of {now.model} on {now.framework}",
            hint="name the baseline of this model, or write one to a new file",
        )
    times = max(1.0, now.batch_size / before.batch_size) if before.batch_size and now.batch_size else 1.0
    found, with_batch, held = list[Grown](), 0, _parts(before)
    for name, new in _parts(now).items():
        old = held.get(name, _NOTHING)
        each = Grown(name, old, new, tuple(_reasons(old, new, times)))
        if times > 1 and not each.why and new.bytes <= times * old.bytes:
            with_batch += new.bytes > old.bytes
        elif each.why or each.more > 0:
            found.append(each)
    found.sort(key=lambda each: ({*each.why} <= {_NEW}, -each.more))
    return Growth(before, now, tuple(found), with_batch)


def _parts(memory: StepMemory) -> dict[str, LayerBytes]:
    fixed = {f"fixed: {name}": LayerBytes(size, size) for name, size in memory.fixed.items()}
    return {**fixed, **memory.layers}


def _reasons(old: LayerBytes, new: LayerBytes, times: float) -> Iterator[str]:
    """``times``: the batch as a multiple of what it was."""
    if old == _NOTHING:
        yield _NEW
    if new.bytes > times * old.bytes and old.dtypes and new.dtypes:
        grew = max(new.dtypes, key=lambda dtype: new.dtypes[dtype] - old.dtypes.get(dtype, 0))
        most_before, most = (max(each.dtypes, key=lambda dtype: each.dtypes[dtype]) for each in (old, new))
        if grew != most_before:
            yield f"{most_before} → {grew}" if grew == most or grew not in old.dtypes else f"more {grew}"
    if new.kept > old.kept and (not old.kept or new.kept - old.kept > new.bytes - old.bytes):
        yield _KEPT
    if old.again and new.bytes and not new.again:
        yield _NOT_AGAIN
    if new.weights > old.weights and old != _NOTHING:
        yield f"weights {format_bytes(old.weights)} → {format_bytes(new.weights)}"
