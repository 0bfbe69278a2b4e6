"""Test which module imports which, and what importing one loads.

The first is read from every module's syntax, the second is tried.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import checkmate
from tests.unit.layers import FLOORS

ROOT = Path(__file__).resolve().parents[2]
SOLVER_LIBRARIES = {"highspy", "ortools", "pulp", "numba", "scipy"}
TENSORFLOW = {"tensorflow", "keras", "h5py"}
QT = {"PySide6", "pyqtgraph", "shiboken6"}
HEAVY = TENSORFLOW | SOLVER_LIBRARIES | QT | {"jax", "jaxlib", "torch"}


@dataclass(frozen=True)
class Import:
    """One import statement's target.

    ``lazy``: inside a function. ``typing``: under TYPE_CHECKING. ``started``: no import, but a module that is
    started as a process.
    """

    module: str
    target: str
    line: int
    lazy: bool
    typing: bool
    started: bool = False

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def started_module(call: ast.Call) -> str:
    """Return the module of ours that ``module_command(name, …)`` or ``Conversation(name, …)`` starts.

    For any other call, return an empty string.
    """
    starts = ("module_command", "Conversation")
    if not (isinstance(call.func, ast.Name) and call.func.id in starts and call.args):
        return ""
    return str(call.args[0].value) if isinstance(call.args[0], ast.Constant) else ""


def imports_of(path: Path) -> Iterator[Import]:
    """Yield every import in ``path``, and every module that it starts.

    ``from package import module`` counts as the module.
    """

    def walk(node: ast.AST, lazy: bool, typing: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call) and (started := started_module(child)):
                yield Import(module_name(path), started, child.lineno, True, False, started=True)
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(module_name(path), alias.name, child.lineno, lazy, typing)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0 and child.module, f"{path}:{child.lineno}: a relative import"
                for alias in child.names:
                    full = f"{child.module}.{alias.name}"
                    is_module = (ROOT / full.replace(".", "/")).with_suffix(".py").is_file() or (
                        ROOT / full.replace(".", "/")
                    ).is_dir()
                    target = full if is_module else child.module
                    yield Import(module_name(path), target, child.lineno, lazy, typing)
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            guarded = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            yield from walk(child, lazy or inside, typing or guarded)

    return walk(ast.parse(path.read_text(encoding="utf-8")), False, False)


@cache
def all_imports(*, started: bool = False) -> list[Import]:
    """Return every import of our code, or every module that it starts."""
    return [found for found in everything() if found.started == started]


@cache
def everything() -> list[Import]:
    """Read all of our code, once, and only if a test asks."""
    return [
        found
        for folder in ("checkmate", "app")
        for path in (ROOT / folder).rglob("*.py")
        for found in imports_of(path)
    ]


def within(module: str, *packages: str) -> bool:
    """Return whether ``module`` is one of ``packages`` or inside one."""
    return any(module == package or module.startswith(package + ".") for package in packages)


def offending(packages: tuple[str, ...], *allowed: str) -> list[str]:
    """Return imports of our modules by ``packages`` that are not allowed.

    Those inside ``packages`` or of ``allowed`` are left out.
    """
    return [
        str(found)
        for found in all_imports()
        if within(found.module, *packages)
        and found.top in ("checkmate", "app")
        and not within(found.target, *packages, *allowed)
        and found.target != "checkmate"
    ]


def users(libraries: set[str], *but_not: str) -> list[str]:
    """Return modules outside ``but_not`` that import one of ``libraries``."""
    return [
        str(found) for found in all_imports() if found.top in libraries and not within(found.module, *but_not)
    ]


def test_the_walk_sees_the_code() -> None:
    found = all_imports()
    modules = {one.module for one in found}
    assert {
        "checkmate.ir.graph",
        "checkmate.planning",
        "checkmate.backends.tf.trace.trace",
        "checkmate.solvers.registry",
    } <= modules
    assert any(one.lazy for one in found) and any(one.top == "tensorflow" for one in found)


def test_the_values_import_numpy_and_the_standard_library_only() -> None:
    assert offending(("checkmate.ir",), "checkmate.errors", "checkmate.runner", "checkmate.units") == []
    assert offending(("checkmate.errors",), "checkmate.units") == []
    assert offending(("checkmate.units",)) == []
    allowed = sys.stdlib_module_names | {"numpy", "checkmate"}
    core = (
        "checkmate.ir",
        "checkmate.errors",
        "checkmate.units",
        "checkmate.memory.check",
        "checkmate.memory.simulate",
    )
    assert [str(f) for f in all_imports() if within(f.module, *core) and f.top not in allowed] == []


def test_the_check_shares_nothing_with_what_it_checks() -> None:
    assert offending(("checkmate.memory.check",), "checkmate.ir") == []
    assert [str(f) for f in all_imports() if f.module == "checkmate.memory.check" and f.top == "numpy"] == []


ROOMS = {
    room if room.startswith("app.") else f"checkmate.{room}": floor
    for floor, rooms in enumerate(FLOORS)
    for room in rooms.split()
}


@cache
def home(module: str) -> str:
    """Return the room that ``module`` is in; an empty string where no floor names one."""
    return max((room for room in ROOMS if within(module, room)), key=len, default="")


def test_every_module_is_in_a_room() -> None:
    modules = {module_name(path) for folder in ("checkmate", "app") for path in (ROOT / folder).rglob("*.py")}
    assert [m for m in modules if m not in ("checkmate", "app") and not home(m)] == []
    assert [room for room in ROOMS if not any(within(m, room) for m in modules)] == [], "no such room"


def test_modules_import_from_lower_floors() -> None:
    assert [
        str(found)
        for found in (*all_imports(), *all_imports(started=True))  # types count too
        if found.top in ("checkmate", "app")
        if found.module != "checkmate"
        and found.target not in ("checkmate", "app")  # the packages load nothing
        if home(found.module) != home(found.target)
        if ROOMS[home(found.module)] <= ROOMS[home(found.target)]
    ] == []


def test_a_process_is_started_by_its_owner_only() -> None:
    """Test that entries lie beside the code that starts them.

    Those of the window's processes lie together.
    """
    started = all_imports(started=True)
    assert len(started) > 4
    assert [
        str(found)
        for found in started
        if not within(found.target, found.module.rpartition(".")[0], "checkmate.workers", "app")
    ] == []


def test_the_doctor_imports_nothing_that_may_be_broken() -> None:
    """Test that only other processes import such libraries."""
    code = "import checkmate.cli.commands.doctor, checkmate.doctor.look, checkmate.doctor.lines"
    assert loaded_by(code) & (HEAVY | {"numpy"}) == set()


def test_only_the_tensorflow_room_imports_tensorflow() -> None:
    assert users({"tensorflow"}, "checkmate.backends.tf", "checkmate.training") == []
    assert users({"h5py"}, "checkmate.models") == []
    rooms = ("checkmate.models", "checkmate.backends", "checkmate.training")
    assert users({"keras"}, *rooms) == []


def test_only_the_jax_room_imports_jax() -> None:
    assert users({"jax", "jaxlib"}, "checkmate.backends.jax", "checkmate.training") == []


def test_only_the_torch_room_imports_pytorch() -> None:
    assert users({"torch"}, "checkmate.backends.torch", "checkmate.training") == []


def test_only_the_solvers_import_solver_libraries() -> None:
    assert users(SOLVER_LIBRARIES, "checkmate.solvers", "checkmate.records.pickle_scan") == []


def test_nothing_below_the_window_imports_qt_or_the_window() -> None:
    """Test all modules; only the command that opens the window and a notebook's page may do so."""
    assert users(QT, "app") == []
    reached = [f for f in all_imports() if within(f.module, "checkmate") and f.top == "app"]
    doors = ("checkmate.cli.commands.window", "checkmate.notebook")
    assert [str(f) for f in reached if f.module not in doors or not f.lazy] == []


def test_the_layers_of_the_window() -> None:
    plain = ("app.actions", "app.presenters", "app.state", "app.layout")
    assert [str(f) for f in all_imports() if within(f.module, *plain) and f.top in QT] == []
    quiet = ("app.models", "app.workers")
    assert [
        str(f)
        for f in all_imports()
        if within(f.module, *quiet) and f.top in QT and not within(f.target, "PySide6.QtCore")
        if f.module != "app.models.undo"  # Qt keeps its undo stack in QtGui
    ] == []
    rooms = ("checkmate.models", "checkmate.backends", "checkmate.training", "checkmate.solvers")
    rooms += ("checkmate.records.pickle_scan",)
    assert users(TENSORFLOW | SOLVER_LIBRARIES, *rooms) == []
    assert [
        str(f)
        for f in all_imports()
        if f.top == "checkmate" and within(f.module, "app")
        if within(
            f.target,
            "checkmate.models",
            "checkmate.backends.tf",
            "checkmate.backends.jax",
            "checkmate.backends.torch",
        )
    ] == []


def loaded_by(statement: str) -> set[str]:
    """Return top-level modules in a fresh process after ``statement``."""
    listed = "' '.join(sorted({name.partition('.')[0] for name in sys.modules}))"
    code = f"{statement}\nimport sys\nprint({listed})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import checkmate",
        "import checkmate.cli.main",
        "import checkmate.jax",
        "import checkmate.keras",
        "import checkmate.torch",
        "import checkmate.planning",
        "import checkmate.listing",
        "import checkmate.solvers.registry",
        "import checkmate; checkmate.solve, checkmate.run, checkmate.read_graph, checkmate.ModelRequest",
        "import checkmate; checkmate.frontier, checkmate.max_batch, checkmate.LargestBatch",
        "from checkmate.cli.main import build_parser; build_parser()",
    ],
)
def test_importing_loads_nothing_heavy(statement: str) -> None:
    assert loaded_by(statement) & HEAVY == set()


def test_the_package_itself_loads_not_even_numpy() -> None:
    assert "numpy" not in loaded_by("import checkmate")


def test_public_names() -> None:
    for name in checkmate.__all__:
        found = getattr(checkmate, name)
        assert found.__doc__, f"{name} has no docstring"
    assert set(checkmate.__all__) <= set(dir(checkmate))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = checkmate.nonsense


def test_public_names_and_what_a_type_checker_sees_are_the_same() -> None:
    tree = ast.parse((ROOT / "checkmate" / "__init__.py").read_text(encoding="utf-8"))
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    names = [
        a.asname or a.name for node in guarded.body if isinstance(node, ast.ImportFrom) for a in node.names
    ]
    assert sorted(names) == sorted(checkmate.__all__)


@pytest.mark.parametrize("package", ["checkmate", "checkmate.planning"])
def test_no_module_has_the_name_of_a_function_beside_it(package: str) -> None:
    """Test it: importing such a module would replace the function."""
    found = importlib.import_module(package)
    assert [name for name in found.__all__ if importlib.util.find_spec(f"{package}.{name}")] == []
