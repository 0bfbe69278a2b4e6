"""Widgets that paint values and forward gestures."""
