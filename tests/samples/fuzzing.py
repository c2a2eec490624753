"""What the fuzz tests share: how many examples, from which seed, and what counts as a fault.

`UNLEARNBENCH_FUZZ` is the number of examples in all, `UNLEARNBENCH_FUZZ_SEED` where chance starts:
`make fuzz` sets both; without them the examples are few and the same every time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running import plan as planning

SEED = int(os.environ.get("UNLEARNBENCH_FUZZ_SEED") or 0)
IN_ALL = int(os.environ.get("UNLEARNBENCH_FUZZ") or 400)
SHRINK = "UNLEARNBENCH_FUZZ_RAW" not in os.environ
# What became of the examples of each test, for the line at the end.
COUNTS: Counter[str] = Counter()


def fuzz(share: float) -> Callable[[Any], Any]:
    """Run a test with this share of all examples."""

    def decorate(test: Any) -> Any:
        chosen = settings(
            max_examples=max(1, round(share * IN_ALL)),
            deadline=None,
            database=None,
            print_blob=True,
            phases=[Phase.generate, Phase.shrink] if SHRINK else [Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        )
        return seed(SEED)(chosen(test))

    return decorate


@contextmanager
def told(name: str) -> Iterator[list[UnlearnbenchError]]:
    """Let an error through that a user can be told, and nothing else; the list then holds it.

    `name` says in the line at the end what was fuzzed.
    """
    errors: list[UnlearnbenchError] = []
    COUNTS[name] += 1
    try:
        yield errors
    except UnlearnbenchError as error:
        COUNTS[f"{name} refused"] += 1
        errors.append(error)
        if not error.message.strip() or "Traceback" in str(error):
            raise AssertionError("an error that says nothing a user could use") from error


@cache
def catalogue() -> Catalogue:
    """Load the plugins once; a function, because hypothesis would print a fixture whole."""
    return load_catalogue()


@pytest.fixture(scope="module")
def known_machine() -> Iterator[None]:
    """What the machine is depends on no example, and takes long to find out."""
    with pytest.MonkeyPatch.context() as patch:
        machine, versions = planning.describe_machine(), planning.provenance()
        patch.setattr(planning, "describe_machine", lambda: machine)
        patch.setattr(planning, "provenance", lambda: versions)
        yield


# Texts that have been trouble somewhere: quotes, line ends of every kind, paths, formulas, markup, lone surrogates.
ODD_TEXTS = [
    "", " ", '"', "'", "\n", "\r", "\t", "\0", "\x1b[31m", "\u2028", "\x85", "\u00a0x", "ä", "a\u0308", "\udc80",
    "\u202e", "../../evil", "..", "/", "\\", "C:\\evil", "con", "nul.txt", "~nobody-here/x", "x" * 300, "=1+2", "%s",
    "<script>", "{0}", "[", "]", "[/b]", ",", "=", "a,b", "a]b", "a[b=c]", "1e400", "nan", "-0", "1_000", "٣", "0x10",
    "9" * 5000, "true", "None", "null", "🙂",
]  # fmt: skip
odd_texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=12))
odd_integers = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, 10**400, -(2**63), -(2**63) - 1]),
)
odd_floats = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1e-320, 1e308, 0.5, 1.0]))
