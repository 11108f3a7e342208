"""Models: what the data would look like, given factors. Pure mathematics, no noise."""
