"""Which bytes are live when: two independent replays, and peak contents."""
