"""What is seen first: the start page, the tour, a profile on its way."""
