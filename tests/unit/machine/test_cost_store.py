from __future__ import annotations

import dataclasses
import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkmate.machine.cost_store import CostStore, KnownCost, default_path

COST = KnownCost(
    seconds=0.002, spread=0.05, runs=3, workspace_bytes=4096, slack=1.1,
    device="a processor", version="2.21.0", date="2026-11-20T10:00:00+00:00",
    load=0.0, cores=2, step_spread=0.02, quiet=1,
)  # fmt: skip


def dated(number: int) -> KnownCost:
    return dataclasses.replace(
        COST, seconds=number / 1000, date=f"2026-11-20T10:{number // 60:02}:{number % 60:02}+00:00"
    )


def test_kept_costs_are_found_by_another_store(tmp_path: Path) -> None:
    path = tmp_path / "not" / "yet" / "costs.sqlite"
    assert CostStore(path).look_up(["a"]) == {} and not path.exists()
    CostStore(path).keep({"a": COST, "b": dated(5)})
    store = CostStore(path)
    assert store.look_up(["b", "c", "a", "a"]) == {"a": COST, "b": dated(5)}
    store.keep({"a": dated(7)})
    assert CostStore(path).look_up(["a", "b"]) == {"a": dated(7), "b": dated(5)} and store.problem == ""


@settings(max_examples=25, deadline=None)
@given(costs=st.dictionaries(st.text(max_size=8, alphabet="abcdé'\""), st.floats(0, 1e6), max_size=20))
def test_every_figure_survives(costs: dict[str, float], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("store") / "costs.sqlite"
    kept = {key: dataclasses.replace(COST, seconds=seconds) for key, seconds in costs.items()}
    CostStore(path).keep(kept)
    assert CostStore(path).look_up(kept) == kept


def test_more_keys_than_one_statement_takes(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.sqlite")
    kept = {f"op {number}": dated(number) for number in range(1700)}
    store.keep(kept)
    assert store.look_up(kept) == kept and store.problem == ""


def test_the_first_measured_are_the_first_to_go(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.sqlite", most=10)
    for start in (0, 8, 16):
        store.keep({f"op {number}": dated(number) for number in range(start, start + 8)})
    assert set(store.look_up(f"op {number}" for number in range(24))) == {
        f"op {number}" for number in range(14, 24)
    }


def whole(path: Path) -> bytes:
    CostStore(path).keep({f"op {number}": dated(number) for number in range(200)})
    return path.read_bytes()


@pytest.mark.parametrize("damage", ["text", "cut off", "overwritten", "other table"])
def test_a_damaged_file_is_ignored_and_replaced(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    body = whole(path)
    if damage == "text":
        path.write_text("not a database, but long enough to be taken for one" * 10)
    elif damage == "cut off":
        path.write_bytes(body[: len(body) // 2])
    elif damage == "overwritten":
        path.write_bytes(body[:100] + b"\xff" * (len(body) - 100))
    else:
        path.unlink()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE costs (key TEXT, other REAL)")
    store = CostStore(path)
    assert store.look_up(["op 1", "op 2"]) == {}
    assert "was damaged" in store.problem and str(path) in store.problem and store.problem.count("\n") == 0
    store.keep({"a": COST})
    again = CostStore(path)
    assert again.look_up(["a"]) == {"a": COST} and again.problem == ""


def test_keeping_into_a_damaged_file_replaces_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    path.write_text("no database at all, in no version of any program" * 10)
    store = CostStore(path)
    store.keep({"a": COST})
    assert "was damaged" in store.problem and CostStore(path).look_up(["a"]) == {"a": COST}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("seconds", -1.0),
        ("seconds", "fast"),
        ("spread", None),
        ("runs", 2.5),
        ("workspace_bytes", -1),
        ("date", b"\xff"),
        ("load", -0.5),
        ("load", None),
        ("cores", 0),
        ("step_spread", "wide"),
        ("quiet", -1),
    ],
)
def test_an_impossible_row_is_ignored(column: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    CostStore(path).keep({"a": COST, "b": COST})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE costs SET {column} = ? WHERE key = 'a'", (value,))
    store = CostStore(path)
    assert store.look_up(["a", "b"]) == {"b": COST} and store.problem == ""


BUSY = dataclasses.replace(COST, load=1.4, quiet=0, seconds=0.004)
APART = dataclasses.replace(COST, step_spread=0.5, seconds=0.003)


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        (BUSY, COST, COST),
        (COST, BUSY, COST),
        (APART, COST, COST),
        (COST, APART, COST),
        (COST, dated(9), dated(9)),
        (
            BUSY,
            dataclasses.replace(BUSY, load=1.0, seconds=0.005),
            dataclasses.replace(BUSY, load=1.0, seconds=0.005),
        ),
        (
            dataclasses.replace(BUSY, load=1.0, seconds=0.005),
            BUSY,
            dataclasses.replace(BUSY, load=1.0, seconds=0.005),
        ),
        (BUSY, dataclasses.replace(COST, runs=2, quiet=0), BUSY),
        (dataclasses.replace(COST, runs=2), BUSY, BUSY),
        (APART, dataclasses.replace(BUSY, load=0.5), dataclasses.replace(BUSY, load=0.5)),
    ],
)
def test_a_worse_reading_never_replaces_a_better_one(
    first: KnownCost, second: KnownCost, stays: KnownCost, tmp_path: Path
) -> None:
    store = CostStore(tmp_path / "costs.sqlite")
    assert store.keep({"a": first})
    second = dataclasses.replace(second, date="2026-11-21T10:00:00+00:00")
    assert store.keep({"a": second}) is (stays.seconds == second.seconds != first.seconds)
    (found,) = store.look_up(["a"]).values()
    assert dataclasses.replace(found, quiet=0, date="") == dataclasses.replace(stays, quiet=0, date="")
    assert found.quiet == (first.quiet + second.quiet if found.reading.is_doubtful else stays.quiet)


def test_an_op_that_is_never_steady_is_not_measured_again(tmp_path: Path) -> None:
    store = CostStore(tmp_path / "costs.sqlite")
    worth = []
    for spread in (0.5, 0.9, 0.4):
        store.keep({"a": dataclasses.replace(COST, step_spread=spread)})
        worth.append(store.look_up(["a"])["a"].is_worth_another)
    assert worth == [True, True, False] and store.look_up(["a"])["a"].step_spread == 0.4


def test_costs_of_an_older_layout_are_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_path().name == "costs-4.sqlite"
    old = "key TEXT PRIMARY KEY, seconds, spread, runs, workspace_bytes, slack, device, version, date"
    path = tmp_path / "costs.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE costs ({old}) WITHOUT ROWID")
        connection.execute("INSERT INTO costs VALUES ('a', 0.1, 0.1, 3, 0, 1.0, '', '', '2026-11-20')")
    store = CostStore(path)
    assert store.look_up(["a"]) == {} and store.keep({"a": COST}) and store.look_up(["a"]) == {"a": COST}


def test_impossible_costs_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    CostStore(path).keep({"a": dataclasses.replace(COST, seconds=float("nan"))})
    assert not path.exists()


def test_a_folder_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = CostStore(tmp_path / "file" / "costs.sqlite")
    store.keep({"a": COST})
    assert store.look_up(["a"]) == {} and "cannot be used" in store.problem
    folder = CostStore(tmp_path)
    assert folder.look_up(["a"]) == {} and "cannot be used" in folder.problem and tmp_path.is_dir()


def keep_many(path: Path, first: int) -> None:
    for number in range(first, first + 30):
        CostStore(path).keep({f"op {number}": dated(number), "shared": dated(number)})


def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=keep_many, args=(path, first)) for first in (0, 30)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    found = CostStore(path).look_up([*(f"op {number}" for number in range(60)), "shared"])
    assert found.pop("shared") in (dated(29), dated(59))
    assert found == {f"op {number}": dated(number) for number in range(60)}
