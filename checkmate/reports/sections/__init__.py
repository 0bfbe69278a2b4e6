"""One module for each kind of result that a page shows."""
