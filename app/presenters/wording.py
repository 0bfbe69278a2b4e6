"""The window's sentences about figures, and names cut to their place."""

from __future__ import annotations

import bisect
import html
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

from app.state.knowledge import ListedSchedule
from checkmate.ir import CostOrigin, CostUnit, Graph
from checkmate.machine.cost_origin import doubt_words, elsewhere_words, origin_words
from checkmate.machine.supported import keras_backend
from checkmate.progress import FillState
from checkmate.runner import JAX, TORCH
from checkmate.units import format_bytes, plural

_TYPED = ("checkmate", "pip", "dask")  # commands, which keep their case
GRADIENT = "gradient_tape/"  # the scope of ops that TensorFlow made for gradients
_LONGEST = 64  # characters of a name in a sentence


def origin_text(graph: Graph) -> str:
    """How the costs are known; ``doubts`` says why they may be wrong."""
    doubtful = ", doubtful" if doubt_words(graph) else ""
    if graph.origin.extrapolated_from_batch:
        return "costs scaled"
    return {
        CostOrigin.MEASURED: f"costs {origin_words(graph)}{doubtful}",
        CostOrigin.ANALYTIC: f"costs estimated ({_counted(graph)})",
        CostOrigin.GIVEN: "costs as given in the file",
    }[graph.cost_origin]


def _counted(graph: Graph) -> str:
    return "operation counts" if graph.cost_unit is CostUnit.FLOP else "operations and bytes"


def why_other_backend(graph: Graph) -> str:
    """Empty if the step can be run here: the window's processes inherit its Keras backend."""
    here = keras_backend()
    needed = graph.runner.backend
    if needed in (here, TORCH) or JAX not in (needed, here):
        return ""
    whose = "JAX's" if needed == JAX else "not JAX's"
    return f"This step is {whose}. Start the window with KERAS_BACKEND={needed} to export it."


def target_text(graph: Graph) -> str:
    """What runs the step; empty where that is TensorFlow's executor."""
    return "compiled by XLA" if graph.runner.compiled else ""


def live_source(graph: Graph) -> str:
    """The source of the second curve of live bytes; the first one is predicted."""
    return "XLA's buffers" if graph.runner.compiled else "measured"


def target_hint(graph: Graph) -> str:
    if not graph.runner.compiled:
        return ""
    return (
        "XLA compiles this step. It fuses ops and gives out other bytes than the graph counts: an export "
        "compiles schedules until one keeps the budget."
    )


def batch_text(graph: Graph) -> str:
    """The batch size, and whether the graph was scaled to it; empty where the graph names none."""
    scaled = graph.origin.extrapolated_from_batch
    if graph.batch_size is None:
        return ""
    return f"batch {graph.batch_size}" + (f", scaled from {scaled}, estimated" if scaled else "")


def facts_of(graph: Graph) -> tuple[str, str]:
    """What the window's head says beside the graph's name, and its tip."""
    device = graph.device.name if graph.device is not None and graph.device.kind != "none" else ""
    batch = batch_text(graph) if graph.batch_size else ""
    said = batch, f"{graph.n} ops", origin_text(graph), device, target_text(graph)
    tips = target_hint(graph), doubts(graph)
    return " · ".join(filter(None, said)), " ".join(filter(None, tips))


def doubts(graph: Graph) -> str:
    """Sentences on why the costs may be wrong here, by how and where they were measured; empty if there is no
    doubt."""
    found = (doubt_words(graph), elsewhere_words(graph))
    return " ".join(f"{words[0].upper()}{words[1:]}." for words in found if words)


def remeasuring_hint(graph: Graph) -> str:
    """What a new profile would do about ``doubts``."""
    if doubt_words(graph):
        return "Profile again when the machine is quiet. These ops are then measured again."
    return "Profile it again to measure the ops on this machine."


def as_sentence(text: str) -> str:
    """A message of the command line as the window writes one. It begins with a capital, unless with a name or
    a command, and ends with a full stop, unless with what is to be typed."""
    text = text.strip()
    first = re.match(r"[a-z]+(?=[ ,;:…])", text)
    if first is not None and first.group() not in _TYPED:
        text = text[0].upper() + text[1:]
    typed = re.search(rf": (?:{'|'.join(_TYPED)})\b", text) or not re.search(r"[\w)%'\"]$", text)
    return text if not text or typed else f"{text}."


def short_name(name: str, most: int = 40) -> str:
    """An op's or a value's name without the scopes around it."""
    parts = name.removeprefix(GRADIENT).split("/")
    text = ("∂ " if name.startswith(GRADIENT) else "") + "/".join(parts[-2:])
    return text if len(text) <= most else "…" + text[-most + 1 :]


def name_in_model(name: str, model: str) -> str:
    sign = "∂ " if name.startswith(GRADIENT) else ""
    return sign + name.removeprefix(GRADIENT).removeprefix(model)


def scope_of_all(graph: Graph) -> str:
    """The scope that most ops are in, which is the model's name; empty if there is none."""
    scopes = Counter(op.name.removeprefix(GRADIENT).partition("/")[0] for op in graph.ops if "/" in op.name)
    if not scopes:
        return ""
    scope, count = scopes.most_common(1)[0]
    return f"{scope}/" if 2 * count > graph.n else ""


def layer_name(graph: Graph, op: int) -> str:
    entry = graph.ops[op]
    if not entry.group:
        return short_name(entry.name)
    layer, last = (name.rsplit("/", 1)[-1] for name in (entry.group, entry.name))
    return f"{'∂ ' if entry.name.startswith(GRADIENT) else ''}{layer}/{last}"


def schedule_file(found: ListedSchedule, what: str) -> str:
    return f"{found.graph.name}-{format_bytes(found.peak_bytes).replace(' ', '')}.{what}.json"


def strong(text: str) -> str:
    """Rich text in the semibold face. The bundled fonts have no plain bold, which would be smeared."""
    return f'<span style="font-weight:600">{html.escape(text)}</span>'


def constraints_text(count: int, cost: float | None, without: float | None) -> str:
    """How many constraints there are, and what they cost beside the best known without them."""
    text = f"under {plural(count, 'constraint')}"
    if cost is None or not without:
        return text
    more = 100 * (cost / without - 1)
    return f"{text}: +{more:.1f}\u00a0% cost" if more >= 0.05 else f"{text}, at no cost"


def percent(share: float) -> str:
    """``2.9 %``, ``0.034 %``: a small share does not become zero."""
    return f"{100 * share:.1f}\u00a0%" if share >= 0.01 or share <= 0 else f"{100 * share:.2g}\u00a0%"


def signed_bytes(size: int) -> str:
    return format_bytes(size) if size >= 0 else f"−{format_bytes(-size)}"


def status_text(status: str, gap: float | None, message: str) -> str:
    """A limit and a proof always have different words."""
    near = "" if gap is None else f"within {percent(gap)} of the best possible"
    return {
        "solving": f"solving, {near}" if near else "solving",
        "optimal": "optimal, proved",
        "feasible": near or "a schedule; no bound says how good",
        "infeasible": "infeasible, proved",
        "limit": "no schedule found yet; one may exist",
        "cancelled": "stopped",
    }.get(status, f"failed: {message}")


def least_text(status: str, best: float | None, gap: float | None, message: str) -> str:
    """How a search for the least memory stands. ``best`` is the least found, in bytes."""
    if status == "failed" or best is None:
        return status_text(status, None, message)
    found = format_bytes(best)
    if status == "optimal":
        return f"{found}, proved"
    so_far = f"{found} so far" if status == "solving" else found
    return so_far if not gap else f"{so_far}, within {percent(gap)} of the least possible"


def fill_text(on: bool, state: FillState | None, *, solving: bool, found: int) -> str:
    """How the work on other budgets stands."""
    known = f"{found} found"
    if not on:
        return f"off · {known}"
    if solving:
        return f"waiting · {known}"
    if state is FillState.RESTING:
        return known  # the button beside the text continues the work
    return "" if state is None else f"{'done' if state is FillState.DONE else 'working'} · {known}"


def playhead_text(shown: ListedSchedule, step: int) -> str:
    """What happens at the playhead, for the status bar and for assistive technology."""
    steps, live, peak = shown.schedule.steps, int(shown.timeline.live_bytes[step]), shown.timeline.peak_bytes
    name = shown.graph.ops[int(steps[step])].name
    # A long name is cut at its front: its end says most.
    name = name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :]
    at = f"Step {step + 1} of {len(steps)}, computing {name}"
    return f"{at}, {format_bytes(live)} live (peak {format_bytes(peak)})"


def timeline_text(name: str, shown: ListedSchedule) -> str:
    steps, again = len(shown.schedule.steps), shown.schedule.recomputations
    return f"{name} · {plural(steps, 'step')}, {plural(again, 'recomputation')}"


_MOST = 300  # names that are compared with one; more would hold up the painting
_CUT, _LAST = "…", "\U0010ffff"
_WORD_END = re.compile(r"[_/. …–-].|[a-z][A-Z]")


class NameCut:
    """Cuts the names of one list. The names of layers begin alike and end alike: ``conv2_block1_1_conv``,
    ``conv2_block1_2_conv``. Where a name is cut is chosen so that as few others as possible look the same."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = sorted(set(names))
        self._cuts: dict[tuple[str, int], str] = {}
        self._widths: dict[str, float] = {}

    def cut(self, name: str, width: Callable[[str], float], room: float) -> str:
        """``room`` is in the unit of ``width``, which measures a text."""
        if width(name) <= room:
            return name
        at = name, int(room)
        if at not in self._cuts:
            self._cuts[at] = self._best(name, width, room)
        return self._cuts[at]

    def lines(self, name: str, most: int, width: Callable[[str], float], room: float) -> list[str]:
        """The name in one line or, of ``most`` two, in two."""
        if most == 1 or width(name) <= room:
            return [self.cut(name, width, room)]
        text = self.cut(name, width, 2 * room - width("m-"))
        ends = [at for at in range(1, len(text)) if width(text[:at]) <= room and width(text[at:]) <= room]
        between_words = [at for at in ends if _WORD_END.match(text[at - 1 : at + 1])]
        middle = min(between_words or ends, key=lambda at: abs(2 * at - len(text) - 1), default=0)
        if not middle:
            return [self.cut(name, width, room)]
        return [text[:middle] + ("" if between_words else "-"), text[middle:]]

    def _best(self, name: str, width: Callable[[str], float], room: float) -> str:
        for letter in {*name, _CUT} - self._widths.keys():
            self._widths[letter] = width(letter)
        ends = list(itertools.accumulate((self._widths[letter] for letter in name), initial=0.0))
        best, fewest = _CUT, len(self._names) + 1
        for tail in sorted(range(1, len(name)), key=lambda tail: abs(2 * tail - len(name))):
            left = room - self._widths[_CUT] - (ends[-1] - ends[-1 - tail])
            head = min(bisect.bisect_right(ends, left) - 1, len(name) - tail - 1)
            if head < 0:
                continue
            rivals = self._alike(name[:head], name[-tail:])
            if rivals < fewest:
                best, fewest = name[:head] + _CUT + name[-tail:], rivals
            if rivals <= 1:
                break  # only the name itself
        while width(best) > room and not best.startswith(_CUT):  # letters together may be wider than alone
            best = best[: best.index(_CUT) - 1] + best[best.index(_CUT) :]
        return best

    def _alike(self, head: str, end: str) -> int:
        first, last = (bisect.bisect_left(self._names, text) for text in (head, head + _LAST))
        return sum(name.endswith(end) for name in self._names[first : min(last, first + _MOST)])
