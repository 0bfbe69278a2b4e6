"""Have many processes write to one place at once.

``python -m tests.faults.writers 20`` has 20 write to one exploration, one cost cache, one folder of plans and
one journal, each several times. It prints how many records were told to be kept, and what broke, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkmate.errors import CheckmateError
from checkmate.formats.exploration import read_exploration, write_exploration
from checkmate.machine.cost_store import CostStore
from checkmate.machine.plan_store import PlanStore
from checkmate.sweeps.journal import open_journal
from tests.faults.operations import _cost, _explored
from tests.faults.test_clock import PLAN
from tests.unit.sweeps.counting import read_entries

ROUNDS = 5
_REFUSED, _BROKE = "refused", "broke"


@dataclass(frozen=True)
class Place:
    """What several write to; ``one``: each record takes the place of the one before.

    ``write(folder, record)`` returns whether the record is kept; ``read(folder)`` the records that are there.
    """

    write: Callable[[Path, str], bool]
    read: Callable[[Path], set[str]]
    one: bool = False


def _write_exploration(folder: Path, record: str) -> bool:
    write_exploration(folder / "e.json.gz", _explored(record))
    return True


def _read_exploration(folder: Path) -> set[str]:
    return {read_exploration(folder / "e.json.gz").graph.name}


def _names(folder: Path) -> list[str]:
    return json.loads((folder.parent / f"{folder.name}.names").read_text(encoding="utf-8"))


def _write_cost(folder: Path, record: str) -> bool:
    store = CostStore(folder / "c.sqlite")
    kept = store.keep({record: _cost(record)})
    if not kept:
        raise CheckmateError(store.problem)
    return kept


def _read_costs(folder: Path) -> set[str]:
    store = CostStore(folder / "c.sqlite")
    found = {key for key, cost in store.look_up(_names(folder)).items() if cost.device == key}
    assert not store.problem, store.problem
    return found


def _write_plan(folder: Path, record: str) -> bool:
    store = PlanStore(folder / "plans")
    if not store.keep(record, PLAN) or store.look_up(record) != PLAN:
        raise CheckmateError(store.problem)
    return True


def _read_plans(folder: Path) -> set[str]:
    store = PlanStore(folder / "plans")
    found = {name for name in _names(folder) if store.look_up(name) == PLAN}
    assert not store.problem, store.problem
    return found


def _write_journal(folder: Path, record: str) -> bool:
    with open_journal(folder / "j.jsonl") as journal:
        journal.add(record, record, {"record": record * 100})
    return True


def _read_journal(folder: Path) -> set[str]:
    entries = read_entries(folder / "j.jsonl")
    assert all(data == {"record": key * 100} for key, data in entries.items())
    return set(entries)


PLACES = {
    "exploration": Place(_write_exploration, _read_exploration, one=True),
    "cost cache": Place(_write_cost, _read_costs),
    "kept plans": Place(_write_plan, _read_plans),
    "journal": Place(_write_journal, _read_journal),
}


def _records(writer: int) -> list[str]:
    return [f"{writer}-{turn}" for turn in range(ROUNDS)]


def _write(place: Place, folder: Path, writer: int, start: float) -> None:
    told = {}
    time.sleep(max(0.0, start - time.monotonic()))
    for record in _records(writer):
        try:
            told[record] = "kept" if place.write(folder, record) else _BROKE
        except CheckmateError as error:
            told[record] = _REFUSED if str(error) else _BROKE
        except Exception:
            told[record] = traceback.format_exc()
    (folder.parent / f"{folder.name}.{writer}").write_text(json.dumps(told), encoding="utf-8")


def race(name: str, writers: int) -> tuple[int, int, list[str]]:
    """How many were kept, how many refused, and what broke."""
    place = PLACES[name]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "place"
        folder.mkdir()
        names = [record for writer in range(writers) for record in _records(writer)]
        (Path(root) / "place.names").write_text(json.dumps(names), encoding="utf-8")
        start, children = time.monotonic() + 0.3, []
        for writer in range(writers):
            child = os.fork()
            if not child:
                _write(place, folder, writer, start)
                os._exit(0)
            children.append(child)
        broken = [f"a writer ended with {code}" for child in children if (code := os.waitpid(child, 0)[1])]
        told: dict[str, str] = {}
        for writer in range(writers):
            told |= json.loads((Path(root) / f"place.{writer}").read_text(encoding="utf-8"))
        broken += [f"{record}: {said}" for record, said in told.items() if said not in ("kept", _REFUSED)]
        kept = {record for record, said in told.items() if said == "kept"}
        found = place.read(folder)
        if place.one:
            broken += [] if len(found) == 1 and found <= kept else [f"{found} is there"]
        else:
            broken += [f"{record} is lost" for record in kept - found]
        left = [path.name for path in folder.rglob(".*")]
        broken += [f"{left} are left"] if left else []
    return len(kept), len(told) - len(kept), broken


if __name__ == "__main__":
    found = {name: race(name, int(sys.argv[1])) for name in PLACES}
    print(json.dumps(found))
    sys.exit(1 if any(broken for _, _, broken in found.values()) else 0)
