"""List every reader of files, frames and values.

Each comes with samples of what it reads.

A reader is given bytes. What it returns is used as the program does: written again, replayed, checked.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.cli import common_options as options
from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph, read_schedule, write_graph, write_schedule
from checkmate.formats.exploration import read_exploration, write_exploration
from checkmate.formats.schedule import read_certificate, write_certificate
from checkmate.frontiers.tasks import plain
from checkmate.ir import Graph
from checkmate.machine.cost_store import CostStore, KnownCost
from checkmate.machine.plan_store import KeptPlan, PlanStore
from checkmate.processes.messages import MessageTable
from checkmate.records.read import read_record
from checkmate.reports.gather import gather
from checkmate.reports.html import sections_page
from checkmate.request import parse_shape
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.pathcut.in_process import PROVER_MESSAGES
from checkmate.sweeps.engine import parse_engine
from checkmate.sweeps.journal import open_journal
from checkmate.workers.window_messages import WINDOW_MESSAGES
from tests.graphs_strategies import training_chain
from tests.unit.hlo.dumps import ASSIGNMENT, LOOP, STEP, step_proto, whole_proto
from tests.unit.reports import writers
from tests.unit.sweeps.counting import read_entries

DATA = Path(__file__).resolve().parents[1] / "unit" / "records" / "data"


@dataclass(frozen=True)
class Reader:
    """A reader, and how samples of what it reads are made in a folder."""

    read: Callable[[Path, bytes], object]
    samples: Callable[[Path], list[bytes]]


def _put(path: Path, data: bytes) -> Path:
    path.unlink(missing_ok=True)  # some file systems wait for the disk when a file is written over
    path.write_bytes(data)
    return path


def _written(**files: Callable[[Path], object]) -> Callable[[Path], list[bytes]]:
    """Return what writes the files and reads their bytes."""

    def samples(folder: Path) -> list[bytes]:
        for name, write in files.items():
            write(folder / name)
        return [(folder / name).read_bytes() for name in files]

    return samples


def _write_schedule(path: Path) -> None:
    write_schedule(path, asked(), planning.solve(asked(), 40, solver="greedy"))


def asked() -> Graph:
    """Return the graph that schedules, proofs and explorations are of."""
    return training_chain(4)


def _read_graph(folder: Path, data: bytes) -> object:
    graph = read_any_graph(_put(folder / "g.json", data))
    planning.keep_everything_peak(graph)
    (folder / "again.json").unlink(missing_ok=True)
    write_graph(folder / "again.json", graph)
    return read_any_graph(folder / "again.json").fingerprint


def _graphs(folder: Path) -> list[bytes]:
    from random import Random

    from tests.graphs_strategies import random_graph

    paths = [folder / "one.json", folder / "two.json.gz", folder / "three.json"]
    for number, path in enumerate(paths):
        write_graph(path, random_graph(Random(number)) if number else asked())
    return [path.read_bytes() for path in paths]


_TRAINED = (
    b'{"nodes":[{"id":0,"cost_cpu":1,"cost_ram":2,"backward":false},{"id":1,"cost_cpu":2,"cost_ram":1,'
    b'"backward":true},{"id":2,"cost_cpu":1,"cost_ram":2,"backward":true}],'
    b'"links":[{"source":0,"target":1},{"source":1,"target":2}],"graph":{"name":"g"}}'
)
_LAYERED = (
    b'{"nodes":[{"name":"1","duration":1,"out_cost":2},{"name":"2","duration":2,"out_cost":1}],'
    b'"links":[{"0":"1","1":"2"}],"graph":{"order":["1","2"]}}'
)


def _read_schedule(folder: Path, data: bytes) -> object:
    graph = asked()
    result = read_schedule(_put(folder / "s.json", data), graph)
    write_schedule(folder / "again.json", graph, result)
    return planning.check_schedule(graph, result.require_schedule().steps.tolist(), budget=40)


def _read_certificate(folder: Path, data: bytes) -> object:
    graph = asked()
    return planning.check_certificate(graph, read_certificate(_put(folder / "c.json", data), graph))


def _certificates(folder: Path) -> list[bytes]:
    found = []
    for budget in (40, 60, 25):
        made = planning.certify(asked(), budget, seconds=20.0)
        assert made is not None
        write_certificate(folder / f"{budget}.json", made.data)
        found.append((folder / f"{budget}.json").read_bytes())
    return found


def _read_exploration(folder: Path, data: bytes) -> object:
    saved = read_exploration(_put(folder / "e.json", data))
    if saved.constraints is not None:
        Constraints.from_json(saved.constraints)
    for own in saved.own.values():
        if own.constraints is not None:
            Constraints.from_json(own.constraints)
    write_exploration(folder / "again.json", saved)
    return read_exploration(folder / "again.json")


def explorations(folder: Path) -> list[bytes]:
    from dataclasses import replace

    from checkmate.formats.exploration import SavedOwn
    from checkmate.ir.result import MeasuredSchedule

    writers.write_explored(folder / "e.json")
    saved = read_exploration(folder / "e.json")
    steps = tuple(saved.schedules[0].require_schedule().steps.tolist())
    rich = replace(
        saved,
        constraints=Constraints(keep=("a0",), never_recompute=("f1",)).to_json(),
        measured=(MeasuredSchedule(steps, tuple(range(len(steps))), 99, 0.5, "cpu"),),
        own={0: SavedOwn(name="mine", note="a note", pinned=True, max_overhead=0.1)},
    )
    write_exploration(folder / "r.json", rich)
    return [(folder / "e.json").read_bytes(), (folder / "r.json").read_bytes()]


def _write_journal(path: Path) -> None:
    with open_journal(path) as journal:
        journal.add("a", "chain at 75 %", plain(planning.solve(asked(), 40, solver="greedy")))
        journal.add("b", "chain: the least memory known", {"peak_bytes": 40})


def _read_journal(folder: Path, data: bytes) -> object:
    path = _put(folder / "j.jsonl", data)
    found = read_entries(path)
    with open_journal(path) as journal:
        journal.add("new", "new", {"a": 1})
    assert len(read_entries(path)) >= len(found)
    return found


def _read_page(folder: Path, data: bytes) -> object:
    return sections_page("fuzz", gather([_put(folder / "it.json", data)]).sections, datetime(2026, 1, 2))


def _reports(folder: Path) -> list[bytes]:
    (folder / "out").mkdir(exist_ok=True)
    writers.write_run(folder / "out")
    return [(folder / "out" / "report.json").read_bytes()]


def _read_record(name: str) -> Callable[[Path, bytes], object]:
    return lambda folder, data: read_record(_put(folder / name, data))


def _profiles(folder: Path) -> list[bytes]:
    from checkmate.wire import fields

    whole = (DATA / "step.xplane.pb").read_bytes()
    ends = [end for _, _, _, end in fields(whole, 0, len(whole))]
    return [whole, whole[: ends[0]]]


_KNOWN = KnownCost(0.5, 0.1, 5, 0, 1.0, "cpu", "2.21", "2026-01-01", 0.1, 2, 0.1, 1)


def _read_costs(folder: Path, data: bytes) -> object:
    (folder / "c.sqlite-journal").unlink(missing_ok=True)
    store = CostStore(_put(folder / "c.sqlite", data))
    assert all(cost.is_sound() for cost in store.look_up(["a", "b"]).values())
    said = store.problem
    if store.keep({"c": _KNOWN}):
        assert CostStore(store.path).look_up(["c"])
    if said or store.problem:
        raise CheckmateError(said or store.problem)  # what a user is told
    return store


def _costs(folder: Path) -> list[bytes]:
    store = CostStore(folder / "sample.sqlite")
    store.keep({"a": _KNOWN, "b": _KNOWN})
    return [store.path.read_bytes()]


def _read_plan(folder: Path, data: bytes) -> object:
    store = PlanStore(folder)
    _put(folder / "key.json", data)
    found = store.look_up("key")
    if store.problem:
        raise CheckmateError(store.problem)
    return found


def _plans(folder: Path) -> list[bytes]:
    PlanStore(folder).keep("key", KeptPlan((0, 1), 9, 1, 20, "a budget", 0, 1.0, "said", "2026-01-01"))
    return [(folder / "key.json").read_bytes()]


def _read_frames(table: MessageTable) -> Callable[[Path, bytes], object]:
    return lambda folder, data: list(table.reader().feed(reframed(data)))


def _frames(table: MessageTable) -> Callable[[Path], list[bytes]]:
    def samples(folder: Path) -> list[bytes]:
        from hypothesis import HealthCheck, Phase, given, seed, settings
        from hypothesis import strategies as st

        from tests.unit.workers.test_messages import some

        found: list[bytes] = []

        @seed(0)
        @settings(
            max_examples=60, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck)
        )
        @given(st.one_of(*(some(kind) for kind in table.classes)))
        def collect(message: Any) -> None:
            found.append(table.encode(message))

        collect()
        return found

    return samples


def reframed(data: bytes) -> bytes:
    """Return a frame whose lengths and sums fit again, three times of four. Its header is then read."""
    if len(data) < 16 or not sum(data[-3:]) % 4:
        return data
    _, body = struct.unpack_from("<II", data)
    body = min(body, len(data) - 16)
    lengths = struct.pack("<II", len(data) - 16 - body, body)
    return lengths + struct.pack("<II", zlib.crc32(lengths), zlib.crc32(data[16:])) + data[16:]


_VALUES: tuple[Callable[[str], Any], ...] = (
    options.budget, options.size_in_bytes, options.overhead, options.fixed_budget, options.positive,
    options.seconds, options.fraction, options.shape, options.device, options.window_size,
    options.typed(parse_engine), options.typed(parse_shape),
)  # fmt: skip


def _read_value(folder: Path, data: bytes) -> object:
    number, text = data[0] % len(_VALUES) if data else 0, data[1:].decode("utf-8", "surrogateescape")
    return _VALUES[number](text)


def _values(folder: Path) -> list[bytes]:
    texts = ("6.5GiB", "60%", "min", "5%", "0.05", "any", "16", "1e9", "224,224,3", "gpu:1", "1600x1000",
             "processes:2", "dask://host:8786", "a, b,c", "²", "٣", "9" * 5000, "1e400", "nan",
             "0x10")  # fmt: skip
    return [bytes([number]) + text.encode() for number in range(len(_VALUES)) for text in texts]


READERS: dict[str, Reader] = {
    "graph": Reader(_read_graph, _graphs),
    "node-link": Reader(_read_graph, lambda folder: [_TRAINED, _LAYERED]),
    "schedule": Reader(_read_schedule, _written(s=_write_schedule)),
    "certificate": Reader(_read_certificate, _certificates),
    "exploration": Reader(_read_exploration, explorations),
    "journal": Reader(_read_journal, _written(j=_write_journal)),
    "frontier": Reader(_read_page, _written(c=writers.write_curve)),
    "report": Reader(_read_page, _reports),
    "results": Reader(_read_page, _written(b=writers.write_batch, j=writers.write_jax_export)),
    "log": Reader(_read_record("a.log"), lambda folder: [(DATA / "oom_2_21.log").read_bytes()]),
    "xplane": Reader(_read_record("a.xplane.pb"), _profiles),
    "dump": Reader(_read_record("a.txt"), lambda _: [text.encode() for text in (STEP, LOOP, ASSIGNMENT)]),
    "dump in protobuf": Reader(_read_record("a.hlo.pb"), lambda _: [step_proto(), whole_proto()]),
    "dump's graph": Reader(_read_graph, lambda _: [STEP.encode(), LOOP.encode(), whole_proto()]),
    "cost cache": Reader(_read_costs, _costs),
    "kept plan": Reader(_read_plan, _plans),
    "window frames": Reader(_read_frames(WINDOW_MESSAGES), _frames(WINDOW_MESSAGES)),
    "prover frames": Reader(_read_frames(PROVER_MESSAGES), _frames(PROVER_MESSAGES)),
    "values": Reader(_read_value, _values),
}


def opened(name: str, folder: Path) -> tuple[Callable[[bytes], object], list[bytes]]:
    """Return a reader and its samples. ``folder`` is for its files, and becomes the working folder."""
    reader, here = READERS[name], folder / "here"
    samples = reader.samples(folder)
    here.mkdir(exist_ok=True)
    os.chdir(here)  # so that sentences hold a short path
    return lambda data: reader.read(Path(), data), samples
