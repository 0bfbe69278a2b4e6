"""The part of the step that is shown, and the selected range."""
