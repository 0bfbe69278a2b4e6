"""Draw a page: HTML, sections, words."""
