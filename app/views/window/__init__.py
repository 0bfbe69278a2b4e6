"""The window itself: menus, palette, dialogs, start page."""
