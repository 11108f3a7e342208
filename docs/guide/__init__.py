"""Small extensions of Sphinx that the guide is built with."""
