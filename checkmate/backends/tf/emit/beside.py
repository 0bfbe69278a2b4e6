"""What an export holds beside its scheduled step.

Its variables by name, prediction, evaluation, and a plain step for a batch of fewer examples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.emit.copies import EmittedOutputs
from checkmate.backends.tf.models.batch import distinct_names
from checkmate.backends.tf.models.model import LoadedModel, ModelLike
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.trace import step_function, tracing_once
from checkmate.models.arrays import packed
from checkmate.models.error_text import first_line

Body = Callable[..., dict[str, tf.Tensor]]


def named_variables(loaded: LoadedModel) -> dict[str, dict[str, tf.Variable]]:
    """Return Keras's variables in Keras's order: ``weights``, ``seeds`` and ``metrics`` by path, those of the
    ``optimizer`` by name. Of a step that is a function, its layers'. Keras's own step has no metrics.
    """
    model = loaded.model
    parts = model.layers if isinstance(model, ModelLike) else (model,)
    weights = [weight for part in parts for weight in part.weights]
    known = set(map(id, weights))
    seeds = [each for part in parts for each in part.variables if id(each) not in known]
    optimizer = getattr(model, "optimizer", None)
    slots = [] if optimizer is None else optimizer.variables
    metrics = [] if loaded.own is None else [each for part in parts for each in part.metrics_variables]
    return {
        "weights": _named(weights, [weight.path for weight in weights]),
        "seeds": _named(seeds, [seed.path for seed in seeds]),
        "optimizer": _named(slots, [slot.name for slot in slots]),
        "metrics": _named(metrics, [metric.path for metric in metrics]),
    }


def _named(variables: Sequence[Any], names: Sequence[str]) -> dict[str, tf.Variable]:
    values = (variable.value for variable in variables)
    return dict(zip(distinct_names(dict(enumerate(names))), values, strict=True))


def in_order(variables: Iterable[Any], named: dict[str, dict[str, tf.Variable]]) -> list[Any]:
    """Return ``variables`` in the order of ``named``, others last. TensorFlow's own order is arbitrary, and
    the order decides the addresses of the variables when a SavedModel is loaded."""
    known = [id(variable) for group in named.values() for variable in group.values()]
    position = {each: number for number, each in enumerate(known)}
    return sorted(variables, key=lambda variable: position.get(id(variable), len(known)))


def tables_of(functions: Iterable[Any]) -> list[Any]:
    """Return the lookup tables that concrete ``functions`` read. TensorFlow knows their handles alone."""
    captures = (external for function in functions for external, _ in function.graph.captures)
    handles = [external for external in captures if external.dtype == tf.resource]
    return private.owners_of(handles, tf.saved_model.experimental.TrackableResource)


def inference(loaded: LoadedModel, specs: Sequence[tf.TensorSpec]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return ``predict`` and ``evaluate``, if the model has them, for batches of any size if it allows; and a
    sentence on each that cannot be traced.

    ``predict`` takes the inputs alone, and returns the outputs by name. ``evaluate`` takes tensors like
    ``specs``, and returns what Keras's ``test_on_batch`` does, for this batch by itself.
    """
    model = loaded.model
    if isinstance(model, ModelLike):
        return {}, ()
    structure, pack = loaded.inputs.structure, loaded.pack
    if loaded.own is not None:
        structure = keras.utils.unpack_x_y_sample_weight(loaded.own.layout.structure)[0]
        pack = loaded.own.layout.pack
    count = sum(number >= 0 for number in keras.tree.flatten(structure))

    def predict(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = model.predict_step((packed(structure, tensors),))
        return by_output(model, tf.nest.flatten(outputs))

    def evaluate(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        # What the metrics sum up stays in the scope.
        values = [(variable, variable.value) for variable in model.variables]
        with keras.StatelessScope(values, collect_losses=True):
            for metric in model.metrics:
                metric.reset_state()
            logs = model.test_step(pack(tensors))
            return {str(name): tf.convert_to_tensor(value) for name, value in logs.items()}

    opened = any_batch(specs, loaded.batch_size)
    tried = {
        "predict": ((predict, opened[:count]), (predict, specs[:count])),
        "evaluate": ((evaluate, opened), (evaluate, specs)),
    }
    found, left_out = dict[str, Any](), list[str]()
    for name, bodies in tried.items():
        try:
            found[name] = _traced(*bodies)
        except Exception as error:  # it is the user's code, which may raise what it likes
            left_out.append(f"the export has no {name}, which could not be traced: {first_line(error)}")
    return found, tuple(left_out)


def _traced(*tried: tuple[Body, Sequence[tf.TensorSpec]]) -> Any:
    """Return the first body that can be traced for its tensors, as a function; else raise the last error."""
    (body, signature), *others = tried
    function = tf.function(private.letting_go(tracing_once(body)), input_signature=signature, autograph=False)
    try:
        function.get_concrete_function()
    except Exception:  # it is the user's code, which may raise what it likes
        if not others:
            raise
        return _traced(*others)
    return function


def any_batch(specs: Sequence[tf.TensorSpec], size: int) -> list[tf.TensorSpec]:
    return [
        tf.TensorSpec([None, *spec.shape[1:]], spec.dtype, spec.name)
        if spec.shape.rank and spec.shape[0] == size
        else spec
        for spec in specs
    ]


def by_output(model: Any, flat: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
    names = output_names(model)
    if len(names) != len(flat):
        names = [f"output_{number}" for number in range(len(flat))]
    return dict(zip(names, flat, strict=True))


def output_names(model: Any) -> list[str]:
    """One name per model output; none of them is ``loss``."""
    count = len(model.outputs) if getattr(model, "outputs", None) else 1
    named = [str(name) for name in getattr(model, "output_names", None) or []]
    if len(named) != count or len(set(named)) != count:
        named = [f"output_{i}" for i in range(count)]
    return [f"output_{name}" if name == "loss" else name for name in named]


def plain_step(folded: FoldedStep) -> Callable[..., EmittedOutputs]:
    """Return the step as Keras or the user wrote it, with what the emitted one returns."""
    loaded, own = folded.traced.loaded, folded.traced.unplanned

    def step(*tensors: tf.Tensor) -> EmittedOutputs:
        if own is None:
            loss, predictions, _ = step_function(loaded)(*tensors)
            return EmittedOutputs(loss, tuple(predictions), ())
        assert loaded.own is not None
        leaves = tf.nest.flatten(loaded.own.call(*tensors), expand_composites=True)
        found = tuple(tf.convert_to_tensor(leaf) for leaf in leaves if leaf is not None)
        return EmittedOutputs(tf.zeros(()) if own.loss is None else found[own.loss], found, ())

    return step


def smaller_batches(plain: Body, specs: Sequence[tf.TensorSpec], size: int, *, compiled: bool) -> Any:
    """Return the ``plain`` step as a function of up to ``size`` examples. If it cannot be traced with an open
    batch, the function raises an error for fewer examples. None: the step has no batch.

    ``compiled``: XLA compiles ``plain`` when it is called.
    """
    opened = any_batch(specs, size)
    sized = next((n for n, spec in enumerate(opened) if spec.shape != specs[n].shape), None)
    if sized is None:
        return None
    called = tf.function(plain, autograph=False, jit_compile=True) if compiled else plain

    def fewer(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        message = f"this step was exported for {size} examples; it takes fewer, and no more"
        given = tf.shape(tensors[sized])[0]
        with tf.control_dependencies([tf.debugging.assert_less_equal(given, size, message)]):
            return called(*tensors)

    def refused(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        message = f"this step takes {size} examples at a time, as it was exported"
        given = tf.shape(tensors[sized])[0]
        with tf.control_dependencies([tf.debugging.assert_equal(given, size, message)]):
            return {"loss": tf.zeros(())}

    return _traced((fewer, opened), (refused, opened)).get_concrete_function()


def with_casts(concrete: Any, specs: Sequence[tf.TensorSpec]) -> list[Any]:
    """Return ``concrete``, a function of tensors like ``specs``, and variants that take NumPy's default types
    (float64, int64) and cast them."""
    found = {tuple(spec.dtype for spec in specs): concrete}
    for numpys in ({"float"}, {"int"}, {"float", "int"}):
        dtypes = tuple(_numpys(spec.dtype, numpys) for spec in specs)
        signature = [
            tf.TensorSpec(spec.shape, dtype, spec.name) for spec, dtype in zip(specs, dtypes, strict=True)
        ]

        def cast(*tensors: tf.Tensor) -> Any:
            return concrete(*(tf.cast(each, spec.dtype) for each, spec in zip(tensors, specs, strict=True)))

        if dtypes not in found:
            function = tf.function(cast, input_signature=signature, autograph=False)
            found[dtypes] = function.get_concrete_function()
    return list(found.values())


def _numpys(dtype: tf.DType, kinds: Collection[str]) -> tf.DType:
    if dtype.is_floating:
        return tf.float64 if "float" in kinds else dtype
    return tf.int64 if dtype.is_integer and "int" in kinds else dtype
