"""Clipped gradients, and the steps that they drive."""
