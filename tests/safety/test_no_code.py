from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# What reads files. Processes of one program send each other graphs as pickles, which no file comes near.
READING = ("app", *(f"checkmate/{name}" for name in ("formats", "records", "reports", "sweeps", "machine",
           "catalog", "certificate", "cli", "memory", "graphs", "processes", "workers")))  # fmt: skip
CHILD = """
import os, pickle, sys, warnings
from pathlib import Path
from random import Random
from checkmate.errors import CheckmateError
from tests.fuzz.mutate import mutated
from tests.fuzz.readers import READERS, opened
folder, count = Path(sys.argv[1]), int(sys.argv[2])
cases = []
for number, name in enumerate(READERS):
    place = folder / str(number)
    place.mkdir()
    read, samples = opened(name, place)
    cases.append((name, read, samples, Path.cwd()))
attack = pickle.dumps(print)  # a pickle that names a function
trapped, armed, now = [], [False], [""]
FORBIDDEN = ("exec", "compile", "pickle.", "import", "subprocess.", "os.system", "os.exec", "os.posix_spawn",
             "os.fork", "os.spawn", "ctypes.dlopen", "marshal.", "code.__new__", "socket.connect")
def hook(event, arguments):
    if armed[0] and event.startswith(FORBIDDEN):
        trapped.append((now[0], event, str(arguments)[:80]))
sys.addaudithook(hook)
armed[0] = True
eval("1")
assert trapped, "the trap works"
trapped.clear()
for warm in (True, False):
    armed[0] = False
    for name, read, samples, where in cases:
        os.chdir(where)
        random, now[0] = Random(3 if warm else 4), name
        inputs = [*samples, attack, *(mutated(random, random.choice(samples)) for _ in range(count))]
        if warm:
            inputs *= 2
        armed[0] = not warm
        for data in inputs:
            try:
                read(data)
            except (CheckmateError, Exception):
                pass
        armed[0] = False
found = [entry for entry in trapped]
print(len(cases), found)
"""


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(50, marks=(pytest.mark.heavy, pytest.mark.whole)),
        pytest.param(500, marks=pytest.mark.long),
    ],
)
def test_no_format_runs_code(count: int, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), str(count)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr[-2000:]
    assert told.stdout.splitlines()[-1].endswith(" []"), told.stdout[-3000:]


@pytest.mark.parametrize("name", ["pickle", "shelve", "marshal", "dill", "cloudpickle"])
def test_nothing_that_reads_files_knows_pickles(name: str) -> None:
    root = Path(__file__).resolve().parents[2]
    guilty = [
        path
        for folder in READING
        for path in (root / folder).rglob("*.py")
        if any(
            line.split()[:2] in (["import", name], ["from", name])
            for line in path.read_text(encoding="utf-8").splitlines()
        )
    ]
    assert guilty == []
