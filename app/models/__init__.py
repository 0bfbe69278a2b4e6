"""What the window knows; QtCore only."""
