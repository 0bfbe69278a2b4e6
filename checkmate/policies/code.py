"""The code that a user pastes for a policy, in the words of the framework that runs the step."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from checkmate.policies.segment import Segment
from checkmate.policies.segments import Segments
from checkmate.runner import TENSORFLOW, TORCH

_KERAS = '''import keras
import tensorflow as tf

# Each part of a functional model begins at the layer named, and is computed again in the backward pass: only
# its inputs stay in memory, and what the layers listed with it make. None: all of the part stays.
PARTS = {parts}


@tf.custom_gradient
def instead(again, known, read):
    """Return `known`, with the gradients of `again`, which is the same and need not be computed."""
    with tf.control_dependencies([read]):  # what is behind it shall not be computed again before its turn
        return tf.identity(known), lambda gradient: (gradient, None, None)


class Kept(keras.layers.Layer):
    """A layer in a part whose output stays."""

    def __init__(self, layer):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.known = None

    def call(self, inputs, *args, **kwargs):
        output = self.layer(inputs, *args, **kwargs)
        if self.known is None:  # the forward pass
            self.known = output
            return output
        return instead(output, self.known, keras.tree.flatten(inputs)[0])


@tf.custom_gradient
def moments(x, mean, variance):
    """Return the mean and the variance of `x`, which are known, with the gradients of computing them."""

    def gradients(to_mean, to_variance):
        share = tf.cast(tf.size(mean), x.dtype) / tf.cast(tf.size(x), x.dtype)
        with tf.control_dependencies([to_mean, to_variance]):  # else the difference is there long before
            return share * (to_mean + 2.0 * (x - mean) * to_variance), None, None

    return (tf.identity(mean), tf.identity(variance)), gradients


class Normalization(keras.layers.Layer):
    """A batch normalization in a part: a batch's statistics stay, and its averages move once a step."""

    def __init__(self, layer):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.known = None

    def call(self, inputs, training=None, mask=None):
        layer, ops = self.layer, keras.ops
        usual = mask is None and not layer.synchronized and not getattr(layer, "renorm", False)
        if not (training and layer.trainable and usual):
            return layer(inputs, training=training, mask=mask)
        x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        axis = layer.axis % len(x.shape)
        if self.known is None:  # the forward pass
            self.known = ops.moments(x, [i for i in range(len(x.shape)) if i != axis], keepdims=True)
            mean, variance = (ops.reshape(each, [-1]) for each in self.known)
            for average, new in ((layer.moving_mean, mean), (layer.moving_variance, variance)):
                average.assign(average * layer.momentum + new * (1.0 - layer.momentum))
        mean, variance = (ops.reshape(each, [-1]) for each in moments(x, *self.known))
        offset, scale = layer.beta if layer.center else None, layer.gamma if layer.scale else None
        normal = ops.batch_normalization(x, mean, variance, layer.axis, offset, scale, layer.epsilon)
        return ops.cast(normal, self.compute_dtype)


class ComputedAgain(keras.layers.Layer):
    def __init__(self, part, kept):
        super().__init__()
        self.keeping = []

        def use(layer, *args, **kwargs):
            normal = isinstance(layer, keras.layers.BatchNormalization)
            if normal or layer.name in kept:
                layer = Normalization(layer) if normal else Kept(layer)
                self.keeping.append(layer)
            return layer(*args, **kwargs)

        self.part = keras.models.clone_model(part, clone_function=lambda layer: layer, call_function=use)

    def call(self, inputs, training=None):
        for each in self.keeping:
            each.known = None
        return keras.remat(lambda *tensors: self.part(list(tensors), training=training))(*inputs)


def with_policy(model):
    """Return `model` in parts, with the same weights: compile and train what is returned, save `model`."""
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
        kept = PARTS.get(part[0].name)
        run = run if kept is None else ComputedAgain(run, kept)
        made.update(zip(made_here, keras.tree.flatten(run([made[key] for key in read]))))
    return keras.Model(model.inputs, keras.tree.map_structure(lambda t: made[id(t)], model.output))


given, model = model, with_policy(model)
'''

_TORCH = '''from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

# Of each of these modules, its inputs stay in memory, and what the ops listed with it make; the rest is
# computed again in the backward pass.
MODULES = {segments}


def policy(kept, context, op, *args, **kwargs):
    stays = op.overloadpacket.__name__ in kept
    return CheckpointPolicy.MUST_SAVE if stays else CheckpointPolicy.PREFER_RECOMPUTE


@contextmanager
def averages_stay(module, again):
    """Compute again, but let the averages of batch normalizations move only in the forward pass."""
    averages = [each for part in module.modules() if isinstance(part, _BatchNorm) for each in part.buffers()]
    before = [each.clone() for each in averages]
    try:
        with again:
            yield
    finally:
        for average, value in zip(averages, before):
            average.copy_(value)


def contexts(module, kept):
    first, again = nullcontext(), nullcontext()
    if kept:
        first, again = create_selective_checkpoint_contexts(partial(policy, kept))
    return first, averages_stay(module, again)


def compute_again(module, kept):
    for part in module.modules():  # what is kept must not change
        if kept and getattr(part, "inplace", False):
            part.inplace = False
    how = {{"use_reentrant": False, "context_fn": partial(contexts, module, kept)}}
    forward = module.forward

    def run(*args, **kwargs):
        # Later changes of a list in the arguments shall not be seen.
        args, kwargs = tree_map(lambda each: each, (args, kwargs))
        return checkpoint(forward, *args, **how, **kwargs)

    module.forward = run


for name, kept in MODULES.items():
    compute_again(model.get_submodule(name), kept)
'''

_JAX = '''import jax

# Of what runs in each of these scopes, the inputs stay in memory, and what the primitives listed with it
# make; the rest is computed again in the backward pass. On a CPU this saves nothing: XLA merges there what
# is computed again with what was computed first.
SCOPES = {segments}


def scoped(name, function):
    """Use it where the model has `with jax.named_scope(name): y = function(...)`."""
    function = jax.named_scope(name)(function)
    if name not in SCOPES:
        return function
    return jax.checkpoint(function, policy=lambda primitive, *_, **__: primitive.name in SCOPES[name])
'''


def code_of(segments: Segments, chosen: Collection[Segment]) -> str:
    """Return the code for the ``chosen`` segments; empty if there are none."""
    if not chosen:
        return ""
    backend = segments.graph.runner.backend
    if backend == TENSORFLOW:
        return keras_code(_parts(segments, chosen))
    named = _listed({segment.name: segment.kept for segment in chosen})
    return (_TORCH if backend == TORCH else _JAX).format(segments=named)


def keras_code(parts: Mapping[str, Collection[str] | None]) -> str:
    """Return the code for a functional Keras model. ``parts``: by the layer that begins each part, in order,
    the layers in it that are not computed again; None where the whole part is not.
    """
    return _KERAS.format(parts=_listed(parts))


def _parts(segments: Segments, chosen: Collection[Segment]) -> dict[str, tuple[str, ...] | None]:
    parts: dict[str, tuple[str, ...] | None] = {}
    for segment in chosen:
        parts[segments.units[segment.first]] = segment.kept
        if segment.end < len(segments.units):
            parts[segments.units[segment.end]] = None
    return parts


def _listed(named: Mapping[str, Collection[str] | None]) -> str:
    lines = (
        f"    {json.dumps(name)}: {None if kept is None else json.dumps(list(kept))},"
        for name, kept in named.items()
    )
    return "\n".join(["{", *lines, "}"])
