"""Inference: changes of state over iterations. Pure mathematics, no privacy noise."""
