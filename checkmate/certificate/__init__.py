"""Proofs that others can check: no schedule costs less, or none fits.

``verify`` holds the meaning of a certificate and checks one. It uses Python's own library alone, and can be
copied and run by itself. ``checkmate.solvers.certificates`` makes certificates.
"""
