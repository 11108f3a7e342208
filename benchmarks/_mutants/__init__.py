"""What `benchmarks.mutants` plants, where, and how it is looked for."""
