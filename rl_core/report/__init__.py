"""Report of a run: one HTML page and a plain summary for the terminal."""

from rl_core.report.html import write_report
from rl_core.report.text import summary_text

__all__ = ["summary_text", "write_report"]
