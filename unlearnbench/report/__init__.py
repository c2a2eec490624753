"""What is made of records: frames, tables, the leaderboard."""

from unlearnbench.report.frame.frame import frame_of, load_records

__all__ = ["frame_of", "load_records"]
