"""Test that kernels become machine code once per machine."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from checkmate.formats import write_graph
from checkmate.ir import Graph
from checkmate.progress import never
from checkmate.solvers.chain.chain_solver import tiny_table
from checkmate.solvers.compile import cache, compilation, machine_code
from checkmate.solvers.compile.cache import KEPT, SOURCES, read_whole, write_whole
from checkmate.solvers.compile.compilation import compile_first, load_kernels
from checkmate.solvers.compile.jit import Kernel
from checkmate.solvers.compile.machine_code import MachineCode, Translation, make
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence import edit
from checkmate.solvers.sequence.kernel_arrays import build_model, new_state
from checkmate.solvers.sequence.local_search import LocalSearchSolver
from tests.generated_graphs import training_dag
from tests.graphs_strategies import training_chain
from tests.unit.solvers.test_local_search import peak_of

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "resources" / "graphs" / "unet-b8.json.gz"


def test_the_kept_translation_is_of_the_sources_as_they_are() -> None:
    assert Translation.kept() is not None, "run python -m checkmate.solvers.compile.translate"


def test_the_sources_are_all_that_kernels_depend_on() -> None:
    solvers = ROOT / "checkmate" / "solvers"
    for name in SOURCES:
        if name.startswith("compile/"):
            continue
        for node in ast.walk(ast.parse((solvers / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("checkmate.solvers."):
                used = node.module.removeprefix("checkmate.solvers.").replace(".", "/") + ".py"
                assert used in SOURCES, f"{name} uses {used}"


def test_what_other_sources_or_no_sources_were_translated_from_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, content in (("none", None), ("cut", KEPT.read_bytes()[:-9]), ("other", b"no archive")):
        monkeypatch.setattr(machine_code, "KEPT", tmp_path / path)
        if content is not None:
            (tmp_path / path).write_bytes(content)
        assert Translation.kept() is None
    monkeypatch.setattr(machine_code, "KEPT", KEPT)
    monkeypatch.setattr(machine_code, "source_key", lambda: "of an edited kernel")
    assert Translation.kept() is None


def search(graph: Graph, moves: int) -> list[int]:
    options = SolveOptions(time_limit_s=600.0, moves=moves)
    found = LocalSearchSolver().solve(Problem(graph, int(0.6 * peak_of(graph))), options, Listener())
    assert found.schedule is not None and found.statistics["moves"] == moves
    return found.schedule.steps.tolist()


def test_machine_code_finds_what_the_functions_find_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, table, plain = training_dag(3, 12), tiny_table(), tiny_table()
    load_kernels()
    compiled = search(graph, 3000)
    assert table.fill(never)
    monkeypatch.setattr(Kernel, "__call__", lambda self, *arguments: self.plain(*arguments))
    with np.errstate(over="ignore"):  # random numbers
        assert search(graph, 3000) == compiled
    assert plain.fill(never)
    np.testing.assert_array_equal(table.costs, plain.costs)


@pytest.mark.heavy
def test_edited_kernels_are_translated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, again = tiny_table(), tiny_table()
    assert table.fill(never)
    monkeypatch.setattr(machine_code, "KEPT", tmp_path / "none")
    fill = MachineCode(make()).function("chain.kernel.fill")
    least = again.least_slots()
    for t in range(again.count):
        fill(again.sizes, again.costs, least, t)
    np.testing.assert_array_equal(table.costs, again.costs)


def test_arguments_of_other_types_are_refused() -> None:
    model = build_model(training_chain(3)).model
    state, steps = new_state(model, steps=40, seed=0), np.arange(len(model.price[0]) - 1)
    for wrong in ((steps.astype(np.int32), 9.0), (np.repeat(steps, 2)[::2], 9.0), (steps, 9)):
        with pytest.raises(TypeError, match=r"edit\._load was called with"):
            edit._load(model, state, *wrong)
    assert edit._load(model, state, steps, 9.0)


def test_what_is_kept_for_another_processor_or_changed_sources_has_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name() -> str:
        for function in (cache.source_key, cache.machine_code_file):
            function.cache_clear()
        return cache.machine_code_file().name

    from llvmlite import binding

    try:
        before = name()
        with monkeypatch.context() as there:
            there.setattr(binding, "get_host_cpu_name", lambda: "another")
            assert name() != before
        shutil.copytree(ROOT / "checkmate" / "solvers", tmp_path / "solvers")
        monkeypatch.setattr(cache, "_SOLVERS", tmp_path / "solvers")
        assert name() == before
        with (tmp_path / "solvers" / SOURCES[-1]).open("a") as file:
            file.write("# edited\n")
        assert name() != before
    finally:
        monkeypatch.undo()
        name()


def test_a_file_that_is_not_whole_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "code"
    assert read_whole(path) is None
    write_whole(path, b"content")
    assert read_whole(path) == b"content" and len(list(path.parent.iterdir())) == 1
    whole = path.read_bytes()
    for harmed in (whole[:-1], b"", whole[:40] + b"?" + whole[41:]):
        path.write_bytes(harmed)
        assert read_whole(path) is None
    write_whole(path / "below a file", b"content")


def test_machine_code_that_is_not_whole_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_kernels()
    content = read_whole(cache.machine_code_file())
    assert content is not None
    code = tmp_path / "code"
    write_whole(code, content)
    code.write_bytes(code.read_bytes()[:-1])
    monkeypatch.setattr(machine_code, "machine_code_file", lambda: code)
    monkeypatch.setattr(machine_code, "make", lambda: content)
    assert machine_code.machine_code.__wrapped__().function("chain.kernel.fill")
    assert read_whole(code) == content


def test_without_processes_the_first_call_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    monkeypatch.setattr(compilation, "is_compiled", lambda: False)
    compile_first()
    assert MachineCode(make()).function("chain.kernel.fill")


def test_a_compilation_that_is_cancelled_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "is_compiled", lambda: False)
    monkeypatch.setattr(compilation, "module_command", lambda name: ["sleep", "600"])
    said: list[str] = []
    before = set(psutil.Process().children())
    compile_first(said.append, cancelled=lambda: bool(said))
    assert len(said) == 1 and said[0].startswith("compiling the search, once for this machine: ")
    assert set(psutil.Process().children()) <= before


def solve_as_users_do(
    graph: Path, folder: Path, *words: str, home: Path = ROOT
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Return what ``checkmate solve`` says, and its processor seconds."""
    before = os.times()
    command = [sys.executable, "-m", "checkmate", "solve", str(graph), "--budget", "60%", *words]
    with subprocess.Popen(
        command,
        cwd=home,
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        out, err = running.communicate(timeout=600)
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)  # a compilation that goes on
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return subprocess.CompletedProcess(command, running.returncode, out, err), used


def test_a_first_solve_compiles(tmp_path: Path) -> None:
    graph, caches = tmp_path / "small.json", tmp_path / "caches"
    write_graph(graph, training_chain(8))
    found, used = solve_as_users_do(graph, caches, "--time-limit", "60")
    assert found.returncode == 0 and "optimal, proved" in found.stdout and used < 30.0
    assert "compiled the search" in found.stderr
    [code] = (caches / "checkmate-explorer" / "kernels").iterdir()
    assert read_whole(code) is not None
