"""What a person sees: the report, the demonstration and metrics."""

from tacit.report.accuracy import Accuracy, simulated_accuracy
from tacit.report.page import write_report

__all__ = ["Accuracy", "simulated_accuracy", "write_report"]
