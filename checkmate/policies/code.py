"""The code that a user pastes for a policy, in the words of the framework that runs the step."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from checkmate.ir import Phase
from checkmate.policies.segments import Segment, Segments, is_product
from checkmate.runner import TENSORFLOW, TORCH

_KERAS = '''import keras

# Each part of a functional model begins at the layer named. True: only its inputs stay in memory, and it is
# computed again in the backward pass. A batch normalization in it then updates its averages twice a step.
PARTS = {parts}


class ComputedAgain(keras.layers.Layer):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def call(self, inputs, training=None):
        return keras.remat(lambda *tensors: self.part(list(tensors), training=training))(*inputs)


def with_policy(model):
    """Return `model` in parts, with the same weights; compile and train what is returned."""
    operations = [each for each in model.operations if not isinstance(each, keras.layers.InputLayer)]
    missing = PARTS.keys() - {{each.name for each in operations}}
    if missing:  # keras.backend.clear_session() lets Keras number layers from the start
        raise ValueError(f"{{model.name}} has no layers {{sorted(missing)}}")
    parts = []
    for operation in operations:
        if not parts or operation.name in PARTS:
            parts.append([])
        parts[-1].append(operation)
    made = {{id(tensor): tensor for tensor in model.inputs}}
    for number, part in enumerate(parts):
        own = {{id(t): t for each in part for t in keras.tree.flatten(each.output)}}
        read = {{id(t): t for each in part for t in keras.tree.flatten(each.input) if id(t) not in own}}
        later = [each.input for other in parts[number + 1 :] for each in other] + [model.outputs]
        later = {{id(tensor) for tensor in keras.tree.flatten(later)}}
        # TensorFlow computes a part again once it has the gradient of the part's first output. That of the
        # last one in the model comes last.
        made_here = {{key: own[key] for key in reversed(own) if key in later}}
        run = keras.Model(list(read.values()), list(made_here.values()))
        run = ComputedAgain(run) if PARTS.get(part[0].name) else run
        made.update(zip(made_here, keras.tree.flatten(run([made[key] for key in read]))))
    return keras.Model(model.inputs, keras.tree.map_structure(lambda t: made[id(t)], model.output))


model = with_policy(model)
'''

_TORCH = """from functools import partial

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

# Only the inputs of these modules stay in memory, and with True what PRODUCTS make; the rest is computed
# again in the backward pass. A batch normalization in it then updates its averages twice a step.
MODULES = {segments}
PRODUCTS = [{products}]


def compute_again(module, keep):
    forward, how = module.forward, {{"use_reentrant": False}}
    if keep:
        how["context_fn"] = partial(create_selective_checkpoint_contexts, PRODUCTS)
    module.forward = lambda *args, **kwargs: checkpoint(forward, *args, **how, **kwargs)


for name, keep in MODULES.items():
    compute_again(model.get_submodule(name), keep)
"""

_JAX = '''import jax

# Only the inputs of what runs in these scopes stay in memory, and with True what products make; the rest is
# computed again in the backward pass. On a CPU this saves nothing: XLA merges there what is computed again
# with what was computed first.
SCOPES = {segments}


def products(primitive, *_, **__):
    return primitive.name in ("dot_general", "conv_general_dilated")


def scoped(name, function):
    """Use it where the model has `with jax.named_scope(name): y = function(...)`."""
    function = jax.named_scope(name)(function)
    if name not in SCOPES:
        return function
    return jax.checkpoint(function, policy=products if SCOPES[name] else None)
'''


def code_of(segments: Segments, chosen: Collection[Segment]) -> str:
    """Return the code for the ``chosen`` segments; empty if there are none."""
    if not chosen:
        return ""
    named = _listed({segment.name: segment.products for segment in chosen})
    if segments.graph.runner.backend == TENSORFLOW:
        return keras_code(_parts(segments, chosen))
    if segments.graph.runner.backend == TORCH:
        kinds = sorted(
            {op.type for op in segments.graph.ops if is_product(op.type) and op.phase is Phase.FORWARD}
        )
        products = ", ".join(f"torch.ops.aten.{kind}.default" for kind in kinds)
        return _TORCH.format(segments=named, products=products)
    return _JAX.format(segments=named)


def keras_code(parts: Mapping[str, bool]) -> str:
    """Return the code for a functional Keras model. ``parts``: by the layer that begins each part, in order,
    whether it is computed again.
    """
    return _KERAS.format(parts=_listed(parts))


def _parts(segments: Segments, chosen: Collection[Segment]) -> dict[str, bool]:
    """By the layer that begins each part, whether it is computed again."""
    parts: dict[str, bool] = {}
    for segment in chosen:
        parts[segments.units[segment.first]] = True
        if segment.end < len(segments.units):
            parts[segments.units[segment.end]] = False
    return parts


def _listed(named: Mapping[str, bool]) -> str:
    return "\n".join(["{", *(f'    "{name}": {each},' for name, each in named.items()), "}"])
