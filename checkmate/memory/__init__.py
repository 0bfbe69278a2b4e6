"""Which bytes are live when, by the definition in ``checkmate.ir.timeline``: two independent replays, what
explains them, and an imitation of TensorFlow's allocator.
"""
