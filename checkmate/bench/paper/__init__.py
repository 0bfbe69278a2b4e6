"""``bench paper``: the Checkmate paper's questions, asked anew."""
