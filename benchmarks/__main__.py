"""Run a benchmark by name."""

import sys

from experiments.runner import main

sys.exit(main("benchmarks"))
