"""Make proofs that ``checkmate.certificate.verify`` can check.

``certificate_of`` makes one for a graph and a budget.
"""
