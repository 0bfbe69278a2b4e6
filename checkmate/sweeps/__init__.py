"""Many independent solves at once: on processes of this machine or on a cluster, with a journal that an interrupted sweep resumes from."""
