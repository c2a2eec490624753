"""The scripts of benchmarks/ that count and compare, on graphs of the tests."""

import importlib
import io
import json
import shutil
import subprocess
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import torch
from record_samples import make_record
from repository import ROOT

import unlearnbench
from unlearnbench.gnn.edges import Edges
from unlearnbench.gnn.layout import Ragged
from unlearnbench.gnn.ragged import ragged_product
from unlearnbench.gnn.sparse import from_dense
from unlearnbench.gnn.zoo import GCN
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task

CPU = torch.device("cpu")


@pytest.fixture
def script(monkeypatch):
    """Import a script by name; they import each other, as they do when they are run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


@pytest.fixture
def limit(script):
    return script("limit")


@pytest.fixture
def gpu(script):
    return script("gpu")


def csr(rows, columns, stored):
    """Make a matrix [rows, columns] whose first entries are 1, 2, ..."""
    dense = torch.zeros(rows * columns)
    dense[:stored] = torch.arange(1.0, stored + 1)
    return from_dense(dense.view(rows, columns)).csr


def counted(limit, work):
    counter = limit.ProductCounter()
    with counter:
        work()
    return counter


def operations(counter, phase=""):
    return sum(product.operations * number for product, number in counter.counts[phase].items())


DENSE = 2 * 3 * 4 * 5


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda a, b: a @ b, DENSE),
        (lambda a, b: torch.mm(a, b, out=torch.empty(3, 5)), DENSE),
        (lambda a, b: torch.nn.functional.linear(a, b.t(), torch.zeros(5)), DENSE),
        (lambda a, b: torch.zeros(3, 5).addmm_(a, b, beta=0), DENSE),
        (lambda a, b: a @ b[:, 0], 2 * 3 * 4),
        (lambda a, b: torch.bmm(a.expand(7, 3, 4), b.expand(7, 4, 5)), 7 * DENSE),
        (lambda a, b: torch.baddbmm(torch.zeros(7, 3, 5), a.expand(7, 3, 4), b.expand(7, 4, 5)), 7 * DENSE),
        (lambda a, b: torch.einsum("snf,sfk->snk", a.expand(7, 3, 4), b.expand(7, 4, 5)), 7 * DENSE),
        (lambda a, b: csr(3, 4, 6) @ b, 2 * 6 * 5),
        (lambda a, b: torch.zeros(3, 5).addmm_(csr(3, 4, 6), b, beta=0), 2 * 6 * 5),
        (lambda a, b: torch.addmm(torch.ones(3, 5), csr(3, 4, 6), b), 2 * 6 * 5),
        (lambda a, b: torch.sparse.sampled_addmm(csr(3, 5, 6), a, b), 2 * 6 * 4),
        (lambda a, b: torch.cdist(a, b.t(), compute_mode="donot_use_mm_for_euclid_dist") + a.sum() * 2, 0),
    ],
)
def test_every_kind_of_product_is_counted_once(limit, work, expected):
    assert operations(counted(limit, lambda: work(torch.randn(3, 4), torch.randn(4, 5)))) == expected


def test_the_products_of_a_gradient_are_counted(limit):
    rows, weight = torch.randn(5, 4, requires_grad=True), torch.randn(2, 4, 6, requires_grad=True)
    counter = counted(limit, lambda: ragged_product(rows, weight, [2, 3]).sum().backward())
    # Forward, for the rows and for the weights: 2 (2 + 3) 4 6 each.
    assert operations(counter) == 3 * 240


def test_the_products_of_attention_are_counted(limit):
    edges = Edges(torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0]), 3)
    values, rows = torch.randn(4, requires_grad=True), torch.randn(3, 5, requires_grad=True)
    counter = counted(limit, lambda: edges.weighted_sum(values, rows).sum().backward())
    assert operations(counter) == 3 * 2 * 4 * 5


def test_the_products_of_a_network_are_those_on_paper(limit):
    graph = toy_graph(num_nodes=10, edges=12)
    stack, layout = GCN().stack(1, 8, 3), Ragged([graph])
    adjacency = graph.num_edges + 10
    with torch.no_grad():
        counter = counted(limit, lambda: stack.eval().head(stack.embed(layout), layout))
    linear = 2 * 10 * (8 * 64 + 64 * 64 + 64 * 64 + 64 * 16)  # three classes are stored as sixteen
    assert operations(counter) == linear + 2 * (2 * adjacency * 64)


def test_products_belong_to_the_innermost_phase(limit):
    counter = limit.ProductCounter()
    a = torch.ones(2, 2)
    with counter, counter.phase("unlearn"):
        with counter.phase("retrain"):
            a @ a
            a @ a
        a @ a
    assert {phase: sum(found.values()) for phase, found in counter.counts.items()} == {
        "unlearn/retrain": 2,
        "unlearn": 1,
    }


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda a: torch.dot(a[0], a[0]), "dot looks like a product"),
        (lambda a: a.to_sparse() @ a, "is not counted"),
        (lambda a: a @ csr(2, 2, 1), "is not counted"),
    ],
)
def test_a_product_that_is_not_known_is_an_error(limit, work, said):
    with pytest.raises(NotImplementedError, match=said):
        counted(limit, lambda: work(torch.ones(2, 2)))


def test_the_plain_call_is_the_product_that_was_seen(limit):
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    matrix = csr(3, 4, 6)
    for work in (
        lambda: a @ b,
        lambda: a.double() @ b.double(),
        lambda: a @ b[:, 0],
        lambda: torch.bmm(a.expand(7, 3, 4), b.expand(7, 4, 5)),
        lambda: matrix @ b,
        lambda: torch.sparse.sampled_addmm(matrix, a, torch.ones(4, 4), beta=0.0),
    ):
        counter = counted(limit, work)
        ((product, number),) = counter.counts[""].items()
        assert number == 1
        found, expected = limit.plain_call(product, counter.matrices.get(product))(), work()
        assert found.dtype == expected.dtype
        assert torch.equal(found.to_dense(), expected.to_dense())
        assert limit.plain_seconds([product], counter.matrices, rounds=1)[product] > 0


def test_a_limit_is_the_sum_of_plain_times(limit):
    small, large = (limit.Product("mm", 1, n, n, n, 0, torch.float32) for n in (10, 1000))
    found, plain = {small: 3, large: 1}, {small: 0.5, large: 1.0}
    assert limit.limit(found, plain) == 2.5
    assert limit.row("sisa", "train", 5.0, found, plain) == "| sisa | train | 5.0000 | 2.000 | 2.5000 | 2.0 |"
    assert limit.row("sisa", "partition", 5.0, {}, plain).endswith("| 0.000 | 0.0000 | - |")


@pytest.mark.slow
def test_counting_changes_nothing_and_finds_the_phases(limit):
    task = toy_task(toy_graph(num_nodes=200, edges=600), epochs=2)
    request = Request(task.graph.ids[:2])
    phases = {}
    for name in limit.METHODS:
        method = resolve(load_catalogue(), "unlearner", name)
        first, second = (limit.count(method, task, request) for _ in range(2))
        assert first.counts == second.counts
        phases[name] = set(limit.phase_seconds(method, task, request, rounds=1))
        assert {phase for phase, found in first.counts.items() if found} <= {*limit.PHASES}
    assert phases.pop("retrain") == {"train", "unlearn/retrain"}
    assert all(found == {*limit.PHASES} for found in phases.values())


def test_the_table_of_limits_has_a_row_for_every_phase(limit, monkeypatch, capsys):
    graph = toy_graph(num_nodes=200, edges=600)
    monkeypatch.setattr(limit, "training_task", lambda *arguments: (toy_task(graph, epochs=2), graph))
    monkeypatch.setattr("sys.argv", ["limit.py", "--methods", "retrain", "--rounds", "1"])
    limit.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| retrain")]
    assert [row[1] for row in rows] == ["train", "unlearn/retrain"]
    assert all(float(row[2]) > 0 and float(row[5].rstrip(" |")) > 0 for row in rows)


def test_a_dataset_that_is_not_at_hand_ends_a_script_with_one_message(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("UNLEARNBENCH_OFFLINE", "1")
    with pytest.raises(SystemExit) as caught:
        script("loop").training_task("cora", tmp_path, CPU)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "Planetoid" in said
    assert "`data_root`" in said
    assert "--dataset digits" in said


@pytest.mark.parametrize(
    ("built_for", "said"), [(None, "is built without CUDA"), ("12.8", "is built for CUDA 12.8 but finds no device")]
)
def test_without_a_gpu_the_comparison_says_what_is_missing(gpu, built_for, said, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    with pytest.raises(SystemExit) as caught:
        gpu.main()
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.slow
def test_the_comparison_runs_and_its_record_is_written_on_any_device(gpu, script, tmp_path, capsys):
    loop = script("loop")
    shards = loop.cut(toy_task(epochs=2), 4)
    assert sorted(torch.cat([graph.ids for graph in shards.graphs]).tolist()) == list(range(60))
    record = gpu.compared(shards, "toy", list(loop.PLAIN), rounds=2)
    path = gpu.save(record, tmp_path / "results" / "gpu")
    read = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert read == json.loads(json.dumps(record))
    assert (read["device"], read["card"], read["num_shards"], read["epochs"]) == ("cpu", None, 4, 2)
    assert read["provenance"]["packages"]["torch"] == metadata.version("torch")
    assert list(read["models"]) == ["gcn", "gat", "sage", "appnp", "jknet"]
    for found in read["models"].values():
        slow, fast = found["seconds"]["loop"], found["seconds"]["stack"]
        assert len(slow) == len(fast) == 2
        assert found["ratio_lowest"] <= found["ratio"] <= found["ratio_highest"]
        assert found["ratio_highest"] == max(slow[0] / fast[0], slow[1] / fast[1])
        nothing = {"peak_gpu_mib": None, "peak_gpu_reserved_mib": None}
        assert found["memory"] == {"loop": nothing, "stack": nothing}
    assert capsys.readouterr().out.count("not read") == 4 * len(loop.PLAIN)


def test_a_record_of_the_comparison_is_named_by_date_and_card(gpu, tmp_path):
    record = {"date": "2026-01-02T03:04:05+00:00", "card": "NVIDIA A100-SXM4-40GB", "device": "cuda"}
    assert gpu.save(record, tmp_path).name == "2026-01-02-030405-nvidia-a100-sxm4-40gb.json"


def test_make_bench_leaves_out_what_needs_a_gpu_or_takes_long():
    if shutil.which("make") is None:
        pytest.skip("there is no make here")

    def planned(target):
        return subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    scripts = {path.as_posix() for path in (ROOT / "benchmarks").glob("*.py")}
    found = {name for name in scripts if f"benchmarks/{Path(name).name}" in planned("bench")}
    assert scripts - found == {
        (ROOT / "benchmarks" / name).as_posix()
        for name in (
            "evidence_time.py",
            "gpu.py",
            "growth.py",
            "products.py",
            "soak.py",
            "tally_scale.py",
            "write_pages.py",
        )
    }
    assert "benchmarks/gpu.py" in planned("bench-gpu")
    assert "benchmarks/soak.py" in planned("soak")


def test_records_are_repeated_as_other_cells(script):
    records = [make_record("sisa", r) for r in range(3)]
    page = script("page")
    for by, part in (("seeds", lambda one: one.cell["seed"]), ("datasets", lambda one: one.cell["dataset"]["name"])):
        found = page.repeated(records, 8, by)
        assert len({one.key for one in found}) == 8
        assert [len({part(one) for one in found[at : at + 3]}) for at in (0, 3, 6)] == [1, 1, 1]
        assert len({part(one) for one in found}) == 3
        assert [one.cell["repetition"] for one in found] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_the_slope_of_growth_is_that_between_the_two_largest_sizes(script):
    growth = script("growth")
    assert growth.slope({100: 7.0, 1000: 1.0, 10_000: 10.0}) == pytest.approx(1.0)
    assert growth.slope({1000: 2.0, 4000: 32.0}) == pytest.approx(2.0)
    assert growth.slope({1000: 0.0, 4000: 1.0}) != growth.slope({1000: 0.0, 4000: 1.0})  # not a number


def test_the_table_of_growth_has_a_line_for_each_phase_that_was_measured(script):
    growth = script("growth")
    case = {nodes: {"train": {"seconds": nodes / 100, "mib": 5.0 * nodes}} for nodes in (100, 1000)}
    heading, rule, *lines = growth.table({("sisa", 20): case})
    assert heading == "| method | shards | phase | 100 nodes: s, MiB | 1,000 nodes: s, MiB | slope |"
    assert rule.count("|") == heading.count("|")
    assert lines == ["| sisa | 20 | train | 1.00, 500 | 10.00, 5000 | 1.00 |"]


def test_growth_needs_two_sizes(script, capsys):
    with pytest.raises(SystemExit) as caught:
        script("growth").main(["--nodes", "100"])
    assert caught.value.code == 2
    assert "a slope needs at least two sizes" in capsys.readouterr().err


def test_products_are_partitioned_step_by_step_and_a_step_is_not_repeated(script, tmp_path, capsys, monkeypatch):
    products = script("products")
    partitioners = ["hash", "ldg", 'gpa[batch_nodes=512,fanouts="2,2",epochs=1,hidden=8]']
    arguments = ["--scale", "0.002", "--shards", "4", "--folder", str(tmp_path)]
    # Steps run in this process: starting one takes seconds.
    started = []

    def here(command, **options):
        started.append(json.loads(command[-1])[0])
        products.main(command[2:])
        return subprocess.CompletedProcess(command, 0, stdout=capsys.readouterr().out)

    monkeypatch.setattr(products.subprocess, "run", here)
    products.main([*arguments, "--partitioners", *partitioners[:2], "--epochs", "0"])
    products.main([*arguments, "--partitioners", *partitioners, "--epochs", "1"])
    assert started == ["make", "cut", "partition", "partition", "partition", "members"]
    said = capsys.readouterr().out
    assert "4898 nodes, 123718 undirected pairs" in said
    assert "training: 3428 nodes" in said
    rows = [line.strip("| ").split(" | ") for line in said.splitlines() if line.startswith("|")][2:]
    lives = ["train members", "cut what is retained, 1 fewer", "forget 1 node"]
    lives += ["cut what is retained, 100 fewer", "forget 100 nodes"]
    assert [row[0] for row in rows] == ["make the graph", "cut the training subgraph", *partitioners, *lives]
    assert [row[7] for row in rows[5:]] == ["-", "-", "1", "-", "4"]
    training = products.load(tmp_path / products.TRAINING)
    for name, row in zip(partitioners, rows[2:5], strict=True):
        shard = torch.load(products.partition_path(tmp_path, name))
        sizes = torch.bincount(shard, minlength=4)
        assert row[5:7] == [f"{int(sizes.min()):,}", f"{int(sizes.max()):,}"]
        inside = (shard[training.edge_index[0]] == shard[training.edge_index[1]]).double().mean()
        assert row[4] == f"{float(inside):.3f}"
    products.main([*arguments, "--scale", "0.0019", "--partitioners", "hash", "--epochs", "0"])
    assert started[6:] == ["make", "cut", "partition"]


def test_a_step_that_ends_badly_ends_the_benchmark(script, tmp_path, monkeypatch):
    products = script("products")
    failed = subprocess.CompletedProcess([], 3, stdout="")
    monkeypatch.setattr(products.subprocess, "run", lambda *command, **options: failed)
    with pytest.raises(SystemExit, match=r"make.*ended with 3"):
        products.main(["--folder", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_controls_of_smoothing_change_one_thing_each(script):
    controls = script("smoothing_controls")
    graph = toy_graph(num_nodes=60, edges=90)
    made = {name: change(graph) for name, change in controls.CONTROLS.items()}
    parts = {
        name: {part for part in ("x", "y", "edge_index") if not torch.equal(getattr(graph, part), getattr(one, part))}
        for name, one in made.items()
    }
    assert parts == {
        "none": set(), "labels": {"y"}, "features": {"x"}, "edges": {"edge_index"}, "both": {"x", "edge_index"},
    }  # fmt: skip
    assert torch.equal(made["labels"].y.sort().values, graph.y.sort().values)
    assert torch.equal(made["features"].x.sort(dim=0).values, graph.x.sort(dim=0).values)
    assert made["edges"].num_edges == 0
    partly = replace(graph, y=torch.where(torch.arange(60) < 20, -1, graph.y))
    assert torch.equal(controls.CONTROLS["labels"](partly).y < 0, partly.y < 0)


@pytest.mark.slow
def test_a_share_scores_as_a_run_with_it_does(script, monkeypatch, capsys, tmp_path):
    out = tmp_path / "out"
    records = unlearnbench.run(
        "retrain,smoothed[method=retrain,share=0.3],smoothed[method=retrain,share=0.8]",
        datasets="digits", repetitions=1, epochs=3, out=out,
    )  # fmt: skip
    monkeypatch.setattr("sys.argv", ["smoothing_share.py", str(out), "--shares", "0", "0.3", "0.8"])
    script("smoothing_share").main()
    wanted = [f"{100 * record.metrics['val_f1_micro']['full']['after']:.2f}" for record in records]
    _, _, row, _, _, _, mean, over_all = capsys.readouterr().out.splitlines()
    assert row.split() == ["digits", "gcn", "retrain", *wanted]
    assert mean.split()[1:] == over_all.split()[1:] == wanted


def test_homophily_and_majority_leave_nodes_without_a_label_out(script):
    controls = script("smoothing_controls")
    y, pairs = torch.tensor([0, 0, 1, -1, 0]), torch.tensor([[0, 0, 3, 2], [1, 2, 0, 4]])
    graph = Graph(torch.zeros(5, 2), y, torch.cat([pairs, pairs.flip(0)], dim=1), torch.arange(5), 2)
    assert controls.homophily(graph) == pytest.approx(1 / 3)
    assert controls.majority(graph) == pytest.approx(3 / 4)


@pytest.mark.slow
def test_without_information_smoothing_has_none_to_give(script, monkeypatch, capsys):
    controls = script("smoothing_controls")
    asked = ["--datasets", "sbm[num_nodes=300,num_edges=1500,homophily=0.9,signal=3]", "actor", "--repetitions", "2"]
    asked += ["--epochs", "20", "--methods", "retrain", "smoothed[method=retrain]"]
    monkeypatch.setattr("sys.argv", ["smoothing_controls.py", *asked, "--controls", "none", "labels", "both"])
    controls.main()
    notice, head, *lines = capsys.readouterr().out.splitlines()
    assert notice.startswith("# left out: Dataset actor")
    rows = [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]
    full = {(row["control"], row["method"]): float(row["full"]) for row in rows}
    assert {row["n"] for row in rows} == {"2"}
    for method in ("retrain", "smoothed[method=retrain]"):
        assert full["none", method] > 80
        assert full["labels", method] < 45
        assert full["both", method] < 45


def test_missing_evidence_takes_as_long_as_what_is_most_alike(script, tmp_path):
    module = script("evidence_time")
    for seconds, method in ((10.0, "toy"), (20.0, "toy"), (90.0, "other")):
        phases = [{"name": "fit", "seconds": seconds}, {"name": "fit/a", "seconds": 5.0}]
        record = make_record(method, repetition=int(seconds)).model_copy(update={"phases": phases})
        path = tmp_path / "records" / "m" / "d" / method / record.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record.to_json(), "ascii")
    known = module.durations(tmp_path)
    cell = {"key": "a", "dataset": "cora", "model": "gcn", "method": "toy[x=1]", "audit": None, "wanted": True}
    assert module.seconds_of(cell, known) == 15
    assert module.seconds_of({**cell, "method": "new"}, known) == 20
    assert module.seconds_of({**cell, "audit": "distance"}, known) == 20
    cells = [{**cell, "key": str(number), "method": "other"} for number in range(50)]
    said = "== 50 of 50 records are missing: about 1 h 15 min, by the time that alike ones took"
    assert module.sentence([*cells, *cells], known, {"of another cell"}) == said
    assert module.sentence(cells, known, {"1", "2"}) == f"{said}; 2 are there from another machine or a busy one"
    assert module.sentence([{**cell, "wanted": False}], known, {cell["key"]}) == "== all 1 records are there"


def test_evidence_is_planned_in_one_process_and_a_refused_command_says_why(script, tmp_path, monkeypatch, capsys):
    module = script("evidence_time")
    commands = (
        f"run --methods {method} --datasets digits --out {tmp_path}\n" for method in ("sisa", r"sisa\[num_shards=5\]")
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(commands)))
    monkeypatch.setattr("sys.argv", ["evidence_time.py", str(tmp_path)])
    module.main()
    assert capsys.readouterr().out == "== 9 of 9 records are missing: about 1 min, by the time that alike ones took\n"
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit, match=r"(?s)sisaa.*== refused: unlearnbench run --methods sisaa"):
        module.planned("run --methods sisaa --datasets digits")
