from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from checkmate.formats import write_graph
from checkmate.ir import Graph
from tests.end2end.test_cli import call
from tests.graphs_strategies import training_chain


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("frob", "invalid choice: 'frob'"),
        ("explor unet", "did you mean explore?  see: checkmate --help"),
        ("run unet --budgt 60%", "did you mean --budget?  see: checkmate run --help"),
        ("list models more", "unrecognized arguments: more"),
        ("desktop --potato", "see: checkmate desktop --help"),
        ("solve {graph}", "one of the arguments --budget --max-overhead is required"),
        ("solve {graph} --budget 60 --solver nope", "there is no solver 'nope'"),
        ("solve {graph} --budget 60 --time-limit soon", "'soon' is not a number of seconds"),
        ("solve {graph} --budget 60 --gap -1", "'-1' is not a fraction; write it like 0.01"),
        ("solve {graph} --budget 60 --workers 0", "'0' is not a whole number of at least 1"),
        ("solve none.json --budget 60", "there is no file none.json"),
        ("solve {graph} --budget -3GiB", "a budget of -3GiB is not positive; write it like"),
        ("frontier {graph} --budgets -3GiB,60%", "a budget of -3GiB is not positive"),
        ("max-batch {graph} --budget -16GiB", "a budget of -16GiB is not positive"),
        ("solve {graph} --budget 110%", "more than keeping everything takes; write 100% or less"),
        ("solve unet-b8.graph --budget 60", "60 bytes is less than any step needs"),
        ("frontier unet-b8.graph --budgets 60,80", "60 bytes is less than any step needs"),
        ("run unet --budget 60 -o out", 'write "60%" for a share'),
        ("solve {graph} --budget 60 -o {graph}/s.json", "there is no folder {graph}"),
        ("solve {graph} --budget 60 -o {graph}", "is to be read and would be overwritten"),
        ("certify {graph} {cut} -o {cut}", "is to be read and would be overwritten"),
        ("profile {cut}:make_model -o {cut}", "is to be read and would be overwritten"),
        ("solve {graph} --budget 60 --matrices {graph}/m.npz", "there is no folder {graph}"),
        ("info {cut}", "{cut} is cut off: the JSON ends too early, in line 1"),
        ("check {graph} {graph}", "format is 'checkmate-graph', not 'checkmate-schedule'"),
        ("verify unet {graph} -g {graph}", "was not profiled from a Keras model"),
        ("profile unet -b 0 -o x.json", "'0' is not a whole number of at least 1"),
        ("profile unet -o {graph}/g.json", "there is no folder {graph}"),
        ("profile unet --input-shape a,b -o x.json", "'a,b' is not a shape; write it like 224,224,3"),
        ("explore --size big", "'big' is not a window size; write it like 1600x1000"),
        ("frontier {graph} --budgets 1", "a curve needs at least two budgets"),
        ("frontier {graph} --budgets 50%,potatoes", "cannot read 'potatoes' as a budget"),
        ("frontier {graph} --budgets ''", "cannot read '' as a budget"),
        ("frontier {graph} --time-limit 0", "'0' is not a number of seconds"),
        ("frontier {graph} --solver simplex", "there is no solver 'simplex'"),
        ("frontier {graph} --baseline simplex", "there is no solver 'simplex'"),
        ("frontier {graph} --svg curve.csv", "'curve.csv' does not end in .svg"),
        (
            "frontier {graph} -o curve.png",
            "'curve.png' ends in no known format; end it in .svg, .csv or .json",
        ),
        ("frontier {graph} -o nowhere/curve.svg", "cannot write nowhere/curve.svg: there is no folder"),
        ("frontier {graph} {four} --engine spark://here:1", "'spark://here:1' is not an engine"),
        ("frontier {graph} {four} --jobs 0", "'0' is not a whole number of at least 1"),
        ("frontier {graph} {four} --moves 10", "solver 'auto' does not count moves"),
        ("frontier {graph} {four} -o curve.svg", "several curves cannot go into one curve.svg"),
        ("frontier {graph} {four} --journal none/sweep.jsonl", "there is no folder"),
        ("frontier {graph} {four} --journal {four}", "is not the journal of a sweep"),
        ("max-batch {four}", "the following arguments are required: --budget"),
        (
            "max-batch {four} --budget 60%",
            "'60%' depends on the batch; write the budget as a size, like 16GiB",
        ),
        ("max-batch {four} --budget min", "'min' depends on the batch"),
        ("max-batch {four} --budget 1G --batch-size 0", "'0' is not a whole number of at least 1"),
        ("max-batch {four} --budget 1G --batch-size 5", "'chain' says that its batch size is 4, not 5"),
        ("max-batch {four} --budget 1G --max-overhead few", "cannot read 'few' as an extra cost"),
        ("max-batch {four} --budget 1G --fixed much", "cannot read 'much' as a size"),
        ("max-batch {four} --budget 1G -o {folder}/s.json -g {folder}/s.json", "cannot go into one file"),
        ("max-batch {four} --budget 1G -g {four}", "is the graph that is read"),
        ("solve {layers} --budget 60 --max-overhead 5%", "not allowed with argument"),
        (
            "solve {layers} --max-overhead=-5%",
            "'-5%' is impossible: no schedule costs less than computing everything once",
        ),
        ("solve {layers} --max-overhead 5", "'5' could mean 5 % or 500 %; write the % sign"),
        (
            "solve {layers} --max-overhead few",
            "cannot read 'few' as an extra cost; write it like 5%, 0.05 or any",
        ),
        ("solve {layers} --max-overhead nan", "cannot read 'nan' as an extra cost"),
        (
            "solve {layers} --max-overhead 5% --solver greedy",
            "works with the solver auto only, not with greedy",
        ),
        ("solve {layers} --budget 60 --keep blok", "there is no value or layer 'blok' in the graph"),
        ("solve {layers} --budget 60 --never-recompute a0", "there is no op or layer 'a0' in the graph"),
    ],
)
def test_bad_usage(
    line: str,
    sentence: str,
    chain: Graph,
    chain_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {name: str(tmp_path / f"{name}.json") for name in ("cut", "four", "layers")}
    names |= {"graph": str(chain_file), "folder": str(tmp_path)}
    Path(names["cut"]).write_bytes(chain_file.read_bytes()[:200])
    write_graph(Path(names["four"]), replace(training_chain(8, bytes_=12), batch_size=4))
    # block/0 makes a0 and a1, and so on
    ops = tuple(replace(op, group=f"block/{int(op.name[1:]) // 2}") for op in chain.ops)
    write_graph(Path(names["layers"]), replace(chain, ops=ops))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code, text, err = call(capsys, *(word.format(**names) for word in shlex.split(line)))
    assert (code, text) == (2, "")
    assert sentence.format(**names) in err and err.startswith("checkmate: ")
    assert err.count("\n") <= 2 and "Traceback" not in err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before, "something is left behind"
