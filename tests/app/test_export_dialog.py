from __future__ import annotations

import json
import os
import re
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QLabel, QLineEdit, QProgressBar, QWidget

from app.models.opening import Opened
from app.presenters.export_result import default_budget, export_card
from app.presenters.phases import BROKEN, COMING, DONE, PRESENT, PhaseRow, Story, export_phases
from app.presenters.schedule_rows import grouped
from app.state.saved import listed
from app.state.solve import BudgetStanding
from app.theme import CurrentTheme, ThemeChoice
from app.views.dialogs.export_dialog import ExportDialog
from checkmate.errors import FormatError
from checkmate.formats.exploration import SavedExploration, read_exploration, write_exploration
from checkmate.formats.schedule import read_schedule, result_to_json
from checkmate.ir import SolveResult
from checkmate.ir.result import MeasuredSchedule
from checkmate.planning.solving import solve
from checkmate.processes.messages import Cancel, JobCancelled, JobFailed, JobProgress
from checkmate.progress import Progress
from checkmate.request import ModelRequest
from checkmate.runner import RUNNERS
from checkmate.units import Budget
from checkmate.workers.window_messages import Export, Exported
from tests.app.windows import button, open_chain, said, training_chain
from tests.programs import run_python
from tests.quick_start import QUICK
from tests.zoo.names import zoo_request

pytest.importorskip("tensorflow")
MIB = 2**20
CONVNET = f"{Path(__file__).parents[1].joinpath('tf', 'small_models.py')}:convnet"
COPY = "Copy the three lines that train with it"
REQUEST = ModelRequest(CONVNET, batch_size=16, device="cpu", allow_code=True)


@pytest.fixture
def profiled(window, exploration, qtbot):
    """A window with a small profiled network, and a recomputing schedule on screen."""
    with qtbot.waitSignal(exploration.graph_changed, timeout=120000):
        window.session.profile(REQUEST, costs="analytic")
    enough = 0.8 * exploration.plain.peak_bytes
    qtbot.waitUntil(lambda: exploration.known[0].peak_bytes < enough, timeout=60000)
    window.session.stop_solve()
    exploration.show(exploration.known[0])
    return window


def export_dialog(qtbot, session, parent=None) -> ExportDialog:
    dialog = ExportDialog(session, CurrentTheme(ThemeChoice.LIGHT), parent)
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


@pytest.mark.parametrize(
    "stages",
    [
        pytest.param(("measuring the scheduled step",), marks=pytest.mark.heavy),
        pytest.param(
            ("tracing", "writing the SavedModel", "measuring the reloaded step"), marks=pytest.mark.long
        ),
    ],
)
def test_device_process_killed_while_it_exports(stages, profiled, qtbot, tmp_path) -> None:
    session = profiled.session
    shown, folder = session.exploration.shown, tmp_path / "out"
    dialog = export_dialog(qtbot, session, profiled)
    dialog.findChildren(QLineEdit)[0].setText(str(folder))
    dialog.findChildren(QLineEdit)[1].setText("1GiB")
    messages: list[str] = []
    session.progressed.connect(lambda stage, message, *_: messages.append(message))
    ended = "The device process ended (signal 9). Nothing was lost."
    for doing in stages:
        messages.clear()
        button(dialog, "Export and verify").click()
        qtbot.waitUntil(lambda doing=doing: any(doing in message for message in messages), timeout=240000)
        own = psutil.Process(session.device.process.pid)
        helpers = own.children(recursive=True)
        os.kill(own.pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: ended in said(dialog), timeout=20000)
        assert session.exploration.graph is shown.graph and session.exploration.shown is not None
        assert bool(helpers) is doing.startswith("measuring")
        _, left = psutil.wait_procs(helpers, timeout=10)
        assert not left, doing
    with qtbot.waitSignal(session.device_ended, timeout=600000):
        button(dialog, "Export and verify").click()
    qtbot.waitUntil(lambda: "after reloading" in said(dialog), timeout=5000)
    assert "✓ bitwise equal to the plain step's" in said(dialog)
    assert [one for one in tmp_path.iterdir() if one != folder] == []  # nor what the killed ones staged
    written = read_schedule(folder / "schedule.json", shown.graph)
    assert written.schedule.steps.tolist() == shown.schedule.steps.tolist()
    measured = session.exploration.measured_shown
    assert measured is not None and list(measured.steps) == shown.schedule.steps.tolist()


@pytest.mark.heavy
def test_a_graph_of_another_step_is_profiled_again_on_a_click(window, qtbot, tmp_path: Path) -> None:
    session, exploration = window.session, window.session.exploration
    with qtbot.waitSignal(exploration.graph_changed, timeout=240000):
        session.profile(request := zoo_request("two_io", 16), costs="analytic")
    window.trust(request.model)
    graph = exploration.graph
    wider = tuple(replace(value, shape=value.shape and (*value.shape, 1)) for value in graph.values)
    session.use_graph(replace(graph, values=(replace(wider[0], bytes=wider[0].bytes + 8), *wider[1:])))
    qtbot.waitUntil(lambda: exploration.shown is not None, timeout=60000)
    dialog = export_dialog(qtbot, session, window)
    dialog.findChildren(QLineEdit)[0].setText(str(tmp_path / "out"))
    with qtbot.waitSignal(session.step_changed, timeout=240000):
        button(dialog, "Export and verify").click()
    assert "was made for graph" in said(dialog) and "has changed" in window.notice.text
    assert not (tmp_path / "out").exists()
    dialog.close()
    assert window.notice.action.text() == "Profile again"
    with qtbot.waitSignal(exploration.graph_changed, timeout=240000):
        window.notice.action.click()
    assert exploration.graph.fingerprint == graph.fingerprint
    session.cancel_device()


@pytest.mark.heavy
def test_a_schedule_that_measures_over_the_budget_is_replaced(profiled, qtbot, tmp_path: Path) -> None:
    session, exploration = profiled.session, profiled.session.exploration
    asked, plain = exploration.plain, exploration.plain.peak_bytes
    exploration.show(asked)
    dialog = export_dialog(qtbot, session, profiled)
    folder, budget = tmp_path / "out", int(0.97 * plain)  # its chunks need more
    dialog.findChildren(QLineEdit)[0].setText(str(folder))
    dialog.findChildren(QLineEdit)[1].setText(f"{budget}")
    messages: list[str] = []
    session.progressed.connect(lambda stage, message, *_: messages.append(message))
    with qtbot.waitSignal(session.exported, timeout=1200000) as told:
        button(dialog, "Export and verify").click()
    report = told.args[0]
    assert report["ok"] and report["budget_bytes"] == budget
    assert max(report["peak_bytes"]["measured"], report["peak_bytes"]["reloaded_measured"]) <= budget
    assert any(message.startswith("solving for ") for message in messages)
    written = read_schedule(folder / "schedule.json", asked.graph)
    assert written.schedule.recomputations > 0
    # The written schedule is on screen, with its measurements.
    assert exploration.shown.schedule.steps.tolist() == written.schedule.steps.tolist()
    measured = exploration.measured_shown
    assert measured is not None and max(measured.live_bytes) == report["peak_bytes"]["measured_requested"]
    assert "replaced it" in said(dialog)
    button(dialog, COPY).click()
    data = f"import runpy; data = runpy.run_path({str(folder / 'train_example.py')!r})['batches'](2, 0)\n"
    program = f"{data}{QGuiApplication.clipboard().text()}print(float(found['loss']) > 0)"
    assert run_python("-c", program, **QUICK).stdout.splitlines()[-1] == "True"


def a_report(steps: int, **changes: object) -> dict:
    """Return the device process's report, with figures of a small step."""
    return {
        "model": "chain",
        "device": "a CPU",
        "batch_size": 8,
        "budget_bytes": 30 * MIB,
        "ok": True,
        "problems": [],
        "notes": ["one note"],
        "recomputations": 1,
        "steps": steps,
        "measured_live_bytes": [MIB * (1 + i % 7) for i in range(steps)],
        "gradients": {"equal": True, "bitwise": True, "batch_size": 8},
        "peak_bytes": {
            "predicted": 20 * MIB,
            "measured": 21 * MIB,
            "predicted_requested": 18 * MIB,
            "measured_requested": 19 * MIB,
            "plain_predicted": 40 * MIB,
            "plain_measured": 41 * MIB,
            "reloaded_measured": 22 * MIB,
        },
        "seconds": {"predicted": 0.5, "measured": 0.6, "plain_predicted": 0.4, "plain_measured": 0.45},
        **changes,
    }


@pytest.fixture
def exporting(window, qtbot, monkeypatch):
    """A chain and a device process that answers as the test chooses; what it is sent is recorded."""
    open_chain(window, qtbot)
    window.session.stop_solve()
    graph = replace(window.session.exploration.graph, metadata={"request": {"model": "chain"}})
    window.session.use_graph(graph)
    sent: list[Export | Cancel] = []
    monkeypatch.setattr(window.session.device, "send", sent.append)

    def answer(result: SolveResult, report: dict) -> None:
        written = json.dumps(result_to_json(graph, result)).encode()
        window.session.device._on_received(Exported(sent[-1].job, report, written))

    return window.session, sent, answer


def smaller(session) -> SolveResult:
    exploration = session.exploration
    found = solve(exploration.graph, int(0.75 * exploration.plain.peak_bytes), solver="greedy")
    assert found.schedule is not None and found.schedule.recomputations
    return found


def test_the_budget_is_sent_to_the_byte(exporting, qtbot, tmp_path: Path) -> None:
    session, sent, _ = exporting
    dialog = export_dialog(qtbot, session)
    folder, budget = dialog.findChildren(QLineEdit)
    folder.setText(str(tmp_path / "out"))
    default = default_budget(session.exploration.shown, session.exploration.budget_bytes)
    # A step that recomputes nothing has space for its chunks.
    assert default > session.exploration.plain.peak_bytes
    budget.setText("nonsense")
    button(dialog, "Export and verify").click()
    assert sent == [] and "Cannot read" in said(dialog) and button(dialog, "Export and verify").isEnabled()
    for text, told in (("60%", Budget(share=0.6)), ("20 MiB", Budget(bytes_=20 * MIB))):
        budget.setText(text)
        button(dialog, "Export and verify").click()
        assert sent[-1].budget == told and sent[-1].constraints is None
        assert not budget.isEnabled() and button(dialog, "Cancel").isEnabled()
        session.device._on_received(JobCancelled(sent[-1].job))
        assert budget.isEnabled()
    dialog.close()
    exploration = session.exploration
    result = smaller(session)
    exploration.show(listed(result, exploration.what_if))
    assert default_budget(exploration.shown, result.budget_bytes) == result.budget_bytes
    again = export_dialog(qtbot, session)
    button(again, "Export and verify").click()
    assert sent[-1].budget.bytes_ == max(exploration.budget_bytes, exploration.shown.peak_bytes)


def test_what_an_export_found_over_its_budget_is_marked_and_not_recommended(exporting, qtbot, window) -> None:
    session, _, answer = exporting
    exploration = session.exploration
    for share in (0.75, 0.6):
        found = solve(exploration.graph, int(share * exploration.plain.peak_bytes), solver="greedy")
        exploration.add(found.schedule.steps, budget_bytes=found.budget_bytes, solver="greedy", seconds=0.0)
    small, asked = exploration.known[0], exploration.known[1]
    exploration.set_budget(asked.peak_bytes)
    assert exploration.shown is asked
    dialog = export_dialog(qtbot, session)
    button(dialog, "Export and verify").click()
    answer(small.result(), a_report(len(small.schedule.steps), budget_bytes=asked.peak_bytes))
    assert exploration.shown.key == small.key  # what was written
    rows = {row.found.key: row for group in grouped(exploration.what_if, []).values() for row in group}
    assert rows[asked.key].detail == "over its budget when it was exported" != rows[small.key].detail
    assert exploration.better is None and exploration.standing.fit is BudgetStanding.BEST
    assert asked not in exploration.offered and small in exploration.offered
    exploration.set_budget(asked.peak_bytes + 1)  # with more, it may keep it
    assert exploration.shown is asked


def test_a_graph_for_xla_says_so_and_is_exported_for_a_share(exporting, qtbot, window) -> None:
    session, sent, _ = exporting
    assert "XLA" not in window._facts.text()
    graph = session.exploration.graph
    session.use_graph(replace(graph, metadata={**graph.metadata, "target": "xla"}))
    assert window._facts.text().endswith("compiled by XLA") and "other bytes" in window._facts.toolTip()
    exploration, result = session.exploration, smaller(session)
    exploration.show(listed(result, exploration.what_if))
    dialog = export_dialog(qtbot, session)
    assert "XLA compiles it where it is loaded" in said(dialog)
    budget = dialog.findChildren(QLineEdit)[1]
    assert budget.text().endswith("%")
    button(dialog, "Export and verify").click()
    wanted = max(exploration.budget_bytes, exploration.shown.peak_bytes) / exploration.plain.peak_bytes
    assert sent[-1].budget == Budget(share=min(1.0, wanted))
    session.device._on_received(JobCancelled(sent[-1].job))


def test_return_in_a_field_begins_the_export(exporting, qtbot, tmp_path: Path) -> None:
    session, sent, _ = exporting
    dialog = export_dialog(qtbot, session)
    folder, _ = dialog.findChildren(QLineEdit)
    folder.setText(str(tmp_path / "out"))
    qtbot.keyClick(folder, Qt.Key.Key_Return)  # opened the folder chooser before
    qtbot.keyClick(dialog.focusWidget() or dialog, Qt.Key.Key_Return)  # held too long, and pressed Cancel
    assert len(sent) == 1
    session.device._on_received(JobCancelled(sent[-1].job))


def named(curve) -> set[str]:
    return {entry.words for entry in curve.legend_entries()}


def test_the_written_schedule_is_shown_with_its_measurements(exporting, qtbot, window, tmp_path) -> None:
    session, _, answer = exporting
    exploration, curve = session.exploration, window.explorer.curve
    dialog = export_dialog(qtbot, session)
    button(dialog, "Export and verify").click()
    assert "measured" not in named(curve) and exploration.measured_shown is None
    result = smaller(session)
    steps = result.schedule.steps.tolist()
    answer(result, a_report(len(steps)))
    assert exploration.shown.schedule.steps.tolist() == steps
    assert exploration.measured_shown.peak_bytes == 21 * MIB
    for word in ("21.0 MiB", "20.0 MiB", "600 ms", "500 ms", "One note.", "bitwise equal"):
        assert word in said(dialog)
    for word in ("Plain step 41.0 MiB measured", "Exported step 22.0 MiB measured", "budget 30.0 MiB"):
        assert any(word in part.accessibleName() for part in dialog.findChildren(QWidget))
    assert {"predicted", "measured"} <= named(curve) and curve._measured.isVisible()
    assert max(curve._measured.yData) * curve._size == 7 * MIB
    # Another schedule was not run, so nothing is said of it.
    exploration.show(exploration.plain)
    assert not curve._measured.isVisible() and "measured" not in named(curve)
    path = tmp_path / "e.json"
    assert session.save(path)
    session.open_file(path, at_once=True)
    kept = next(found for found in exploration.known if found.schedule.steps.tolist() == steps)
    exploration.show(kept)
    assert exploration.measured_shown.live_bytes == tuple(MIB * (1 + i % 7) for i in range(len(steps)))
    assert curve._measured.isVisible()


def seen(dialog: ExportDialog) -> str:
    return " ".join(one.text() for one in dialog.findChildren(QLabel) if one.isVisible())


def story(dialog: ExportDialog) -> list[str]:
    """The phases as they are listed, each with its mark."""
    lines = [one for one in dialog.findChildren(QLabel, "phase") if one.isVisible()]
    return [re.sub("<[^>]*>", "", one.text()).replace("\u00a0\u00a0", " ") for one in lines]


LOADED = ["✓ Load the model", "✓ Trace the training step", "✓ Measure the plain step"]
REST = ["○ Compare gradients, write the SavedModel", "○ Reload and measure it, with TensorFlow alone"]


def test_an_export_is_told_phase_by_phase(exporting, qtbot, monkeypatch: pytest.MonkeyPatch) -> None:
    session, sent, _ = exporting
    now = [100.0]
    monkeypatch.setattr("app.views.common.phase_list.time.monotonic", lambda: now[0])
    dialog = export_dialog(qtbot, session)
    assert story(dialog) == []
    button(dialog, "Export and verify").click()

    def tell(stage: str, at: float, done: float = 0.0, total: float | None = None) -> None:
        now[0] = at
        session.device._on_received(JobProgress(sent[0].job, Progress(stage, done, total, f"now {stage}")))

    tell("trace", 102.0)
    tell("fold", 103.0)  # of the same phase
    tell("measure", 107.0)
    assert story(dialog) == [*LOADED[:2], "● Measure the plain step", "○ Measure the schedule", *REST]
    bar = dialog.findChild(QProgressBar)
    assert bar.value() / bar.maximum() == pytest.approx(2 / 6, abs=1e-3)
    assert "Phase 3 of 6: now measure" in seen(dialog)
    tell("measure", 110.0, 1.0, 2.0)
    assert bar.value() / bar.maximum() == pytest.approx(2.5 / 6, abs=1e-3)
    tell("run", 112.0)
    tell("solve", 120.0)  # it was over the budget
    tell("run", 121.0)
    tell("verify", 130.0)
    tell("export", 131.0)  # while it is compared
    tell("verify", 132.0)
    done = "✓ Measure the schedule", "✓ Solve for a smaller schedule", "✓ Measure the schedule, attempt 2"
    assert story(dialog) == [*LOADED, *done, REST[0].replace(COMING, PRESENT), REST[1]]
    assert bar.value() / bar.maximum() == pytest.approx(6 / 8, abs=1e-3)
    seconds = [one.text() for one in dialog.findChildren(QLabel, "muted") if one.text().endswith(" s")]
    assert seconds == ["2 s", "5 s", "5 s", "8 s", "1 s", "9 s", "2 s"]
    session.device._on_received(JobCancelled(sent[0].job))
    assert REST[0].replace(COMING, BROKEN) in story(dialog)


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.by or "executor")
def test_a_story_of_any_reports_has_one_present_phase_and_a_true_share(runner) -> None:
    draw, phases = Random(7), export_phases(runner)
    stages = [stage for phase in phases for stage in phase.stages]
    for _ in range(200):
        told, heard = Story(phases, ((0, 0.0),)), draw.choices([*stages, "unknown"], k=draw.randrange(40))
        for at, stage in enumerate(heard, 1):
            told = told.told(stage, draw.choice((0, 1, 3)), draw.choice((0, 3)), float(at))
            assert stage == "unknown" or stage in phases[told.begun[-1][0]].stages
        rows = told.rows(len(heard) + 1.0)
        (present,) = (number for number, row in enumerate(rows) if row.mark == PRESENT)
        assert {row.mark for row in rows[:present]} <= {DONE} and present < 13
        assert rows[present + 1 :] == [PhaseRow(COMING, phase.title) for phase in told.coming]
        assert 0 <= told.finished <= 1 and (told.finished < 1 or told.share == 1)
        assert sum(float(row.seconds[:-2]) for row in rows[: present + 1]) == len(heard) + 1


@pytest.mark.parametrize(
    "stage", ["", *(stage for phase in export_phases(RUNNERS[0]) for stage in phase.stages)]
)
def test_cancel_is_told_in_every_phase(exporting, qtbot, tmp_path: Path, stage: str) -> None:
    session, sent, _ = exporting
    dialog = export_dialog(qtbot, session)
    folder, earlier = tmp_path / "out", [tmp_path / ".out-begun_it"]
    earlier[0].mkdir()
    dialog.findChildren(QLineEdit)[0].setText(str(folder))
    button(dialog, "Export and verify").click()
    staged = Path(tempfile.mkdtemp(prefix=".out-", dir=tmp_path))  # as a process leaves that is killed
    earlier += [Path(tempfile.mkdtemp(prefix=f".{other}-", dir=tmp_path)) for other in ("out-old", "out-2")]
    if stage:
        session.device._on_received(JobProgress(sent[0].job, Progress(stage, message="at work")))
    if stage == "solve":  # the attempt before
        folder.mkdir()
        (folder / "report.json").write_text("{}")
    button(dialog, "Cancel").click()
    assert isinstance(sent[1], Cancel) and "Cancelling." in seen(dialog) and dialog.isVisible()
    dialog.close()
    assert dialog.isVisible() and len(sent) == 2 and not button(dialog, "Cancelling…").isEnabled()
    session.device.give_up()  # it does not answer
    assert button(dialog, "Close").isEnabled() and button(dialog, "Export and verify").isEnabled()
    what = f"{folder} holds the attempt before" if stage == "solve" else "Nothing was written."
    assert "Cancelled." in seen(dialog) and what in seen(dialog) and "Not exported" not in seen(dialog)
    assert not staged.exists() and all(one.exists() for one in earlier)


def test_what_ends_an_export_is_not_confused(exporting, qtbot, window) -> None:
    session, sent, _ = exporting
    dialog = export_dialog(qtbot, session)
    start = button(dialog, "Export and verify")
    start.click()
    session.failed.emit("cannot write the report", "choose another place")  # which is no part of the export
    assert "report" not in seen(dialog) and not start.isEnabled()
    session.device._on_received(
        JobFailed(sent[-1].job, "ExportError", "the <disk> is full", "free some space")
    )
    assert "Not exported. The &lt;disk&gt; is full." in seen(dialog) and "Free some space." in seen(dialog)
    assert "ancelled" not in seen(dialog) and start.isEnabled()
    start.click()
    assert "full" not in seen(dialog)
    session._on_opened(Opened.of(training_chain(4)))
    assert "because another graph was opened" in seen(dialog) and "ancelled" not in seen(dialog)


def test_a_missed_budget_comes_first_with_what_to_do(exporting, qtbot, monkeypatch, tmp_path) -> None:
    session, _, answer = exporting
    dialog = export_dialog(qtbot, session)
    dialog.findChildren(QLineEdit)[0].setText(str(tmp_path / "my out"))
    button(dialog, "Export and verify").click()
    result = smaller(session)
    over = ["the reloaded step's measured peak is over"]
    report = a_report(len(result.schedule.steps), ok=False, problems=over)
    report["peak_bytes"]["reloaded_measured"] = 33 * MIB
    answer(result, report)
    assert [one.text() for one in dialog.findChildren(QLabel, "problem")] == [
        "The reloaded step's measured peak is over.",
        "Try a budget of 33.7 MiB.",
    ]
    assert story(dialog) == [] and button(dialog, "Export and verify").isVisible()
    button(dialog, COPY).click()
    lines = QGuiApplication.clipboard().text().splitlines()
    documented = Path(__file__).parents[2].joinpath("docs", "pages", "tutorial", "export.md").read_text()
    assert lines[1] == f"model = tf.saved_model.load({str(tmp_path / 'my out' / 'saved_model')!r})"
    assert 'model = tf.saved_model.load("out/saved_model")' in documented
    assert "train_step(*inputs, *labels)" in documented and "model.train_step(*batch)" in lines[2]
    assert len(lines) == 3 and compile("\n".join(lines), "", "exec")
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: bool(opened.append(url.toLocalFile())))
    button(dialog, "Open folder").click()
    assert opened == [str(tmp_path / "my out")]
    dialog._budget.setText("34 MiB")
    button(dialog, "Export and verify").click()
    assert "Try a budget" not in seen(dialog)
    report = a_report(len(result.schedule.steps), budget_bytes=34 * MIB)
    answer(result, report)
    assert not button(dialog, "Export and verify").isVisible() and button(dialog, "Close").isVisible()


def test_a_plain_step_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_bytes(bytes(3 * 2**20))
    report = a_report(3)
    report["peak_bytes"]["plain_measured"] = report["seconds"]["plain_measured"] = None
    report["gradients"]["batch_size"] = 4
    card = export_card(report, tmp_path)
    facts = dict(card.facts)
    assert [(bar.size, bar.how) for bar in card.bars] == [
        (40 * MIB, "predicted, does not fit"),
        (22 * MIB, "measured"),
    ]
    assert "at batch 4, where the plain step fits" in facts["Gradients"] and card.missed == ()
    assert facts["Written"] == f"{tmp_path}, 3.00 MiB" and facts["A step"].startswith("600 ms measured")
    report["gradients"] = {"equal": None, "bitwise": None, "batch_size": None}
    report["seconds"]["measured"] = None
    report |= {"ok": False, "problems": ["the gradients were <not> compared"]}
    card = export_card(report, tmp_path)
    facts = dict(card.facts)
    assert facts["Gradients"] == "not compared" and facts["A step"] == "not measured; predicted 500 ms"
    assert card.missed == ("The gradients were <not> compared.",)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"equal": True, "bitwise": True}, "✓ bitwise equal to the plain step's"),
        (
            {"equal": True, "bitwise": False, "exact_worst": {"name": "a/b", "relative_error": 2e-7}},
            "✓ equal to rounding: at most 2.0e-07 apart (a/b)",
        ),
        ({"equal": True, "bitwise": False}, "✓ equal to rounding"),
        ({"equal": False, "bitwise": False}, "✗ not the plain step's"),
        ({"equal": None, "bitwise": None}, "not compared"),
    ],
)
def test_what_was_compared_is_said_as_it_was_found(found: dict, words: str) -> None:
    assert dict(export_card(a_report(3, gradients=found), Path("none")).facts)["Gradients"] == words


def test_an_impossible_measurement_in_a_file_is_refused(tmp_path: Path) -> None:
    graph = training_chain(4)
    saved = SavedExploration(graph, 0, (), (), measured=(MeasuredSchedule((0, 1), (5,), 9, 0.1),))
    write_exploration(tmp_path / "e.json", saved)
    with pytest.raises(FormatError, match=r"measured\[0\].live_bytes has no size for each of the 2 steps"):
        read_exploration(tmp_path / "e.json")
