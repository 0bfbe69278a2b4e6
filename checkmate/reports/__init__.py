"""One self-contained page out of the files that the commands write: what each says as sections, and the page that shows them."""
