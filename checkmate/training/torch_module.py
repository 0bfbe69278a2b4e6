"""``backend`` and ``rematerialize``: PyTorch modules whose training steps keep a memory budget.

>>> model = torch.compile(model, backend=checkmate.torch.backend(budget="60%"), dynamic=False)
>>> model = checkmate.torch.rematerialize(model, "60%")  # the same
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import fx

from checkmate.arguments import BudgetLike, budget_of, on_miss_of
from checkmate.backends.torch.dynamo import backend_by, joint_of
from checkmate.backends.torch.emission import Halves, emitted
from checkmate.backends.torch.graph import Compiler, region_of
from checkmate.backends.torch.private import OptimizedModule, tree_leaves
from checkmate.errors import CheckmateError, UsageError
from checkmate.fallback import planned, unplanned
from checkmate.machine.cost_store import plans_folder
from checkmate.machine.plan_store import PlanStore
from checkmate.planning.plan_request import PlanRequest, training_solver
from checkmate.request import OnMiss
from checkmate.solvers.problem import SolveOptions
from checkmate.training.torch_planner import RegionPlan, planned_region

Module = TypeVar("Module", bound=torch.nn.Module)
_ATTEMPT_S = 5.0  # there are several solves


class Backend:
    """A backend of ``torch.compile``. Each region and each layout of its inputs has a plan, made before it
    first runs; ``plans`` are those that were made.
    """

    def __init__(self, request: PlanRequest, compiler: Compiler) -> None:
        self._request, self._compiler = request, compiler
        self._compiled = backend_by(self._halves, compiler)
        self.plans: list[RegionPlan] = []
        self._told: list[str] = []

    def __reduce__(self) -> tuple[type[Backend], tuple[PlanRequest, Compiler]]:
        # Compiled modules are copied and saved with it; a copy plans anew.
        return Backend, (self._request, self._compiler)

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        for name in unused:
            self._tell(f"torch.compile({name}=…) is for PyTorch's own backends, and is not used here")
        return self._compiled(module, inputs)

    def _halves(self, module: fx.GraphModule, outputs: int, inputs: Sequence[Any]) -> Halves | None:
        def make() -> RegionPlan | None:
            region = replace(region_of(joint_of(module, outputs, inputs)), compiler=self._compiler)
            with self._request.progress() as report:
                return planned_region(region, inputs, self._request, report, self.plans)

        plan = planned(make, self._as_before, self._request.on_miss)
        if plan is None:
            return None
        self.plans.append(plan)
        self._tell(plan.sentence)
        return emitted(plan.region, plan.schedule)

    def name_what_is_not_traced(self, model: torch.nn.Module) -> None:
        """Say which layers ``torch.compile`` leaves out, together with the ``forward`` that calls them."""
        found = {name: each for name, each in model.named_modules() if isinstance(each, torch.nn.RNNBase)}
        if found and not torch._dynamo.config.allow_rnn:
            name, first = next(iter(found.items()))
            layer, where = f"nn.{type(first).__name__}", f" ({name})" if name else ""
            lost = any(each.dropout for each in found.values())  # tracing loses it (PyTorch 2.13)
            help_ = "" if lost else "; torch._dynamo.config.allow_rnn = True lets them be traced"
            self._tell(
                f"torch.compile does not trace {layer}{where}, nor the rest of the forward that calls it: "
                f"nothing is planned there{help_}"
            )

    def after_call(self, compiled: torch.nn.Module, _given: Any, output: Any) -> None:
        """After the first call with gradients, say so if no region of the module came to this backend."""
        if self._told or torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return
        if any(isinstance(each, torch.Tensor) and each.requires_grad for each in tree_leaves(output)):
            self._tell(
                f"torch.compile traced nothing of {type(compiled._orig_mod).__name__} that has gradients: "
                "nothing is planned, and it trains as before. TORCH_LOGS=graph_breaks says why"
            )

    def _tell(self, sentence: str) -> None:
        """Say a sentence once, however often its region is traced."""
        if not any(sentence.startswith(each) for each in self._told):
            self._request.tell(sentence)
        self._told.append(sentence)

    def _as_before(self, error: CheckmateError) -> None:
        self._tell(unplanned(error))


def backend(
    budget: BudgetLike = "60%",
    *,
    on_miss: OnMiss | Literal["closest", "raise"] = "closest",
    solver: str = "auto",
    options: SolveOptions | None = None,
    cache: bool = True,
    quiet: bool = False,
    compiler: Compiler = "eager",
) -> Backend:
    """Return a backend of ``torch.compile`` that keeps training steps within ``budget``.

    The budget is what a compiled region holds at most during forward and backward: parameters, inputs and
    everything that is computed. It is ``"6GiB"``, bytes, ``"60%"`` of what the plain step was measured to
    hold (the largest one so far), or ``"min"``. The optimizer's state is not counted. Plans are measured in a
    process of their own before the region first runs, beside the plain step, and their gradients are compared
    with its bits.
    ``cache``: they are kept in the user's cache folder, so that a second run starts at once.

    Where no schedule keeps the budget, the one that is least over it is used, and a sentence says by how
    much. Where a region cannot be planned, it runs as ``aot_eager`` runs it, and the sentence says why.
    ``on_miss="raise"`` raises an error instead, which PyTorch wraps in its ``BackendCompilerFailed``
    (``inner_exception``). ``options`` are for the solver, for each of several solves,
    5 s by default. ``quiet`` means no progress, and no line for each plan, on standard error.

    ``compiler``: "eager" runs the operators of a schedule one by one. "inductor" has PyTorch's own compiler
    fuse them, within each half; the plain step is compiled as well then, and recomputes nothing.

    Raises:
        UsageError: an argument cannot be read.
    """
    return Backend(
        PlanRequest(
            budget=budget_of(budget),
            solver=training_solver(solver, options, _ATTEMPT_S),
            on_miss=on_miss_of(on_miss),
            quiet=quiet,
            store=PlanStore(plans_folder()) if cache else None,
        ),
        _compiler_of(compiler),
    )


def _compiler_of(compiler: Compiler) -> Compiler:
    if compiler not in get_args(Compiler):
        raise UsageError(f"no compiler is called {compiler!r}", hint='use "eager" or "inductor"')
    return compiler


def rematerialize(model: Module, budget: BudgetLike, **options: Any) -> Module:
    """Return ``model`` compiled by ``backend(budget, **options)``; training loops stay as they are.

    Each new shape of inputs is a plan of its own (``dynamic=False``).

    Raises:
        UsageError: ``model`` is no module, or an argument cannot be read.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"{model!r} is no torch.nn.Module", hint="pass the module itself, not its output")
    if isinstance(model, OptimizedModule):
        raise UsageError("the module is compiled already", hint="pass what torch.compile was given")
    made = backend(budget, **options)
    made.name_what_is_not_traced(model)
    compiled: Module = torch.compile(model, backend=made, dynamic=False)
    compiled.register_forward_hook(made.after_call)
    return compiled
