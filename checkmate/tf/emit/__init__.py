"""Write a schedule as a TensorFlow function that runs in its order."""
