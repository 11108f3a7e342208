"""Fixtures that tests of the guide share with others."""

from tests.report.test_browser import browser

__all__ = ["browser"]
