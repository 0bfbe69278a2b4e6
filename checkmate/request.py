"""What to load and how to trace it.

It is JSON-able data that is kept with every graph made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class ModelRequest:
    """A model and the training step wanted of it.

    ``model`` is a ``.keras`` or ``.h5`` path, ``keras.applications.NAME``, a sample's name, or
    ``file.py:function``. ``loss`` and ``optimizer`` are Keras identifiers, used where the model is not
    compiled; None: a stated default. ``input_shape`` is one input's shape without the batch dimension, for
    models that leave it open. ``mixed_precision`` is a Keras dtype policy (``mixed_float16``…); None: the
    model's own. ``device`` is ``cpu``, ``gpu`` or ``gpu:1`` (TensorFlow's second); None: the first GPU that
    TensorFlow sees, else the CPU. ``allow_code`` allows running code that comes with the model (``file.py``,
    Lambda layers). ``kernels`` is the library of kernels whose memory rules the graph follows (``onednn``,
    ``eigen``, ``cuda``); None: the one that runs here.
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

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON-able data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelRequest:
        """Return the request that ``to_json`` described.

        Unknown fields are ignored.
        """
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        if known.get("input_shape") is not None:
            known["input_shape"] = tuple(known["input_shape"])
        return cls(**known)
