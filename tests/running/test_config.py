"""The settings of a run: file and options make one model, and what is wrong is told before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plugin_samples import TOYS, Write, install

from unlearnbench.cli import main
from unlearnbench.cli.audit import command as audit_command
from unlearnbench.cli.run import command as run_command
from unlearnbench.errors import UsageError
from unlearnbench.protocol import Forget
from unlearnbench.running.config import make_config, read_run_file
from unlearnbench.running.options import OPTIONS, option_default

__all__ = ["install"]

SMALL = ("--datasets", "toy", "--epochs", "1", "--repetitions", "1")


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    return int(caught.value.code or 0)


def labels(config: Any) -> list[str]:
    return [str(bracket) for bracket in config.brackets(config.methods)]


def run_file(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_file_is_read_and_lists_multiply_out(tmp_path: Path) -> None:
    path = run_file(
        tmp_path,
        """
        datasets = "cora,digits"
        methods = [
          "sisa",
          "sharded[partitioner=hash]",
          {name = "graphrevoker", sem_weight = [0, 0.5], num_shards = [5, 10]},
          {name = "sharded[aggregator=mean]", partitioner = ["hash", "bekm[slack=0]", {name = "gpa", epochs = [3]}]},
        ]
        models = [{name = "gcn", hidden = [16, 32]}]
        seeds = [3, 1]
        forget_count = 4
        """,
    )
    config = make_config(read_run_file(path))
    assert labels(config) == [
        "sisa",
        "sharded[partitioner=hash]",
        "graphrevoker[sem_weight=0,num_shards=5]",
        "graphrevoker[sem_weight=0,num_shards=10]",
        "graphrevoker[sem_weight=0.5,num_shards=5]",
        "graphrevoker[sem_weight=0.5,num_shards=10]",
        "sharded[aggregator=mean,partitioner=hash]",
        "sharded[aggregator=mean,partitioner=bekm[slack=0]]",
        "sharded[aggregator=mean,partitioner=gpa[epochs=3]]",
    ]
    assert [str(bracket) for bracket in config.brackets(config.models)] == ["gcn[hidden=16]", "gcn[hidden=32]"]
    assert config.datasets == ["cora", "digits"]
    assert config.repetition_numbers() == [3, 1]
    assert config.forget_amount() == Forget(ratio=None, count=4)


def test_every_option_of_the_table_is_a_flag_and_a_key_of_a_run_file(tmp_path: Path) -> None:
    flags = {parameter.name: parameter.opts for parameter in run_command.params}
    audit_flags = {parameter.name for parameter in audit_command.params}
    for name, flag in OPTIONS.items():
        names = flag.names or [f"--{name.replace('_', '-')}"]
        assert flags[name] == [each.partition("/")[0] for each in names]
        assert (name in audit_flags) == ("audit" in flag.commands)
    values = {name: option_default(name) for name in OPTIONS if option_default(name) is not None}
    values.pop("repetitions")
    assert make_config(values) == make_config({})


@pytest.mark.slow
def test_no_progress_is_shown_where_none_is_wanted(install: Write, tmp_path: Path, capsys: Any) -> None:
    install("ub-toys", TOYS)
    arguments = ("run", "-m", "steady", *SMALL, "--no-reference", "--out", str(tmp_path))
    assert run_main(*arguments) == 0
    assert "[1/1] toy gcn steady" in capsys.readouterr().err
    assert run_main(*arguments, "--overwrite", "always", "--no-progress") == 0
    assert "[1/1]" not in capsys.readouterr().err


def test_defaults() -> None:
    config = make_config({"methods": "sisa"})
    assert (config.datasets, config.models, config.repetition_numbers()) == (["digits"], ["gcn"], [0, 1, 2])
    assert config.forget_amount() == Forget(ratio=0.005)
    assert (config.threads, config.reference, config.overwrite) == (1, True, "only-missing")
    assert config.base_seed() == 0


def test_settings_reach_training_model_and_seed() -> None:
    config = make_config({"set": {"training.lr": "0.5", "training.weight_decay": 0, "model.hidden": 16, "seed": "7"}})
    assert (config.training_settings().lr, config.training_settings().weight_decay) == (0.5, 0)
    assert config.model_defaults() == {"hidden": 16}
    assert config.base_seed() == 7
    assert make_config({"epochs": 3, "train": "one-by-one"}).training_settings().epochs == 3
    assert make_config({"train": "one-by-one"}).training_settings().one_by_one


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method = ['sisa']", ("unknown key 'method'", "Did you mean methods?")),
        ("methods = 3", ("methods = 3",)),
        ("methods = ['sisa']\nthreads = 'two'", ("threads = 'two'", "integer")),
        ("methods = ['sisa']\nrepetitions = 0", ("repetitions = 0", "greater than or equal to 1")),
        ("methods = ['sisa']\nseeds = [1, 2, 1]", ("1 is named twice",)),
        ("methods = ['sisa']\nseeds = []", ("repetitions are numbers from 0",)),
        ("methods = ['sisa']\nseeds = [-1]", ("repetitions are numbers from 0",)),
        ("methods = ['sisa']\nreference = 'perhaps'", ("reference = 'perhaps'",)),
        ("methods = ['sisa']\noverwrite = 'sometimes'", ("overwrite = 'sometimes'", "only-missing")),
        ("methods = ['sisa']\nforget_count = 1\nforget_ratio = 0.1", ("in one way", "ratio, count")),
        ("methods = ['sisa']\nforget = []", ("--forget names no node",)),
        ("methods = [{num_shards = 3}]", ("has no name", "num_shards")),
        ("methods = ['sisa'\nthreads = 1", ("run.toml", "line 2", "must be TOML")),
        ("methods = ['sisa[num_shards=']", ("expected a value at character",)),
        ("methods = ['sisa']\nset = {lr = 1}", ("--set lr", "training.lr")),
    ],
)  # fmt: skip
def test_errors_of_a_run_file(
    text: str, said: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run_main("run", "--config", str(run_file(tmp_path, text)), "--out", str(out)) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in said), error
    assert not out.exists()


def test_a_run_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main("run", "--config", str(tmp_path / "nowhere.toml")) == 2
    assert "nowhere.toml" in capsys.readouterr().err
    (tmp_path / "latin.toml").write_bytes(b'methods = ["\xe9"]')
    with pytest.raises(UsageError, match="UTF-8"):
        read_run_file(tmp_path / "latin.toml")


def test_results_folder_that_is_a_file(install: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("ub-toys", TOYS)
    out = tmp_path / "out"
    out.write_text("precious")
    assert run_main("run", "-m", "steady", *SMALL, "--out", str(out)) == 2
    assert "is a file" in capsys.readouterr().err
    assert out.read_text() == "precious"


def test_options_win_over_the_run_file(install: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("ub-toys", TOYS)
    path = run_file(
        tmp_path,
        """
        methods = ["twin", "sisa"]
        datasets = ["digits"]
        num_shards = 50
        repetitions = 9
        forget_ratio = 0.5
        reference = true
        out = "never"
        [set]
        "training.lr" = 0.5
        seed = 4
        """,
    )
    listed = ("--dry-run", "--out", str(tmp_path / "out"))
    options = ("-m", "sisa", "-d", "toy", "--num-shards", "3", "--seeds", "4", "--forget-count", "2", "--no-reference")
    assert run_main("run", "--config", str(path), *options, "--set", "seed=5", *listed) == 0
    with_file = capsys.readouterr().out
    (line,) = with_file.splitlines()
    assert line.endswith("  run   toy gcn sisa[num_shards=3] repetition 4")
    assert run_main("run", *options, "--set", "seed=5", "--set", "training.lr=0.5", *listed) == 0
    assert capsys.readouterr().out == with_file
    assert run_main("run", *options, "--set", "seed=4", "--set", "training.lr=0.5", *listed) == 0
    assert capsys.readouterr().out != with_file


def test_errors_say_whether_file_or_option_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run_file(tmp_path, "methods = ['sisa']\nthreads = 0")
    assert run_main("run", "--config", str(path)) == 2
    assert f"Run file {path}: threads = 0" in capsys.readouterr().err
    path.write_text("methods = ['sisa']")
    assert run_main("run", "--config", str(path), "--threads", "0") == 2
    assert "The command line: threads = 0" in capsys.readouterr().err


def test_a_nested_table_of_settings_is_a_dotted_key() -> None:
    config = make_config({"methods": ["sisa"], "set": {"training": {"lr": 0.5}, "seed": 3}})
    assert config.training_settings().lr == 0.5
    assert config.base_seed() == 3


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"tuned": "a.toml"}, "`tuned` is for `protocol` tuned"),
        ({"protocol": "tuned", "epochs": 3}, "`epochs` and `protocol` tuned exclude"),
        ({"protocol": "tuned", "set": {"training.lr": 0.1}}, "`set` training.lr and `protocol` tuned exclude"),
    ],
)
def test_what_tuning_chose_is_set_nowhere_else(values, match):
    with pytest.raises(UsageError, match=match):
        make_config({"methods": ["scrub"], **values})
