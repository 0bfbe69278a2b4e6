"""The desktop explorer."""
