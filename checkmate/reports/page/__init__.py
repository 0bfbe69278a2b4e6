"""The style of a page: HTML, sections, words."""
