"""What a person sees: the report, the demonstration and metrics."""

from tacit.report.contents import Accuracy
from tacit.report.page import write_report

__all__ = ["Accuracy", "write_report"]
