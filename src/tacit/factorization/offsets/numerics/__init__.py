"""Ridge regressions, bounded contributions, and shrinkage."""
