"""Shorten what an error of a user's code or of a library says to one line."""

from __future__ import annotations

import re

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_WRAPPED = re.compile(r"(?:Exception|Error) encountered:\s")
_CALLED = re.compile(r"Exception encountered when calling [^:]*$")
_DUMPS = re.compile(r"\bFull object config|\bconfig=\{|\bArguments received by ")


def reason(error: BaseException) -> str:
    """Return the innermost reason in the text of ``error`` on one line, without dumps of configurations."""
    text = _WRAPPED.split(_COLOURS.sub("", str(error)))[-1]
    line = " ".join(_DUMPS.split(text)[0].split()) or type(error).__name__
    return (line if len(line) <= 300 else f"{line[:299]}…").rstrip(". ")


def first_line(error: BaseException) -> str:
    """Return what ``error`` says first, shortened. AutoGraph puts the place in the user's code first; what
    went wrong is the last line then. Keras puts the layer first that was called, and what it was called with
    last."""
    text = _DUMPS.split(_COLOURS.sub("", str(error)))[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if not _CALLED.match(line)] or lines or [type(error).__name__]
    return said[-1 if said[0] == "in user code:" else 0][:300]
