"""What the window knows, as models that views observe; QtCore only."""
