"""Speed and memory against peers, as ratios in one run.

``python -m benchmarks`` lists them; ``python -m benchmarks NAME [--json]`` runs one.
"""
