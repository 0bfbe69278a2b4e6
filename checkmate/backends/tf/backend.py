from __future__ import annotations

from dataclasses import replace

from checkmate.backends.protocol import CostsWanted, StepSolver
from checkmate.backends.tf.costs.fresh import with_costs
from checkmate.backends.tf.costs.known import CostOptions
from checkmate.backends.tf.costs.profile import estimated_graph
from checkmate.backends.tf.executor_step import ExecutorStep, executor_step
from checkmate.backends.tf.tasks import expect_tasks
from checkmate.backends.tf.tf_step import retraced_step, traced_step
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.backends.tf.xla.op_costs import costs_for_xla
from checkmate.backends.tf.xla_step import XlaStep
from checkmate.errors import StepTooLargeError
from checkmate.ir import Graph, SolveResult
from checkmate.machine.cost_store import CostStore, default_path
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.units import Budget


class TensorflowBackend:
    attempt_s = 20.0
    counted = False

    def profile(
        self, request: ModelRequest, costs: CostsWanted, *, report: Report, cancelled: Cancelled
    ) -> Graph:
        """Return the graph of a training step, with costs. They are analytic where the plain step does not
        fit the memory there is; the graph's notes say so.
        """
        options = _options(costs)
        folded = trace_request(request, report=report, cancelled=cancelled)
        try:
            return with_costs(folded, options, request=request, report=report, cancelled=cancelled).graph
        except StepTooLargeError as error:
            return estimated_graph(folded, error)

    def step(
        self, request: ModelRequest, budget: Budget, costs: CostsWanted, solver: StepSolver
    ) -> ExecutorStep | XlaStep:
        """Return the step that ``request`` names, with costs. A step for XLA gets them without running it."""
        options = _options(costs)
        expect_tasks()
        traced = traced_step(request, solver.report, solver.cancelled)
        if traced.for_xla:
            folded = replace(traced.folded, graph=costs_for_xla(traced.folded))
            return XlaStep(replace(traced, folded=folded), solver.report, solver.cancelled)
        return executor_step(traced, budget, options, solver)

    def step_of_file(
        self, request: ModelRequest, graph: Graph, result: SolveResult, report: Report, cancelled: Cancelled
    ) -> ExecutorStep | XlaStep:
        """Return the step of a graph of a file, with a schedule for it. A graph of another device gets the
        memory rules of this one's kernels; the report's notes say so.
        """
        traced = retraced_step(request, graph, result, report, cancelled)
        step = XlaStep if traced.for_xla else ExecutorStep
        return step(traced, report, cancelled)


def _options(costs: CostsWanted) -> CostOptions:
    store = CostStore(default_path())
    return CostOptions(costs.kind, store, refresh=costs.refresh, estimated=costs.estimated)
