from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import resource, sys, time
from pathlib import Path
from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph
from checkmate.reports.gather import gather
from checkmate.records.read import read_record
path = Path(sys.argv[1])
before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
for read in (read_any_graph, lambda path: gather([path]), read_record):
    try:
        read(path)
    except CheckmateError as error:
        assert len(str(error)) <= 300 and "\\n" not in str(error), error
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown // 1024, time.process_time() - started)
"""


def spent(path: Path) -> tuple[int, float]:
    """Return the MiB and the seconds that readers took for one file.

    All readers of files read it. The seconds are the processor's.
    """
    told = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True, timeout=300
    )
    grown, seconds = told.stdout.split()
    return int(grown), float(seconds)


OPS = 10**7
ZEROS, SPACES = (
    gzip.compress(byte * 2**24, 9) * 32 for byte in (b"\0", b" ")
)  # 512 MiB, in parts that are quickly made
BOMBS = {
    "zeros": lambda: ZEROS,
    "spaces": lambda: SPACES + gzip.compress(b"{}"),
    "ten million ops": lambda: gzip.compress(
        b'{"format":"checkmate-graph","version":1,"values":[],"ops":[' + b"{}," * OPS + b"{}]}", 9
    ),
    "bombs in bombs": lambda: gzip.compress(ZEROS, 9),
    "many members": lambda: gzip.compress(bytes(2**20), 9) * 500,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_gzip_bomb_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(BOMBS[name]())
    grown, seconds = spent(path)
    assert grown < 10 * path.stat().st_size // 2**20 + 100 and seconds < 20.0


@pytest.mark.parametrize("text", ["[", '{"a":', '{"ops":[', '[{"nodes":'])
def test_deep_nesting_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text(text * 1_000_000)
    grown, seconds = spent(path)
    assert grown < 10 * path.stat().st_size // 2**20 + 100 and seconds < 20.0


@pytest.mark.parametrize(
    "change",
    [
        {"fixed_bytes": 2**61},
        {"values": [{"bytes": 2**61, "shape": [2**61, 2**61]}] * 2},
        {"values": [{"bytes": 1, "shape": [2**61] * 1000}]},
        {"batch_size": 2**61},
    ],
    ids=["fixed", "sum", "shape", "batch"],
)
def test_huge_declared_sizes_take_no_memory(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    op = {"name": "a", "cost": 1, "inputs": [], "outputs": [0]}
    whole = {"format": "checkmate-graph", "version": 1, "ops": [op], "values": [{"bytes": 1}]}
    path.write_text(json.dumps({**whole, **change}))
    grown, seconds = spent(path)
    assert grown < 60 and seconds < 20.0
