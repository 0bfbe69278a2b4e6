"""Make one self-contained page from the files that commands write.

Each file becomes one or more sections of the page.
"""
