"""One short spec per published table: settings, expected values, tolerance.

``python -m experiments`` lists them; ``python -m experiments NAME [--json] [--quick]`` runs one.
"""
