"""Secure aggregation: whoever adds up learns the sum, and nothing else."""
