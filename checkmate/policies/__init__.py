"""Policies for recomputation that users write into their own model: which layers are computed again."""
