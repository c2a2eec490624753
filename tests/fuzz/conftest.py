"""Says at the end what was fuzzed, and from which seed."""

from __future__ import annotations

import fuzzing
import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if fuzzing.COUNTS:
        kinds = [name for name in fuzzing.COUNTS if not name.endswith(" refused")]
        counts = [f"{fuzzing.COUNTS[name]} {name} ({fuzzing.COUNTS[f'{name} refused']} refused)" for name in kinds]
        whole = sum(fuzzing.COUNTS[name] for name in kinds)
        terminalreporter.write_line(f"fuzz: seed {fuzzing.SEED}; {whole} examples: {', '.join(counts)}")
