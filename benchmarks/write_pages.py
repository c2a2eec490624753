"""Write the tables of pages that are made from the records: none of their numbers is copied by hand.

python benchmarks/write_pages.py            writes them into README.md and pages of docs
python benchmarks/write_pages.py --check    names those that are not what the records say, and fails
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pages import forgetting, readme, runs, tuning
from pages.evidence import Evidence
from pages.tables import Tables, stale, written

ROOT = Path(__file__).parents[1]
PAGES: Mapping[str, tuple[Tables, Callable[[Evidence], Any]]] = {
    "README.md": ({"methods": readme.methods}, lambda evidence: evidence),
    "docs/findings.md": (
        {
            "forgetting": forgetting.forgetting,
            "distances": forgetting.distances,
            "on-pubmed": forgetting.on_pubmed,
            "small-request": forgetting.small_request,
            "leakage": forgetting.leakage,
            "corrective": runs.corrective,
            "six-graphs": runs.six_graphs,
            "cost": runs.cost,
        },
        lambda evidence: evidence,
    ),
    "docs/reproduce.md": ({"paper": runs.paper, "gains": runs.gains, "poison": runs.poison}, lambda evidence: evidence),
    "docs/tuning.md": (
        {"distances": tuning.distances, "errors": tuning.errors, "elsewhere": tuning.elsewhere, "near": tuning.near},
        tuning.Tuning,
    ),
}
"""The tables of each page, and what they take, made of the evidence."""


def main() -> None:
    """Write the tables, or compare them with those that the pages have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--root", type=Path, default=ROOT, help="where the pages are")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    evidence = Evidence(given.results)
    wrong = []
    for page, (tables, view) in PAGES.items():
        text = (given.root / page).read_text("utf-8")
        anew = written(text, tables, view(evidence))
        wrong += [f"{page}: {name}" for name in stale(text, anew)]
        if not given.check:
            (given.root / page).write_text(anew, "utf-8")
    if given.check and wrong:
        sys.exit("Not what the records say:\n" + "\n".join(wrong) + f"\nRun: python {sys.argv[0]}")
    print("\n".join(["Written:", *wrong]) if wrong else "Every table is what the records say.")


if __name__ == "__main__":
    main()
