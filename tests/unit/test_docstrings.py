"""Test that a docstring's first line is a short sentence.

``ruff`` holds that a function's begins with an imperative (D401).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST = 72
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def first_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the first line of every docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text.splitlines()[0]


@pytest.mark.parametrize("folder", ["app", "checkmate", "docs", "examples", "resources", "tests"])
def test_a_docstring_begins_with_a_line_of_at_most_72_characters(folder: str) -> None:
    found = 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        for number, line in first_lines(path.read_text(encoding="utf-8")):
            found += 1
            assert len(line) <= MOST, f"{path.relative_to(ROOT)}:{number}: {len(line)} characters: {line}"
    assert found


def test_a_line_that_is_too_long_is_found() -> None:
    source = f'class A:\n    def f(self):\n        """{"x" * 80}\n\n        More.\n        """\n'
    assert list(first_lines(source)) == [(3, "x" * 80)]
