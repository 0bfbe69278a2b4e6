"""Keras's and TensorFlow's errors in one line."""

from __future__ import annotations

import re

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_WRAPPED = re.compile(r"(?:Exception|Error) encountered:\s")
_DUMPS = re.compile(r"\bFull object config|\bconfig=\{|\bArguments received by ")


def reason(error: BaseException, limit: int = 300) -> str:
    """The innermost reason in ``error``'s text, without dumps of configurations and arguments, on one line."""
    text = _WRAPPED.split(_COLOURS.sub("", str(error)))[-1]
    line = " ".join(_DUMPS.split(text)[0].split()) or type(error).__name__
    return (line if len(line) <= limit else f"{line[: limit - 1]}…").rstrip(". ")
