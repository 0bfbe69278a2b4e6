from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QComboBox, QFormLayout, QLineEdit, QWidget

from app.views.common.texts import WrappedLabel
from app.views.common.widgets import (
    ChoiceBox,
    Dialog,
    NumberBox,
    ask_source,
    called,
    in_column,
    in_row,
    label,
    push_button,
)
from checkmate.catalog.samples import SAMPLES, find_sample
from checkmate.request import ModelRequest, Target, parse_shape

_OWN = "The model's own"
_OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "lion", "adafactor")
_POLICIES = ("mixed_float16", "mixed_bfloat16")
_FIRST_GPU = "GPU if there is one, else CPU"
_DEVICES = ("cpu", "gpu", "gpu:1")
_TARGETS = {Target.EXECUTOR: "TensorFlow's executor, op after op", Target.XLA: "XLA, compiled as a whole"}
_MODELS = "A file, a sample, keras.applications.NAME, or file.py:function (a model or a step)"
_MOST = 1_000_000  # samples in a batch


class ModelDialog(Dialog):
    """A dialog that asks for a model and how to train it. That is batch size, input shape, optimizer,
    precision, device, and what runs the step. Signals: ``asked(request)``: profile this."""

    asked = Signal(object)

    def __init__(self, first: ModelRequest, parent: QWidget | None = None) -> None:
        super().__init__(parent, "Profile a model", once=True)
        self._first = first
        self.model = _choice("Model", [sample.name for sample in SAMPLES], first.model, free=True)
        self.batch = called(NumberBox(minimum=1, maximum=_MOST, value=first.batch_size), "Batch size")
        shape = "" if first.input_shape is None else ",".join(map(str, first.input_shape))
        self.shape = called(
            QLineEdit(shape, placeholderText=f"{_OWN}; or one like 224,224,3"),
            "Input shape, without the batch",
        )
        self.optimizer = _choice("Optimizer", [_OWN, *_OPTIMIZERS], first.optimizer or _OWN, free=True)
        self.precision = _choice("Precision", [_OWN, *_POLICIES], first.mixed_precision or _OWN)
        self.device = _choice("Device", [_FIRST_GPU, *_DEVICES], first.device or _FIRST_GPU)
        target = _OWN if first.target is None else _TARGETS[Target(first.target)]
        self.target = _choice("What runs the step", [_OWN, *_TARGETS.values()], target)
        self.target.setToolTip("The model's own: XLA where it is compiled with jit_compile=True")
        self._problem = label("", name="problem", wrap=True)
        self._problem.hide()
        start = push_button("Profile", self._on_start, "primary")
        start.setDefault(True)
        buttons = in_row(None, push_button("Cancel", self.reject), start)
        self.setLayout(in_column(self._form(), self._problem, buttons))
        self.model.currentTextChanged.connect(self._on_model)
        self.setMinimumWidth(520)

    def _form(self) -> QFormLayout:
        form = QFormLayout()
        form.addRow("Model", in_row((self.model, 1), push_button("Choose…", self._on_browse)))
        form.addRow("", WrappedLabel(_MODELS))
        for name, field in (
            ("Batch size", self.batch),
            ("Input shape", self.shape),
            ("Optimizer", self.optimizer),
            ("Precision", self.precision),
            ("Device", self.device),
            ("Runs on", self.target),
        ):
            form.addRow(name, field)
        return form

    def _on_browse(self) -> None:
        if path := ask_source(self, "Choose a model", "Keras models (*.keras *.h5)"):
            self.model.setCurrentText(str(path))

    def _on_model(self, name: str) -> None:
        sample = find_sample(name)
        if sample is not None:
            self.batch.setValue(sample.batch_size)

    def request(self) -> ModelRequest:
        model = self.model.currentText().strip()
        if not model:
            raise ValueError("Name a model, or choose a file.")
        shape = self.shape.text().strip()
        return replace(
            self._first,
            model=model,
            batch_size=self.batch.value(),
            # An example has its own batch size: one that nobody touched must not be held against it.
            batch_chosen=self.batch.value() != self._first.batch_size,
            input_shape=parse_shape(shape) if shape else None,
            optimizer=_chosen(self.optimizer, _OWN),
            mixed_precision=_chosen(self.precision, _OWN),
            device=_chosen(self.device, _FIRST_GPU),
            target=_target(self.target.currentText()),
            loss=self._first.loss if model == self._first.model else None,
            kernels=None,
            allow_code=False,
        )

    def _on_start(self) -> None:
        try:
            request = self.request()
        except ValueError as error:
            self._problem.setText(str(error))
            self._problem.show()
            return
        self.accept()
        self.asked.emit(request)


def _choice(name: str, entries: list[str], chosen: str, *, free: bool = False) -> QComboBox:
    made = called(ChoiceBox(editable=free), name)
    made.addItems(entries if chosen in entries else [chosen, *entries])
    made.setCurrentText(chosen)
    made.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
    return made


def _target(name: str) -> str | None:
    return next((target.value for target, known in _TARGETS.items() if known == name), None)


def _chosen(field: QComboBox, default: str) -> str | None:
    text = field.currentText().strip()
    return None if text in ("", default) else text
