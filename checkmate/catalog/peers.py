"""List Keras's and TensorFlow's own ways to train in less memory.

``checkmate.backends.tf.peers.build`` applies them. Naming the methods needs no TensorFlow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Wrap = Literal["keras.remat", "tf.recompute_grad"]
Cut = Literal["blocks", "sqrt_cuts", "sqrt_layers"]
Mode = Literal["full", "activations", "larger_than", "list_of_layers"]


@dataclass(frozen=True)
class PeerMethod:
    """Describe one way to ask for recomputation.

    ``mode``: of ``keras.RematScope``. ``wrap`` and ``cut``: what is put around which segments. A method with
    neither is the plain step.
    """

    name: str
    label: str
    description: str
    mode: Mode | None = None
    wrap: Wrap | None = None
    cut: Cut | None = None


PLAIN = PeerMethod("plain", "plain", "Keras's own training step")
XLA_ALONE = replace(PLAIN, label="XLA alone", description="Keras's own training step, compiled by XLA")

# Relative errors of the gradients that XLA's fusions cause where layers compute in 16 bits: of all together,
# and of one. A scheduled step of the zoo's mixed_bfloat16 differed by 0.9 and 7 %.
ROUNDING_16, ROUNDING_16_OF_ONE = 0.05, 0.2

PEERS: tuple[PeerMethod, ...] = (
    PeerMethod(
        "scope-full", "RematScope full", "keras.RematScope around building the model, mode full", mode="full"
    ),
    PeerMethod(
        "scope-activations", "RematScope activations", "the same, mode activations", mode="activations"
    ),
    PeerMethod(
        "scope-larger-than",
        "RematScope larger_than",
        "the same, mode larger_than at its default of 1,024 elements",
        mode="larger_than",
    ),
    PeerMethod(
        "scope-layers",
        "RematScope list_of_layers",
        "the same, mode list_of_layers: every convolution, or every dense layer where there is none",
        mode="list_of_layers",
    ),
    PeerMethod(
        "remat-blocks",
        "keras.remat, blocks",
        "keras.remat around each block but the last; a block ends where one tensor passes and branches "
        "join or features are pooled",
        wrap="keras.remat",
        cut="blocks",
    ),
    PeerMethod(
        "recompute-blocks",
        "recompute_grad, blocks",
        "tf.recompute_grad around the same blocks",
        wrap="tf.recompute_grad",
        cut="blocks",
    ),
    PeerMethod(
        "recompute-sqrt-cuts",
        "recompute_grad, √n cut points",
        "tf.recompute_grad around √n segments between layers where a single tensor passes",
        wrap="tf.recompute_grad",
        cut="sqrt_cuts",
    ),
    PeerMethod(
        "recompute-sqrt-layers",
        "recompute_grad, √n layers",
        "tf.recompute_grad around √n segments of consecutive layers; all that passes between them is kept",
        wrap="tf.recompute_grad",
        cut="sqrt_layers",
    ),
)

# Chen's schedules on the traced ops, emitted by this project: label, and the solver's name in the registry.
OURS_CHEN: tuple[tuple[str, str], ...] = (
    ("ours, Chen √n cut points", "chen-sqrt-ap"),
    ("ours, Chen √n ops", "chen-sqrt-linear"),
)


def find_method(name: str) -> PeerMethod:
    """Return the method called ``name``.

    Raises:
        KeyError: there is none.
    """
    return {method.name: method for method in (PLAIN, *PEERS)}[name]
