"""Typed access to the metadata that says how a graph was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Origin:
    """Where a graph is from. Metadata can come from a file: what is of another type there is left out.

    ``request``: as ``ModelRequest.to_json`` has it. ``profile``: how costs were measured. ``kernels``: the
    library whose memory rules hold. ``weights``: the bytes of a Keras model's weights by layer.
    ``optimizer``: of each of its optimizer's slots.
    ``step_fingerprint``: of the step as traced, before the bytes of ``learned_workspace`` and
    ``learned_reserves``, and the requests of ``learned_pieces``, were learned. ``modules``: the paths of
    PyTorch's modules that are called. ``checkpoints``: by the name of each op that a
    ``torch.utils.checkpoint`` computes again, the number of that.
    ``built_from_layers``: every cost and size is in proportion to the batch. ``extrapolated_from_batch``: it
    was scaled from this batch.
    """

    request: Mapping[str, Any] = field(default_factory=dict)
    profile: Mapping[str, Any] = field(default_factory=dict)
    model_file: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    kernels: str = ""
    target: str = ""
    tensorflow: str = ""
    fused: bool = False
    tensorflow_ops: int = 0
    jax_equations: int = 0
    torch_nodes: int = 0
    step_fingerprint: str = ""
    learned_workspace: Mapping[str, Any] = field(default_factory=dict)
    learned_reserves: Mapping[str, Any] = field(default_factory=dict)
    learned_pieces: Mapping[str, Any] = field(default_factory=dict)
    modules: tuple[str, ...] = ()
    checkpoints: Mapping[str, Any] = field(default_factory=dict)
    built_from_layers: bool = False
    extrapolated_from_batch: int = 0

    @property
    def allocated_per_requested(self) -> float:
        """The bytes that the meter shows for each requested one, as profiled; 1 where that is not known."""
        return float(self.profile.get("allocated_per_requested", 1.0))

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> Origin:
        nothing, known = cls(), dict[str, Any]()
        for entry in fields(cls):
            value, kind = metadata.get(entry.name), type(getattr(nothing, entry.name))
            if kind is tuple and isinstance(value, list | tuple):
                known[entry.name] = tuple(map(str, value))
            elif isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
                known[entry.name] = value
        return cls(**known)
