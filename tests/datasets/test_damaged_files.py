"""A2: damaged files are named with the way out and never deleted; jobs that share a root do not disturb each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from graph_samples import planetoid_files, put, saved, small_planetoid

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError

JOB = """
import sys, time
from pathlib import Path
from unlearnbench.datasets import raw

def fetch(url, seconds):
    with open(sys.argv[2], "a") as log:
        log.write(url + "\\n")
    time.sleep(0.3)
    return b"data"

raw.fetch = fetch
files = raw.RawFiles("slow", "Slow/raw", {n: f"https://example.org/{n}" for n in "abc"}, lambda name, content: None)
assert files.read(Path(sys.argv[1])) == dict.fromkeys("abc", b"data")
"""


@pytest.mark.usefixtures("no_network")
def test_a_page_saved_as_data_is_named_and_left_alone(tmp_path: Path) -> None:
    page = b"<html>rate limited</html>\n"
    folder = put(tmp_path, "Planetoid/Small/raw", {**planetoid_files(), "ind.small.x": page})
    with pytest.raises(DataError, match=r"ind\.small\.x is damaged") as caught:
        small_planetoid().load(tmp_path)
    assert caught.value.hint.startswith("Delete it and run again")
    assert (folder / "ind.small.x").read_bytes() == page


def test_a_truncated_torch_file_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match=r"g\.pt is damaged"):
        load_graph(File(File.Params(path=str(path))), tmp_path)


@pytest.mark.slow
def test_two_processes_on_one_empty_root_fetch_each_file_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", JOB, str(tmp_path / "root"), str(log)]
    jobs = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for job in jobs:
        _, said = job.communicate(timeout=100)
        assert job.returncode == 0, said.decode()
    assert sorted(log.read_text().split()) == [f"https://example.org/{name}" for name in "abc"]
    left = {path.name for path in (tmp_path / "root" / "Slow" / "raw").iterdir()}
    assert left - {".download.lock"} == {"a", "a.sha256", "b", "b.sha256", "c", "c.sha256"}
