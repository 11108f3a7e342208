"""The version of this release of tacit."""

__version__ = "0.1.0"
