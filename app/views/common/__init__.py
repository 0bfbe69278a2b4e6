"""What several views share: panels, buttons, pens, menus to copy and save."""
