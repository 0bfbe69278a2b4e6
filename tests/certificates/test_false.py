"""Test that no false certificate is accepted, of any kind of graph, whatever was changed.

``pytest -m long tests/certificates`` has a thousand of each kind checked.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.certificates.false import attack, attack_kind, base_of
from tests.certificates.graphs import KINDS, chain
from tests.certificates.mutate import FIELDS

FEW, MANY = 100, 1000


@pytest.mark.parametrize("kind", KINDS)
def test_one_hundred_false_certificates_of_a_kind(kind: str) -> None:
    caught = attack_kind(kind, FEW, 1, (0, 2, 4))
    assert caught.broken == []
    assert sum(caught.false.values()) == FEW


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_one_thousand_false_certificates_of_a_kind(kind: str) -> None:
    caught = attack_kind(kind, MANY, 4)
    assert caught.broken == []
    assert sum(caught.false.values()) == MANY


def test_a_checker_that_believes_claims_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    base = base_of(chain(0), (0, 4))
    monkeypatch.setattr("tests.certificates.false.verify", lambda graph, certificate: None)
    assert attack(base, 20, 0).broken


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_changed(name: str) -> None:
    changed = 0
    for seed in range(20):
        certificate = {
            "graph": "g", "graph_fingerprint": "0123abcd", "budget_bytes": 9, "claim": "cost", "cost": 5.0,
            "cuts": [1, 2],
            "proof": [{"set": ["y", 1, 0]}, {"sum": [["fits", 0, 1.5]]}, {"sum": [["end", 2.0]]}],
        }  # fmt: skip
        before = repr(certificate)
        FIELDS[name](certificate, Random(seed))
        changed += repr(certificate) != before
    assert changed >= 10
