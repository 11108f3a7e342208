"""Item offsets and factors from noisy sums, by alternating least squares."""
