"""Have false certificates checked, by the reader of files and by the program that needs Python alone."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from checkmate import planning
from checkmate.certificate.verify import InvalidCertificateError, verify
from checkmate.errors import CheckmateError
from checkmate.formats.graph import graph_to_json
from checkmate.formats.schedule import read_certificate
from checkmate.ir import Graph
from tests.certificates.graphs import KINDS
from tests.certificates.mutate import FIELDS
from tests.certificates.truth import LONG, Truth, budgets

_ATTEMPTS = 40  # mutations for each false certificate, at most
_DIGEST = 0.3  # digests are drawn less often: every other one is caught
_RAISED = 0.6  # the share of mutations whose claim is raised, too


@dataclass
class Caught:
    """What was tried. ``false``: by the field that was changed; ``true``: those whose claim still holds."""

    false: Counter[str] = field(default_factory=Counter)
    true: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def add(self, more: Caught) -> None:
        self.false += more.false
        self.true += more.true
        self.broken += more.broken


@dataclass(frozen=True, eq=False)
class Base:
    graph: Graph
    content: dict[str, Any]
    truth: Truth
    certificates: list[dict[str, Any]]


def base_of(graph: Graph, eighths: tuple[int, ...]) -> Base:
    truth, made = Truth(graph), []
    for budget in budgets(graph, eighths):
        truth.learn(budget)
        found = planning.certify(graph, budget, seconds=LONG)
        if found is not None:
            made.append({"format": "checkmate-certificate", "version": 1, **found.data})
    for certificate in made:  # what is certified must be true before it is changed
        if not truth.is_true(certificate):
            truth.decide(certificate)
        assert truth.is_true(certificate) and not truth.is_false(certificate), certificate
    return Base(graph, json.loads(json.dumps(graph_to_json(graph))), truth, made)


def mutated(base: Base, dice: Random) -> tuple[str, dict[str, Any]]:
    """Return a changed certificate, and which field was changed first."""
    found = copy.deepcopy(dice.choice(base.certificates))
    names = [dice.choice([name for name in FIELDS if name != "digest" or dice.random() < _DIGEST])]
    if dice.random() < _RAISED:
        names.insert(dice.randrange(2), dice.choice(["claim", "bound", "budget"]))
    changed = next((name for name in names if name not in ("claim", "bound", "budget")), names[0])
    for name in names:
        try:
            FIELDS[name](found, dice)
        except (LookupError, TypeError, ValueError, AttributeError):
            break  # the first change left nothing for the second one
    return changed, found


def accepted(base: Base, certificate: dict[str, Any], folder: Path) -> tuple[bool, bool, str]:
    """Return whether it is accepted, first by the reader, then by the checker alone, and what broke."""
    path = folder / "c.json"
    path.write_text(json.dumps(certificate), encoding="utf-8")
    read = alone = True
    try:
        planning.check_certificate(base.graph, read_certificate(path, base.graph))
    except CheckmateError as error:
        read = False
        if len(str(error)) >= 300 or "\n" in str(error):
            return read, alone, f"the sentence is long: {str(error)[:400]}"
    except Exception as error:
        return read, alone, f"the reader broke: {error!r}"
    try:
        verify(base.content, json.loads(path.read_text(encoding="utf-8")))
    except InvalidCertificateError:
        alone = False
    except Exception as error:
        return read, alone, f"the checker broke: {error!r}"
    return read, alone, ""


def attack(base: Base, count: int, seed: int) -> Caught:
    """Have ``count`` false certificates checked. True ones that come up on the way are checked, too."""
    dice, caught = Random(seed), Caught()
    with tempfile.TemporaryDirectory() as name:
        for _ in range(_ATTEMPTS * count):
            if sum(caught.false.values()) >= count:
                break
            what, certificate = mutated(base, dice)
            read, alone, broken = accepted(base, certificate, Path(name))
            if (read or alone) and not base.truth.is_true(certificate):
                base.truth.decide(certificate)
            if base.truth.is_false(certificate):
                caught.false[what] += 1
                if read or alone:
                    broken = "a false certificate is accepted"
            elif read and not base.truth.is_true(certificate):
                broken = "it is accepted, and not known to be true"
            else:
                caught.true["accepted" if read else "refused"] += 1
            if broken:
                caught.broken.append(f"{base.graph.name}, {what}: {broken}: {json.dumps(certificate)[:600]}")
    return caught


def attack_kind(kind: str, count: int, graphs: int, eighths: tuple[int, ...] = (0, 1, 2, 3, 5)) -> Caught:
    caught = Caught()
    for seed in range(graphs):
        share = count * (seed + 1) // graphs - count * seed // graphs
        caught.add(attack(base_of(KINDS[kind](seed), eighths), share, seed))
    return caught
