"""Test that processes share the work of compiling each kernel once.

What fails there is done in this process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.solvers.compile import cache as compile_cache
from checkmate.solvers.compile import compilation as compile_all
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.compilation import Compilation, compile_first, wait_for
from checkmate.solvers.compile.parts import find_parts
from checkmate.solvers.sequence.local_search import warm_up

ROOT = Path(__file__).resolve().parents[3]

# Run in a process with an empty cache folder: compile, and search. It prints what was reported, and what was
# compiled during the search.
_FIRST = """
import json
from checkmate.graphs.generate import training_dag
from checkmate.ir import Schedule
from checkmate.solvers.compile.compilation import compile_first
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.parts import find_parts
from checkmate.solvers.sequence.local_search import LocalSearchSolver
from checkmate.solvers.chain.solver import warm_up as chain_warm_up
from checkmate.solvers.listeners import SilentListener
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.memory.simulate import simulate

before, said = is_compiled(), []
compile_first(said.append)
graph = training_dag(3, 40)
peak = simulate(graph, Schedule.plain(graph)).peak_bytes
options = SolveOptions(time_limit_s=60.0, moves=60000)
result = LocalSearchSolver().solve(Problem(graph, int(0.6 * peak)), options, SilentListener())
chain_warm_up()
parts = find_parts()
print(json.dumps({
    "before": before, "after": is_compiled(), "said": said, "moves": result.statistics["moves"],
    "types": {name: len(parts.kernels[name].signatures) for name in parts.entries},
    "compiled here": sum(sum(kernel.stats.cache_misses.values()) for kernel in parts.kernels.values()),
}))
"""


def test_a_kernel_comes_after_the_kernels_that_it_needs() -> None:
    parts = find_parts()
    done: set[str] = set()
    for name in parts.kernels:
        assert parts.needs[name] <= done
        done.add(name)
    assert set(parts.entries) <= done
    waiting = {needed for needs in parts.needs.values() for needed in needs}
    assert {name for name in parts.kernels if parts.heights[name] == 0} == set(parts.kernels) - waiting


def test_the_types_that_kernels_are_compiled_with_are_those_they_are_called_with() -> None:
    warm_up()
    parts = find_parts()
    for name in parts.entries:
        kernel = parts.kernels[name]
        assert all(tuple(types) == parts._types(kernel.py_func) for types in kernel.signatures), name


def test_processes_that_cannot_start_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    warm_up()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    compilation = Compilation(processes=2)
    said: list[str] = []
    wait_for(compilation, said.append, lambda: False)
    assert not compilation.running and compilation._serving == []
    assert said[-1].startswith("compiled the search, once for this machine, in ")


def test_a_compilation_that_is_given_up_ends_its_processes_and_notes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        compile_all, "note_compiled", lambda: pytest.fail("a compilation that was given up was noted")
    )
    monkeypatch.setattr(compile_all, "is_compiled", lambda: False)
    said: list[str] = []
    compile_first(said.append, cancelled=lambda: bool(said))
    assert said and said[0].startswith("compiling the search, once for this machine: ")


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setattr(compile_cache, "cache_folder", lambda: blocked / "kernels")
    assert not compile_cache.make_folder()
    compile_cache.note_compiled()
    assert not is_compiled()


@pytest.mark.heavy
def test_from_an_empty_cache(tmp_path: Path) -> None:
    def run() -> dict[str, object]:
        done = subprocess.run(
            [sys.executable, "-c", _FIRST],
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=900,
        )
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found

    first, second = run(), run()
    assert not first["before"] and first["after"] and second["before"]
    assert str(first["said"][0]).startswith("compiling the search") and second["said"] == []
    assert str(first["said"][-1]).startswith("compiled the search")
    for found in (first, second):
        assert found["compiled here"] == 0, "all was in the cache"
        assert set(found["types"].values()) == {1} and found["moves"] == 60000
