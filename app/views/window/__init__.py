"""The window itself: menus, palette, start page, tour, and what asks for files."""
