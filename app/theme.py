from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QIcon, QPalette, QPixmap
from PySide6.QtWidgets import QApplication

from checkmate.catalog.bundled import contents, resource


@dataclass(frozen=True, eq=False)
class Theme:
    """The colours of a theme by role, derived from Okabe and Ito's. Each role also has a second cue (shape,
    badge, dash) wherever it is drawn."""

    name: str
    tokens: Mapping[str, str]

    def color(self, role: str, alpha: int = 255) -> QColor:
        color = QColor(self.tokens[role])
        color.setAlpha(alpha)
        return color


_COLORS = {  # role: in the light and in the dark theme
    "window": ("#eef0f4", "#14161b"),
    "panel": ("#ffffff", "#1c1f26"),
    "raised": ("#f6f7f9", "#252932"),
    "border": ("#d9dde5", "#343a46"),
    "grid": ("#e8ebf0", "#2a2f39"),
    "text": ("#1a1d24", "#e8eaf0"),
    "muted": ("#5a6372", "#9aa3b2"),
    "accent": ("#2f5bd8", "#7aa2ff"),
    "on_accent": ("#ffffff", "#10131a"),
    "selected": ("#e3eafc", "#26345a"),
    "forward": ("#0072b2", "#56b4e9"),
    "forward_fill": ("#cfe4f1", "#1f4359"),
    "backward": ("#b44c00", "#e8853d"),
    "backward_fill": ("#fbdcc6", "#57331b"),
    "recomputed": ("#a84a80", "#d98ab8"),
    "held": ("#007a57", "#2bbf91"),
    "freed": ("#7c8595", "#6f798d"),
    "playhead": ("#ffc400", "#ffc929"),
    "playhead_case": ("#1a1d24", "#000000"),
    "on_playhead": ("#1a1d24", "#14161b"),
    "fixed": ("#878f9f", "#667082"),
    "problem": ("#b3261e", "#ff8a80"),
    "notice": ("#fceeec", "#3a2224"),
    "mild_notice": ("#fff3d6", "#38301c"),
}
LIGHT = Theme("light", {role: light for role, (light, _) in _COLORS.items()})
DARK = Theme("dark", {role: dark for role, (_, dark) in _COLORS.items()})
THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def mixed(theme: Theme, role: str, share: float) -> QColor:
    over, under = theme.color(role), theme.color("panel")
    pairs = (over.red(), under.red()), (over.green(), under.green()), (over.blue(), under.blue())
    return QColor(*(round(share * a + (1 - share) * b) for a, b in pairs))


class ThemeChoice(Enum):
    """What the user chose: one of the themes, or what the system has."""

    LIGHT = "light"
    DARK = "dark"
    SYSTEM = "system"

    def theme(self, system: Qt.ColorScheme) -> Theme:
        return THEMES.get(self.value) or (DARK if system == Qt.ColorScheme.Dark else LIGHT)


class CurrentTheme(QObject):
    """The theme that views have ``now``. A view asks for colours whenever it paints, and Qt paints all views
    when the style sheet changes. What holds colours, such as a plot's pens, follows ``changed``. Signal
    ``chosen``: ``choice`` is another."""

    changed = Signal()
    chosen = Signal()

    def __init__(self, choice: ThemeChoice, parent: QObject | None = None) -> None:
        super().__init__(parent)
        hints = QGuiApplication.styleHints()
        self._system = hints.colorScheme()
        self.choice, self.now = choice, choice.theme(self._system)
        hints.colorSchemeChanged.connect(self._on_system)

    def color(self, role: str, alpha: int = 255) -> QColor:
        return self.now.color(role, alpha)

    def choose(self, choice: ThemeChoice) -> None:
        self.choice = choice
        self._apply()
        self.chosen.emit()  # even if unchanged: a theme from the command line was not saved before

    def _on_system(self, scheme: Qt.ColorScheme) -> None:
        self._system = scheme
        self._apply()

    def _apply(self) -> None:
        meant = self.choice.theme(self._system)
        if meant is not self.now:
            self.now = meant
            application = QApplication.instance()
            assert isinstance(application, QApplication)
            color_application(application, self.now)
            self.changed.emit()


def load_fonts() -> str:
    """Register the bundled fonts; return the family to use, the system's own if they are missing."""
    families: list[str] = []
    for font in contents("fonts", ".otf"):
        number = QFontDatabase.addApplicationFontFromData(font.read_bytes())
        families += QFontDatabase.applicationFontFamilies(number) if number >= 0 else []
    return "Inter" if "Inter" in families else (families[0] if families else QFont().family())


def load_icon() -> QIcon:
    icon = QIcon()
    for picture in contents("icons", ".png"):
        pixmap = QPixmap()
        if pixmap.loadFromData(picture.read_bytes()):
            icon.addPixmap(pixmap)
    return icon


def apply_theme(application: QApplication, theme: Theme, family: str) -> None:
    application.setStyle("Fusion")
    font = QFont(family)
    font.setPixelSize(13)
    application.setFont(font)
    color_application(application, theme)


_DARKENED = 140  # percent: Fusion paints a frame in the window's colour, darkened by this


def color_application(application: QApplication, theme: Theme) -> None:
    palette = QPalette()
    roles = QPalette.ColorRole
    for role, token in (
        (roles.Window, "window"),
        (roles.WindowText, "text"),
        (roles.Base, "panel"),
        (roles.AlternateBase, "raised"),
        (roles.Text, "text"),
        (roles.Button, "raised"),
        (roles.ButtonText, "text"),
        (roles.ToolTipBase, "raised"),
        (roles.ToolTipText, "text"),
        (roles.Highlight, "accent"),
        (roles.HighlightedText, "on_accent"),
        (roles.PlaceholderText, "muted"),
    ):
        palette.setColor(role, theme.color(token))
    application.setPalette(palette)
    box = QPalette(palette)
    box.setColor(roles.Window, theme.color("muted"))  # Fusion darkens it for the frame of a check box
    application.setPalette(box, "QCheckBox")  # type: ignore[arg-type]  # it wants text, not bytes
    box.setColor(roles.Window, theme.color("freed").lighter(_DARKENED))  # and for the frames of these
    for kind in ("QComboBox", "QSpinBox", "QDoubleSpinBox"):
        application.setPalette(box, kind)  # type: ignore[arg-type]
    application.setStyleSheet(style_sheet(theme))


def style_sheet(theme: Theme) -> str:
    text = resource("theme", "window.qss").read_text("utf-8").replace("@icons@", str(resource("theme")))
    for role, color in theme.tokens.items():
        text = text.replace(f"@{role}@", color)
    return text
