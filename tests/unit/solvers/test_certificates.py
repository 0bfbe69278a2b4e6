"""Test certificates: what is proved is true, and false ones are refused."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from checkmate.certificate import verify as checker
from checkmate.certificate.verify import CutRows, InvalidCertificateError, verify
from checkmate.formats import write_graph
from checkmate.formats.graph import graph_to_json
from checkmate.ir import Graph, SolveStatus
from checkmate.planning import certify, keep_everything_peak, solve
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.certificates import CaseProver
from checkmate.solvers.highs import silent_highs
from checkmate.solvers.problem import SolveOptions
from tests.graphs_strategies import random_graph, training_chain
from tests.oracles import optimum

SECONDS = 20.0


def content(graph: Graph) -> dict[str, Any]:
    return json.loads(json.dumps(graph_to_json(graph)))


def budgets(graph: Graph, share: float) -> int:
    least, most = working_set_bound(graph).bytes, keep_everything_peak(graph)
    return int(least + share * (most - least))


def made(graph: Graph, budget: int) -> dict[str, Any]:
    found = certify(graph, budget, seconds=SECONDS)
    assert found is not None
    return dict(found.data)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_thread_that_has_run_highs_before_can_certify(threads: int) -> None:
    """HiGHS refuses another number of threads than its scheduler has."""
    other = silent_highs()
    other.setOptionValue("threads", threads)
    other.addConstr(other.addVariable(0, 1, -1.0) <= 0.5)
    assert "kOk" in str(other.run())
    assert certify(training_chain(8), 60, seconds=SECONDS) is not None
    assert "kOk" in str(other.run())


def test_the_checker_is_short_and_needs_python_alone() -> None:
    source = Path(checker.__file__)
    assert len(source.read_text(encoding="utf-8").splitlines()) < 200
    asked = (
        "import sys, runpy; runpy.run_path(sys.argv[1]); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('checkmate', 'numpy')])"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-c", asked, str(source)], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"


def test_the_checker_runs_by_itself(tmp_path: Path) -> None:
    chain = training_chain(8)
    budget = budgets(chain, 0.3)
    write_graph(tmp_path / "g.json.gz", chain)
    (tmp_path / "c.json").write_text(json.dumps(made(chain, budget)), encoding="utf-8")
    told = subprocess.run(
        [sys.executable, "-I", checker.__file__, str(tmp_path / "g.json.gz"), str(tmp_path / "c.json")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.startswith("no schedule costs less than ")


@pytest.fixture(scope="module")
def chain_s() -> tuple[dict[str, Any], dict[str, Any]]:
    chain = training_chain(8)
    return content(chain), made(chain, budgets(chain, 0.3))


def refusal(graph: dict[str, Any], certificate: dict[str, Any]) -> str:
    with pytest.raises(InvalidCertificateError) as caught:
        verify(graph, certificate)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("other", ["sha256:0", "", None, 0, [], {}])
def test_a_certificate_for_another_graph_is_refused(
    other: object, chain_s: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    graph, certificate = chain_s
    anonymous = {name: entry for name, entry in graph.items() if name != "fingerprint"}
    for given in (graph, anonymous):
        assert verify(given, certificate) is not None
        assert "another graph" in refusal(given, {**certificate, "graph_fingerprint": other})


def test_the_digest_is_looked_up_in_the_graph_and_not_believed(
    chain_s: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    graph, certificate = chain_s
    other = json.loads(json.dumps({**graph, "fingerprint": "sha256:stated"}))
    assert verify(other, certificate) is not None
    other["values"][3]["bytes"] += 1
    assert "another graph" in refusal(other, certificate)


def test_aliases_in_a_circle_are_refused(chain_s: tuple[dict[str, Any], dict[str, Any]]) -> None:
    graph, certificate = chain_s
    circle = json.loads(json.dumps(graph))
    circle["values"][0]["alias_of"], circle["values"][1]["alias_of"] = 1, 0
    assert "in a circle" in refusal(circle, {**certificate, "graph_fingerprint": checker.digest(circle)})


@pytest.mark.parametrize("seed", range(20))
def test_the_checker_s_digest_is_the_graph_s(seed: int) -> None:
    graph = random_graph(random.Random(seed), most_ops=12)
    assert checker.digest(content(graph)) == graph.fingerprint


@pytest.mark.parametrize("claim", ["Infeasible", "peak", "", None, 0, True, [], {}])
def test_a_claim_that_is_not_known_is_refused(
    claim: object, chain_s: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    graph, certificate = chain_s
    assert "claim" in refusal(graph, {**certificate, "claim": claim})


def test_the_checker_by_itself_refuses_with_one_sentence(
    tmp_path: Path, chain_s: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    graph, certificate = chain_s
    wrong = {"g": graph, "claim": {**certificate, "claim": "peak"}, "graph": dict(certificate)}
    wrong["graph"]["graph_fingerprint"] = "sha256:0"
    for name, data in wrong.items():
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "text").write_text("no JSON", encoding="utf-8")
    for name in ("claim", "graph", "text", "missing"):
        command = [sys.executable, "-I", checker.__file__, str(tmp_path / "g"), str(tmp_path / name)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        assert told.returncode == 1 and not told.stdout, name
        assert told.stderr.startswith("nothing is proved: ") and told.stderr.count("\n") == 1, told.stderr


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8])
def test_a_chain_s_optimum_is_certified(share: float) -> None:
    chain = training_chain(8)
    budget = budgets(chain, share)
    found = solve(chain, budget, options=SolveOptions(time_limit_s=SECONDS))
    assert found.cost is not None and found.status is SolveStatus.OPTIMAL
    assert verify(content(chain), made(chain, budget)) == pytest.approx(found.cost)


def test_a_budget_below_one_op_s_need_is_certified_infeasible() -> None:
    chain = training_chain(8)
    budget = working_set_bound(chain).bytes - 1
    certificate = made(chain, budget)
    assert verify(content(chain), certificate) is None and len(certificate["proof"]) == 1
    with pytest.raises(InvalidCertificateError):
        verify(content(chain), {**certificate, "budget_bytes": budget + 1})


@pytest.mark.parametrize("seed", range(60))
def test_nothing_false_is_certified(seed: int) -> None:
    dice = random.Random(seed)
    graph = random_graph(dice, most_ops=5)
    budget = max(0, budgets(graph, dice.choice([-0.2, 0.0, 0.2, 0.5, 1.0])))
    certificate, best = certify(graph, budget, seconds=SECONDS), optimum(graph, budget)
    assert certificate is not None
    proved = verify(content(graph), dict(certificate.data))
    if proved is None:
        assert best is None
    elif best is not None:
        assert float(proved) <= best.cost


@pytest.mark.parametrize("name", ["fits", "held", "read", "owns", "runs", "kept"])
def test_rows_have_no_negative_numbers_in_their_names(name: str) -> None:
    rows = CutRows(content(training_chain(4)), 100, [3])
    with pytest.raises(InvalidCertificateError, match="negative"):
        rows.row(name, -1, 0)


def test_a_proof_that_is_out_of_time_proves_less_and_never_more() -> None:
    chain = training_chain(12)
    budget = budgets(chain, 0.1)
    found = solve(chain, budget, options=SolveOptions(time_limit_s=SECONDS))
    assert found.cost is not None
    asked = iter(range(10**6))
    until = time.perf_counter() + SECONDS
    proof = CaseProver(content(chain), budget, [11], found.cost, until, lambda: next(asked) > 2).prove()
    assert proof is not None and proof.cost is not None and proof.cost <= found.cost
