"""Training steps of PyTorch: joint graphs of ``torch.compile``, scheduled and emitted as two halves."""
