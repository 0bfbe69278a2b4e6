"""What several solvers use: buffers, retention, articulation points, compilation."""
