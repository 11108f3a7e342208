"""The parties of `experiments.hostile`: a site to attack, and who attacks it."""
