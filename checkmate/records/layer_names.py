"""Name the layer of an op by the scopes in the op's name.

No model is at hand here, so scopes are all that is known.
"""

from __future__ import annotations

import re

# Scopes that TensorFlow adds around or inside of those of layers.
_AROUND = re.compile(
    r"(StatefulPartitionedCall|PartitionedCall|gradient_tape|gradients|cond|while|body|then|else)(_\d+)?"
)
NO_LAYER = "outside of layers"


def layer_of(op: str) -> str:
    """Return the scopes of ``op`` that may be layers, joined by ``/``.

    An op of the backward pass has the layer of the op that it belongs to. What is in no scope is outside of
    layers.
    """
    scopes = [part for part in op.split("/")[:-1] if part and not _AROUND.fullmatch(part)]
    if "gradient_tape" in op and len(scopes) > 1 and _is_op(scopes[-1]):
        scopes.pop()  # gradient_tape/model/conv/Conv2D/Conv2DBackpropInput: the scope is the op of the pass
    return "/".join(scopes) or NO_LAYER


def _is_op(scope: str) -> bool:
    return scope[:1].isupper() or scope.rstrip("_0123456789") in ("convolution", "add", "mul", "sub", "mean")
