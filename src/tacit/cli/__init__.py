"""The command line, one module a command: parsing and printing only, no mathematics."""

from tacit.cli.main import app, main

__all__ = ["app", "main"]
