"""What is live when: two independent replays of a schedule, and what fills its peak."""
