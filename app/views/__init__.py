"""Widgets that paint what the models hold, and forward what the user does."""
