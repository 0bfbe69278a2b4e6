"""What to load and how to trace it: JSON-able data that is kept with every graph made from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

# An argument in a hint, such as target="executor", or loss= without a value.
_ARGUMENT = re.compile(r'(?<!, )(?<![\w.(])([a-z_]+)=("[^"]*"|[\w.%,]*\w%?)?')


def as_options(hint: str, known: Iterable[str] = ()) -> str:
    """Return ``hint`` for the command line: arguments named as in Python become options.

    ``known``: further arguments than a ``ModelRequest``'s that are options.
    """
    names = {*ModelRequest.__dataclass_fields__, *known}

    def option(found: re.Match[str]) -> str:
        name, value = found[1], (found[2] or "").strip('"')
        if name not in names:
            return found[0]
        return f"--{name.replace('_', '-')}{' ' * bool(value)}{value}".removesuffix(" True")

    return _ARGUMENT.sub(option, hint)


class OnMiss(StrEnum):
    """Where no schedule keeps the budget: train with the closest measured peak, or raise an error."""

    CLOSEST = "closest"
    RAISE = "raise"


class Target(StrEnum):
    """What runs the training step: TensorFlow's executor, op after op, or XLA, compiled as a whole."""

    EXECUTOR = "executor"
    XLA = "xla"


@dataclass(frozen=True)
class ModelRequest:
    """A model and the training step wanted of it.

    ``model`` is a ``.keras`` or ``.h5`` path, ``keras.applications.NAME``, a sample's name, or
    ``file.py:function``, which returns a model, or a training step and an example of its arguments.
    ``batch_chosen`` says that the user asked for ``batch_size``: an example of another size is then refused;
    otherwise a step has the batch of its example. ``loss`` and ``optimizer`` are Keras identifiers, used
    where the model is not compiled; None: a stated default. ``input_shape`` is one input's shape without the
    batch dimension, for models that leave it open. ``mixed_precision`` is a Keras dtype policy
    (``mixed_float16``…); None: the model's own. ``device`` is ``cpu``, ``gpu`` or ``gpu:1`` (TensorFlow's
    second); None: the first GPU that TensorFlow sees, else the CPU. ``allow_code`` allows running code that
    comes with the model (``file.py``, Lambda layers). ``kernels`` is the library of kernels whose memory
    rules the graph follows (``onednn``, ``eigen``, ``cuda``); None: the one that runs here. ``target``
    is what runs the step, a value of ``Target``; None: XLA where the model has ``jit_compile=True``.
    ``fused``: whether ops of the graph are what XLA will fuse; None: where XLA compiles the step. ``name`` is
    what reports call the model, where ``model`` is a file that is there for a while only. ``as_written``:
    the graph has the step's own recomputation in it.
    """

    model: str
    batch_size: int = 32
    loss: str | None = None
    optimizer: str | None = None
    input_shape: tuple[int, ...] | None = None
    mixed_precision: str | None = None
    device: str | None = None
    allow_code: bool = False
    kernels: str | None = None
    batch_chosen: bool = False
    target: str | None = None
    fused: bool | None = None
    name: str | None = None
    as_written: bool = False

    @property
    def shown(self) -> str:
        return self.name or self.model

    def at_batch(self, size: int) -> ModelRequest:
        return replace(self, batch_size=size, batch_chosen=True)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelRequest:
        """Return the request that ``to_json`` described. Unknown fields are ignored."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        if known.get("input_shape") is not None:
            known["input_shape"] = tuple(known["input_shape"])
        return cls(**known)


def parse_shape(text: str) -> tuple[int, ...]:
    """Return an input's shape without the batch, written like ``224,224,3`` or ``224x224x3``.

    Raises:
        ValueError: ``text`` is not such a shape; the sentence says how to write one.
    """
    parts = [part.strip() for part in text.strip("()[] ").replace("x", ",").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"{text!r} is not a shape; write it like 224,224,3")
    return tuple(map(int, parts))
