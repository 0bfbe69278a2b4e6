"""Make the sections of a page, one module per kind of result."""
