"""Count what makes the code easy or hard to live in, at one commit.

``python docs/measure_house.py COMMIT -o FILE.json`` takes the files from Git, so the working tree may differ.
``--run "COMMAND"`` runs a command here instead, and adds its seconds to the file. The page
``docs/pages/benchmarks/house.md`` is rendered from such files (``docs/render_house.py``).
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import re
import shlex
import subprocess
import tarfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path, PurePosixPath
from typing import Any

import networkx

ROOT = Path(__file__).parents[1]
PROGRAM = ("checkmate/", "app/")
WIDTH, SCREEN, FOLDER = 110, 45, 12
SAME_LINES = 6
# Lines of which a copy says nothing.
_THIN = re.compile(r"^(?:from .*|import .*|[\W_]*|#.*|else:|try:|return|pass)$")
# What a type checker or a linter is told at the end of a line may stand out.
_TOLD = re.compile(r"  # (?:type: ignore|noqa).*")
_README, _PROJECT = PurePosixPath("README.md"), PurePosixPath("pyproject.toml")

Sources = dict[PurePosixPath, str]


def sources_at(commit: str) -> Sources:
    """Return the text of the Python files, README and pyproject.toml."""
    command = ["git", "archive", "--format=tar", commit]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None and (name.suffix == ".py" or name in (_README, _PROJECT)):
                found[name] = file.read().decode("utf-8")
    return found


def measure(sources: Sources) -> dict[str, Any]:
    """Return the figures of one commit."""
    program = {path: text for path, text in sources.items() if str(path).startswith(PROGRAM)}
    tests = {path: text for path, text in sources.items() if str(path).startswith("tests/")}
    trees = {path: ast.parse(text) for path, text in program.items()}
    folders = Counter(str(path.parent) for path in program if path.name != "__init__.py")
    functions = [_lines(node) for tree in trees.values() for node in _functions(tree)]
    pairs = _similar_pairs(program)
    return {
        "files": len(program),
        "lines": sum(len(text.splitlines()) for text in program.values()),
        "test_files": len(tests),
        "test_lines": sum(len(text.splitlines()) for text in tests.values()),
        "folders": len(folders),
        "folders_over_12": sum(count > FOLDER for count in folders.values()),
        "largest_folders": dict(folders.most_common(5)),
        "largest_file_lines": max(len(text.splitlines()) for text in program.values()),
        "functions": len(functions),
        "functions_over_45": sum(lines > SCREEN for lines in functions),
        "file_names_more_than_once": _repeated(path.stem for path in program if path.stem[:2] != "__"),
        "class_names_more_than_once": _repeated(
            node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        ),
        "lines_over_110": _wide_lines(program),
        "test_lines_over_110": _wide_lines(tests),
        "layers": _layers(tests),
        "circles": _circles(trees),
        "pairs_of_files_that_share_six_lines": len(pairs),
        "docstrings_by_first_word": _first_words(trees.values()),
        "readme_lines": len(sources[_README].splitlines()),
        "coverage_floor": _coverage_floor(sources[_PROJECT]),
    }


def timed(command: str) -> dict[str, Any]:
    """Run a command; return its seconds, its processor's, and the load."""
    before, began, load = os.times(), time.monotonic(), os.getloadavg()[0]
    code = subprocess.run(shlex.split(command), cwd=ROOT, check=False).returncode
    after = os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    return {
        "exit_code": code,
        "seconds": round(time.monotonic() - began),
        "processor_seconds": round(used),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(load, 1),
        "load_after": round(os.getloadavg()[0], 1),
    }


def _wide_lines(sources: Sources) -> int:
    lines = (_TOLD.sub("", line) for text in sources.values() for line in text.splitlines())
    return sum(len(line) > WIDTH for line in lines)


def _coverage_floor(project: str) -> float | None:
    """Return the share in percent that the unit tests must cover, if any."""
    tools = tomllib.loads(project).get("tool", {})
    floor: float | None = tools.get("coverage", {}).get("report", {}).get("fail_under")
    return floor


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines without its docstring."""
    first = node.body[0]
    has_docstring = ast.get_docstring(node, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring


def _repeated(names: Iterable[str]) -> int:
    return sum(count > 1 for count in Counter(names).values())


def _layers(tests: Sources) -> int:
    """Count the packages and modules with a line in the table of layers."""
    for text in tests.values():
        for node in ast.walk(ast.parse(text)) if "LAYERS" in text else ():
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            value = getattr(node, "value", None)
            if getattr(target, "id", "") == "LAYERS" and isinstance(value, ast.Dict):
                return len(value.keys)
    return 0


def _circles(trees: dict[PurePosixPath, ast.Module]) -> int:
    """Count groups of modules that need each other when they are imported."""
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in trees}
    graph = networkx.DiGraph()
    for name, path in names.items():
        for target in _imported(trees[path]):
            while target and target not in names:  # a name in a module
                target = target.rpartition(".")[0]
            if target and target != name:
                graph.add_edge(name, target)
    return sum(len(group) > 1 for group in networkx.strongly_connected_components(graph))


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports at once, for more than types."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _similar_pairs(program: Sources) -> set[tuple[str, str]]:
    """Return pairs of files with six equal lines in a row.

    Indentation does not count, nor do comments, imports, empty lines and lines of punctuation.
    """
    places: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for path, text in program.items():
        said = [line.strip() for line in text.splitlines() if not _THIN.match(line.strip())]
        for start in range(len(said) - SAME_LINES + 1):
            places[tuple(said[start : start + SAME_LINES])].add(str(path))
    return {pair for files in places.values() for pair in combinations(sorted(files), 2)}


def _first_words(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Count the first words of the docstrings of functions and methods."""
    said = [ast.get_docstring(node) for tree in trees for node in _functions(tree)]
    words = Counter(text.split()[0].strip(".,:;`'\"") for text in said if text and text.split())
    return dict(words.most_common(12)) | {"all": words.total()}


def main() -> None:
    """Measure the commit, or time the command, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--run", metavar="COMMAND")
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    output: Path = chosen.output
    command = ["git", "log", "-1", "--format=%h %cs", chosen.commit]
    commit, day = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    found: dict[str, Any] = {"commit": commit, "day": day}
    if chosen.run:
        earlier = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
        found = earlier | {chosen.run: found | timed(chosen.run)}
    else:
        found |= measure(sources_at(chosen.commit))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
