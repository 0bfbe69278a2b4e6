"""Which bytes are live when: two independent replays, and what fills a peak."""
