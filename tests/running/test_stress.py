"""Many cells in one process keep no memory; hash seeds, locales and threads change no record."""

from __future__ import annotations

import io
import json
import locale
import os
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record_samples import make_record
from repository import ROOT

from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import FORMATS, render

SBM = "sbm[num_nodes=200,num_edges=600,num_features=16,num_classes=3]"
METHODS = "sisa[partitioner=metis],grapheraser,graphrevoker,gif"
JOB = f"""
import sys
import unlearnbench
from unlearnbench.registry.brackets import split_names
records = unlearnbench.run(
    methods=split_names([sys.argv[3]]), datasets=[{SBM!r}], models=["gcn"], repetitions=1, epochs=3, num_shards=3,
    forget_count=5, out=sys.argv[1], threads=int(sys.argv[2]), device="cpu", offline=True,
)
assert all(record.status == "ok" for record in records), [record.error for record in records]
"""


def comma_locale() -> str | None:
    """Name an installed locale that writes 0,5."""
    names = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    return next((name for name in names if name.lower().replace("-", "") in ("de_de.utf8", "fr_fr.utf8")), None)


def outcome(out: Path, threads: int = 1, methods: str = METHODS, **variables: str) -> dict[str, Any]:
    """Run a small grid in a process of its own; give what its records and arrays say, but for times and provenance."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": str(threads), **variables}
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(out), str(threads), methods], env=environment, capture_output=True, text=True,
        check=False, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = {}
    for path in out.glob("records/*/*/*/*.json"):
        record = json.loads(path.read_text())
        assert record["provenance"]["threads"] == threads
        for name in ("provenance", "phases", "unlearn_seconds", "checksum", "notes"):
            record.pop(name, None)
        found[path.name] = (record, path.with_suffix(".npz").read_bytes())
    assert len(found) == 5
    return found


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return outcome(tmp_path_factory.mktemp("usual"), PYTHONHASHSEED="0")


@pytest.mark.slow
def test_hash_seed_and_locale_c_change_no_record(usual: dict[str, Any], tmp_path: Path) -> None:
    assert outcome(tmp_path, PYTHONHASHSEED="1", LC_ALL="C", LANG="C") == usual


@pytest.mark.slow
def test_two_threads_change_no_member_and_an_aggregator_by_no_more_than_rounding(
    usual: dict[str, Any], tmp_path: Path
) -> None:
    # With threads that spin while they wait this takes minutes on a busy machine.
    found = outcome(tmp_path, threads=2, OMP_WAIT_POLICY="passive")
    assert found.keys() == usual.keys()
    for name, (record, arrays) in found.items():
        expected, expected_arrays = deepcopy(usual[name])
        # Some processors' libraries sum the products of an aggregator in another order with more threads.
        change, expected_change = (each["digests"].pop("relative_change") for each in (record, expected))
        assert change == pytest.approx(expected_change, rel=1e-4)
        for each in (record, expected):
            each.pop("predictions_digest")  # the predictions themselves are compared below
            for moment in ("before", "changed"):
                each["digests"][moment].pop("aggregator", None)
        assert record == expected
        ours, theirs = np.load(io.BytesIO(arrays)), np.load(io.BytesIO(expected_arrays))
        assert ours.files == theirs.files
        for part in ours.files:
            np.testing.assert_allclose(ours[part], theirs[part], rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("locale") is None, reason="no command `locale` that lists what is installed")
def test_a_locale_with_decimal_commas_changes_no_record(usual: dict[str, Any], tmp_path: Path) -> None:
    name = comma_locale()
    if name is None:
        pytest.skip("no locale with decimal commas is installed (de_DE.UTF-8 or fr_FR.UTF-8)")
    assert outcome(tmp_path, LC_ALL=name, LANG=name) == usual


def test_numbers_are_written_and_read_with_points_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frame_of([make_record("retrain"), make_record("sisa")])
    before = [render(build_tables(frame), style) for style in FORMATS]
    monkeypatch.setattr(locale, "localeconv", lambda: {"decimal_point": ",", "thousands_sep": ".", "grouping": [3, 0]})
    assert [render(build_tables(frame), style) for style in FORMATS] == before


@pytest.mark.slow
def test_memory_of_many_cells_is_that_of_few() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "stress.py"), "--cells", "30", "--first", "10", "--epochs", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True, check=False,
        timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "after 30 cells" in done.stdout
