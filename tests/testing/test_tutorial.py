"""The tutorials, executed: every command in its order in one shell, every file written, every output shown compared."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_environments import OFFLINE, environment, lines_that_show_packages, needs_pip
from repository import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]

PAGES = {name: (ROOT / "docs" / f"tutorial_{name}.md").read_text(encoding="utf-8") for name in ("plugin", "posthoc")}
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>file|exit): (?P<value>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)
BLOCKS = {name: list(BLOCK.finditer(page)) for name, page in PAGES.items()}
# Commands are those of the page. Only where packages come from differs: those that pip would fetch are seen already.
PREFACE = """
python3() {{
    if [ "$2" != venv ]; then command python3 "$@"; return; fi
    {python} -m venv --without-pip "$3"
    cp packages_of_the_tests.pth "$(echo "$3"/lib/python3*/site-packages)"
}}
pip() {{ {python} -m pip --python "$(command -v python)" "$@" {offline}; }}
"""


def script(blocks: list[re.Match[str]]) -> str:
    """Write a page as a script that says after each line how it ended."""
    lines = [PREFACE.format(python=shlex.quote(sys.executable), offline=" ".join(OFFLINE))]
    for number, block in enumerate(blocks):
        if block["language"] == "bash":
            for line in block["text"].splitlines():
                lines += [f"echo '::line {number}'", line, 'echo "::ended $?"']
        elif block["mark"] == "file":
            lines += [f"cat > {block['value']} <<'END OF FILE'", block["text"] + "END OF FILE"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", PAGES)
def test_every_block_is_executed_or_compared(name: str) -> None:
    kinds = {(block["language"], block["mark"]) for block in BLOCKS[name]}
    assert kinds - {("bash", "exit")} == {("bash", None), ("text", None), ("python", "file")}
    assert len(BLOCKS[name]) == len(re.findall(r"^```\w+$", PAGES[name], re.M))


@needs_pip
@pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")
def test_the_tutorial_leads_to_a_row_in_the_table(tmp_path: Path) -> None:
    said = outputs(BLOCKS["plugin"], tmp_path)
    ran, reported, _ = list(said.values())[-3:]
    for table in (ran, reported):
        for row in ("retrain", "sisa", "sharded[partitioner=spread,aggregator=mean]"):
            assert re.search(rf"^\W*{re.escape(row)}\W", table.replace("\\", ""), re.M), table
    assert (tmp_path / "dist" / "unlearnbench_spread-0.1.0-py3-none-any.whl").is_file()


@needs_pip
@pytest.mark.skipif(os.name == "nt", reason="the commands are those of a POSIX shell")
def test_a_post_hoc_method_is_published(tmp_path: Path) -> None:
    said = outputs(BLOCKS["posthoc"], tmp_path)
    for row in ("retrain", "mine", "gif"):
        assert len(re.findall(rf"^ ?{row} .* & ", list(said.values())[-4], re.M)) == 1
    assert re.search(r"^\W*mine\W", list(said.values())[-3], re.M)
    assert len(list(tmp_path.glob("submission/records/*/digits/mine/*.json"))) == 2
    assert (tmp_path / "dist" / "unlearnbench_mine-0.1.0-py3-none-any.whl").is_file()


def outputs(blocks: list[re.Match[str]], tmp_path: Path) -> dict[int, str]:
    """Execute a page in an empty folder and return what the commands of each block printed."""
    # What a checkout holds and pip needs; building leaves folders beside the sources.
    for part in ("unlearnbench", "plugins"):
        shutil.copytree(ROOT / part, tmp_path / "unlearnbench" / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, tmp_path / "unlearnbench" / part)
    (tmp_path / "packages_of_the_tests.pth").write_text(lines_that_show_packages(), encoding="utf-8")
    (tmp_path / "tutorial.sh").write_text(script(blocks), encoding="utf-8")
    run = subprocess.run(
        ["bash", "tutorial.sh"], capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=900
    )
    said: dict[int, str] = {}
    for number, text, code in re.findall(r"^::line (\d+)\n(.*?)^::ended (\d+)\n", run.stdout, re.M | re.S):
        block = blocks[int(number)]
        assert code == (block["value"] or "0"), block["text"] + text + run.stderr
        said[int(number)] = said.get(int(number), "") + text
    assert sorted(said) == [number for number, block in enumerate(blocks) if block["language"] == "bash"]
    assert "Traceback" not in run.stderr
    for number, block in enumerate(blocks):
        if block["language"] == "text":
            before = max(other for other in said if other < number)
            for line in block["text"].splitlines():
                assert line.rstrip() in said[before], line
    return said
