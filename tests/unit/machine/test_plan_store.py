from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from checkmate.machine.cost_store import plans_folder
from checkmate.machine.plan_store import KeptPlan, KeptTrial, PlanStore

PLAN = KeptPlan(
    steps=(0, 1, 2, 1, 3), peak_bytes=85_000_000, held_bytes=1_000_000, limit_bytes=100_000_000,
    limit_words="60 % of the plain step's measured peak of 159 MiB", over_bytes=0, rate=1.0625,
    sentence="batch of 8: 1 recomputation, +2.10 % computation", date="2026-11-23",
    tried=(
        KeptTrial(None, 159_000_000, 151_000_000, 1_000_000, "measured"),
        KeptTrial((0, 1, 2, 1, 3), 85_000_000, 84_000_000, 1_000_000, "measured", constant_bytes=4096),
    ),
    seconds=(0.25, 1e-05, 0.0, 3.5), scratch=(0, 64, 0, 128), rooms=(84_000_000,),
    made_with={"TensorFlow": "2.21.0", "device": "a processor"},
    as_written=KeptTrial(None, 99_000_000, 98_000_000, 1_000_000, "measured"),
)  # fmt: skip
KEY = "a" * 64


def aged(folder: Path, key: str, seconds: int) -> None:
    """Let the plan of ``key`` have been used so long ago."""
    path = PlanStore(folder)._path(key)
    os.utime(path, (path.stat().st_mtime - seconds,) * 2)


@pytest.mark.parametrize("steps", [PLAN.steps, None])
def test_a_kept_plan_is_found_whole_by_another_store(steps: tuple[int, ...] | None, tmp_path: Path) -> None:
    folder, plan = tmp_path / "not" / "yet", dataclasses.replace(PLAN, steps=steps, measured=steps is None)
    assert PlanStore(folder).look_up(KEY) is None and not folder.exists()
    assert PlanStore(folder).keep(KEY, plan)
    store = PlanStore(folder)
    assert store.look_up(KEY) == plan
    assert store.look_up("b" * 64) is None
    better = dataclasses.replace(plan, peak_bytes=1)
    assert store.keep(KEY, better) and PlanStore(folder).look_up(KEY) == better
    assert len(list(folder.iterdir())) == 1 and store.problem == ""


def test_plans_lie_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert plans_folder() == tmp_path / "checkmate-explorer" / "plans"


DAMAGE = {
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "no JSON": lambda text: "\x00\x01" * 50,
    "a list": lambda text: "[1, 2]",
    "a figure": lambda text: text.replace("85000000", "85000001"),
    "a step": lambda text: text.replace("[0,1,2,1,3]", "[0,1,2,2,3]"),
    "a step that was tried": lambda text: text.replace("159000000", "158000000"),
    "seconds": lambda text: text.replace("0.25", "-0.25"),
    "a version": lambda text: text.replace("2.21.0", "2.22.0"),
    "no steps": lambda text: text.replace('"steps":[0,1,2,1,3],', ""),
    "another step's": lambda text: text.replace("a" * 64, "c" * 64),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_plan_is_not_used_and_is_written_anew(damage: str, tmp_path: Path) -> None:
    PlanStore(tmp_path).keep(KEY, PLAN)
    (path,) = tmp_path.iterdir()
    text = path.read_text(encoding="utf-8")
    changed = DAMAGE[damage](text)
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    store = PlanStore(tmp_path)
    assert store.look_up(KEY) is None
    assert store.problem.startswith(f"a kept plan is damaged and not used: {path}")
    assert store.keep(KEY, PLAN) and PlanStore(tmp_path).look_up(KEY) == PLAN


def test_a_plan_under_the_name_of_another_is_not_used(tmp_path: Path) -> None:
    """Check a whole file that was copied, and one of another version."""
    store, other = PlanStore(tmp_path), "a" * 63 + "b"  # both have the same file name
    store.keep(other, PLAN)
    assert store.look_up(KEY) is None and "is not the plan of this step" in store.problem


def test_the_last_plan_of_the_same_step_made_otherwise_is_found(tmp_path: Path) -> None:
    store, keys = PlanStore(tmp_path), ["a" * 24 + letter * 40 for letter in "bcd"]
    assert store.made_otherwise(KEY, 24) is None
    for number, key in enumerate(keys):
        store.keep(key, dataclasses.replace(PLAN, made_with={"TensorFlow": f"2.{number}"}))
        aged(tmp_path, key, 100 - number)
    store.keep("b" * 64, PLAN)
    store.keep(KEY, PLAN)
    found = store.made_otherwise(KEY, 24)
    assert found is not None and found.made_with == {"TensorFlow": "2.2"}
    store._path(keys[2]).write_text("damaged", encoding="utf-8")
    found = store.made_otherwise(KEY, 24)
    assert found is not None and found.made_with == {"TensorFlow": "2.1"} and store.problem == ""


def test_the_longest_unused_is_the_first_to_go(tmp_path: Path) -> None:
    keys = [f"{number:064d}"[::-1] for number in range(6)]
    store = PlanStore(tmp_path, most=5)
    for number, key in enumerate(keys[:5]):
        store.keep(key, PLAN)
        aged(tmp_path, key, 1000 - number)
    assert store.look_up(keys[0]) == PLAN  # used again, so no longer the oldest
    store.keep(keys[5], PLAN)
    assert [store.look_up(key) is not None for key in keys] == [True, False, True, True, True, True]


def test_the_folder_does_not_grow_over_its_size(tmp_path: Path) -> None:
    plan = dataclasses.replace(PLAN, steps=tuple(range(2000)))
    store = PlanStore(tmp_path, most_bytes=40_000)  # four such plans
    for number in range(9):
        key = f"{number:064d}"[::-1]
        assert store.keep(key, plan)
        aged(tmp_path, key, 100 - number)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 40_000
    assert store.look_up(f"{8:064d}"[::-1]) == plan
    left = tmp_path / ".half-written"
    left.write_bytes(b"x" * 30_000)
    os.utime(left, (0, 0))
    store.keep(KEY, plan)
    assert not left.exists()
    # A plan larger than all that is allowed is the only one, but it is there.
    huge = dataclasses.replace(PLAN, steps=tuple(range(20_000)))
    store.keep(KEY, huge)
    assert [path.name for path in tmp_path.iterdir()] == [f"{KEY[:40]}.json"]


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    being_written, old = tmp_path / ".being-written", tmp_path / ".left"
    for path in (being_written, old):
        path.write_bytes(b"x" * 30_000)
    os.utime(old, (0, 0))
    PlanStore(tmp_path, most=1, most_bytes=1).keep(KEY, PLAN)
    assert being_written.exists() and not old.exists()


def test_a_folder_that_cannot_be_used_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = PlanStore(tmp_path / "file" / "plans")
    assert store.look_up(KEY) is None and not store.keep(KEY, PLAN)
    assert store.problem.startswith("the plan is not kept for a later run: ")


def test_a_removed_plan_is_not_found(tmp_path: Path) -> None:
    store, other = PlanStore(tmp_path), "b" * 64
    for key in (KEY, other):
        store.keep(key, PLAN)
    for _ in range(2):  # another process may have removed it
        store.remove(KEY)
    assert store.look_up(KEY) is None and store.look_up(other) == PLAN and store.problem == ""


def test_a_plan_that_can_only_be_read_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PlanStore(tmp_path).keep(KEY, PLAN)

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    monkeypatch.setattr(os, "utime", refuse)  # as on a folder of another user
    store = PlanStore(tmp_path)
    assert store.look_up(KEY) == PLAN and store.problem == ""


def keep_and_read(folder: Path, number: int) -> bool:
    """Keep a plan again and again; return whether each read was whole."""
    plan = dataclasses.replace(PLAN, steps=(number,) * 3000, peak_bytes=number)
    store = PlanStore(folder, most=3)
    for turn in range(60):
        assert store.keep(KEY, plan)
        store.keep(f"{turn % 5}{number}".ljust(64, "0"), plan)
        found = store.look_up(KEY)
        if store.problem or (found is not None and set(found.steps or ()) != {found.peak_bytes}):
            return False
    return True


def test_two_trainings_that_share_the_folder_do_not_hurt_each_other(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.starmap(keep_and_read, [(tmp_path, 1), (tmp_path, 2)]) == [True, True]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert all(json.loads(path.read_text())["format"] == "checkmate-plan" for path in tmp_path.iterdir())
