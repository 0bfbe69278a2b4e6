"""Which bytes are live when: two independent replays, and peak contents.

The definition is in ``checkmate.ir.timeline``. ``simulate`` and ``check`` replay it. ``hotspot``,
``suggestions`` and ``recomputed`` explain a schedule. ``bfc`` and ``placement`` imitate TensorFlow's
allocator. ``meter_aim`` and ``budget_search`` turn a limit of the allocator into a budget for the solver.
"""
