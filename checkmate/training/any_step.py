"""Plan and run a step that is not Keras's own: a ``train_step`` of a model, or any function of tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.live.keras_step import require_graphs
from checkmate.backends.tf.live.trace import LiveStep, folded_here
from checkmate.backends.tf.models.batch import BatchLayout, flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.models.own_step import as_function
from checkmate.backends.tf.trace.of_function import Returned, fixed_bytes, trace_function
from checkmate.backends.tf.trace.replica import (
    as_one_replica,
    number_of_replicas,
    require_one_process,
    same_on_all,
    this_replica,
)
from checkmate.backends.tf.trace.seen_sizes import with_seen_sizes
from checkmate.catalog.keras_2 import require_keras_3
from checkmate.errors import JitCompiledError, UsageError
from checkmate.models.user_code import explained
from checkmate.planning.plan_request import PlanRequest
from checkmate.request import Target
from checkmate.training.compiled_steps import CompiledSteps
from checkmate.training.functions import Functions
from checkmate.training.plan import StepSubject
from checkmate.training.planner import Planner
from checkmate.training.watch import reading_of, went_over
from checkmate.training.wording import not_planned


@dataclass(frozen=True, eq=False)
class AnyStep(LiveStep):
    """A step of the user's own for one layout of its arguments. ``strategy``: on whose replicas it runs;
    None: on one device.
    """

    structure: Returned
    strategy: Any = None

    @property
    def distributed(self) -> bool:
        return number_of_replicas(self.strategy) > 1

    def plain(self) -> Callable[..., Any]:
        function = self.folded.traced.as_traced
        return lambda *arguments: function(*arguments)

    def returned(self, loss: tf.Tensor, flat: Sequence[tf.Tensor]) -> Any:
        return self.structure.pack(flat)


def any_step(
    body: Callable[..., Any],
    subject: Any,
    layout: BatchLayout,
    tensors: Sequence[tf.Tensor] = (),
    *,
    strategy: Any = None,
    for_xla: bool = False,
) -> AnyStep:
    """Trace and fold ``body``, a function of the flat tensors of ``layout``; ``tensors`` are as for
    ``StepSubject.trace``.

    ``subject``: the Keras model whose step it is, or a stand-in with a name. ``strategy``: on whose replicas
    it runs; it is then traced as the first of them sees it.

    Raises:
        TraceError, JitCompiledError: it cannot be traced, or not be tried without lasting effects.
        DynamicShapeError: the size of a tensor is not known. OnlySmallTensorsError: nothing is worth
        scheduling.
    """
    require_graphs()
    require_one_process(strategy, subject.name)

    def on_one(*tensors: tf.Tensor) -> Any:
        with as_one_replica(strategy, subject.name):
            return body(*tensors)

    traced, returned = trace_function(
        on_one, layout.specs, subject, batch_size=layout.batch_size, for_xla=for_xla
    )
    if tensors and strategy is None:
        traced = with_seen_sizes(traced, lambda: tensors)
    folded = folded_here(traced, fixed_bytes(traced, len(layout.specs)))
    return AnyStep(str(subject.name), layout, folded, returned, strategy)


def own_train_step(
    model: Any, layout: BatchLayout, tensors: Sequence[tf.Tensor] = (), *, for_xla: bool = False
) -> AnyStep:
    """Trace and fold the ``train_step`` that ``model`` brings along; errors are those of ``any_step``."""
    strategy = model.distribute_strategy

    def body(*tensors: tf.Tensor) -> Any:
        return model.train_step(layout.pack(tensors))

    several = strategy if number_of_replicas(strategy) > 1 else None
    return any_step(body, model, layout, tensors, strategy=several, for_xla=for_xla)


_PREPARE = "call step.prepare(...) on such arguments first, outside of the function"


class ScheduledFunction(StepSubject):
    """Run a function of tensors by schedules that keep the budget; it is called like the function itself.

    Each layout of the arguments has a plan. Tensors and arrays may change from call to call; other arguments
    (numbers, texts, objects) are constants of their layout, as ``tf.function`` takes them. Called while a
    ``tf.function`` is traced, or inside a strategy's ``run``, it needs known shapes and a plan made before
    with ``prepare`` (inside the strategy's ``scope``, for one replica's arguments).
    """

    def __init__(self, function: Any, request: PlanRequest) -> None:
        require_keras_3(function)
        if not callable(function) or hasattr(function, "train_step"):
            hint = "pass the function itself, not what it returns"
            if hasattr(function, "train_step"):
                hint = "for a Keras model call checkmate.rematerialize"
            raise UsageError(f"{type(function).__name__} is not a function of tensors", hint=hint)
        if inspect.isgeneratorfunction(getattr(function, "python_function", function)):
            raise UsageError(
                f"{function.__name__!r} is a generator, so calling it runs no step",
                hint="return the loss instead of yielding it",
            )
        if isinstance(function, tf.types.experimental.ConcreteFunction):
            raise UsageError(
                "a concrete function is traced for one layout already",
                hint="pass the tf.function that it came from",
            )
        self.function = as_function(function)
        self.__name__ = str(getattr(function, "__name__", "step"))
        self.__doc__ = getattr(function, "__doc__", None)
        for_xla = request.target is Target.XLA or private.is_jit_compiled(self.function)
        self.compiled = CompiledSteps(self, request) if for_xla else None
        self.planner = Planner(self, request)
        self._functions = Functions(self.planner)

    def prepare(self, *arguments: Any, **named: Any) -> None:
        """Make the plan for arguments like these; leave all variables as they are.

        Raises:
            NotCompiledError: XLA is to compile the step, and cannot. Others as
            ``checkmate.rematerialize_function``.
        """
        layout, tensors = flatten_arguments((arguments, named))
        if self.compiled is not None:
            self.compiled.plan(layout)
        else:
            self.planner.plan(layout, tensors)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the step once.

        Raises:
            UsageError: called while a function is traced, without a plan. Others as ``prepare``.
        """
        layout, tensors = flatten_arguments((arguments, named))
        if self.compiled is not None:
            return self.compiled.call(layout, tensors, _PREPARE)
        if not tf.executing_eagerly():
            return self._emit(layout, tensors)
        plan = self.planner.plan(layout, tensors, at_once=True)
        before = reading_of(self.planner, layout)
        if plan.schedule is None:
            found = self.function(*arguments, **named)
        elif plan.ready is not None:
            found = plan.ready.step.returned(*plan.ready.run(tensors))
        else:
            found = self._functions.run([layout], lambda *given: self._emit(layout, given), *tensors)
        del plan  # or the constants of its function would count as other allocations
        if went_over(self.planner, [layout], before):
            self.planner.plan_for_larger(layout, tensors)
        return found

    def _emit(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> Any:
        plan = self.planner.planned(layout)
        if plan is None:
            raise not_planned(layout, _PREPARE)
        # Replicas exchange gradients inside their schedules, so all must use the same plan.
        apart = this_replica() is not None and not same_on_all(plan)
        if plan.step is None or plan.schedule is None or apart:
            return self.plainly(layout, tensors)
        return plan.step.run(plan.schedule, tensors)[0]

    def plainly(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> Any:
        arguments, named = layout.pack(tensors)
        return self.function(*arguments, **named)

    def trace(
        self, layout: BatchLayout, tensors: Sequence[tf.Tensor] = (), *, for_xla: bool = False
    ) -> AnyStep:
        arguments, named = layout.place(layout.parts)
        strategy = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
        with explained(self.__name__), as_one_replica(strategy, self.__name__):
            # Its first call may make variables. Made inside another trace, they would put it all in a branch.
            self.function.get_concrete_function(*arguments, **named)

        if for_xla and number_of_replicas(strategy) > 1:
            raise JitCompiledError(
                f"{self.__name__!r} is for XLA, and a step on replicas is not scheduled for it",
                hint="make the function with jit_compile=False, or train on one device",
            )

        def body(*tensors: tf.Tensor) -> Any:
            return self.plainly(layout, tensors)

        subject = ModelLike(self.__name__)
        return any_step(body, subject, layout, tensors, strategy=strategy, for_xla=for_xla)
