"""Prepare a program that a test starts (see ``tests.quick_start``)."""

from __future__ import annotations

import atexit

from checkmate.backends.tf.environment import import_quickly
from checkmate.machine.garbage import hide_all

import_quickly()
atexit.register(hide_all)
