"""Run many independent solves at once.

They run on processes of this machine or on a cluster. A journal lets an interrupted sweep resume.
"""
