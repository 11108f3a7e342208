"""Run an experiment by name."""

import sys

from experiments.runner import main

sys.exit(main("experiments"))
