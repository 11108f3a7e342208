"""Factors from counts that every site perturbs once."""
