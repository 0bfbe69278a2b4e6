"""Every message between the window and its processes, a class each.

The window asks, a process answers. A module holds one conversation; ``table`` names every message of all. How
messages become bytes: ``checkmate.ipc.messages``.

``job``: the number that the window gave the work a message belongs to. ``question``: the number that the
window gave a graph with its constraints. ``steps``: a schedule's op indices in order, int32; the module
``steps`` packs them. ``graph``: a graph file's JSON. Budgets and peaks are in bytes, fixed bytes included;
costs and their bounds are in the graph's unit.
"""
