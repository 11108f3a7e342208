"""What `benchmarks.house` measures."""
