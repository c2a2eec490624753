"""Says at the end what was fuzzed, and from which seed."""

from __future__ import annotations

import fuzzing
import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if fuzzing.COUNTS:
        counts = ", ".join(f"{number} {name}" for name, number in sorted(fuzzing.COUNTS.items()))
        terminalreporter.write_line(f"fuzz: seed {fuzzing.SEED}; {counts}")
