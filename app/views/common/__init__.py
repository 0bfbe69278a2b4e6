"""What several views share: panels, pens, menus to copy and save."""
