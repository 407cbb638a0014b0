"""SVG elements as text in which every attribute and every word of data is escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

Piece = str | Markup | None


def number(value: float) -> str:
    """A coordinate with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def element(name: str, *children: Piece | Iterable[Piece], **attributes: object) -> Markup:
    """An element. `cls` stands for class; underscores in names become hyphens; None is left out."""
    parts = [Markup("<"), Markup(name)]
    for key, value in attributes.items():
        if value is None:
            continue
        word = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        text = number(value) if isinstance(value, float) else str(value)
        parts.append(Markup(' {}="{}"').format(Markup(word), text))
    inner = Markup("").join(escape(child) for child in _flat(children))
    if not inner:
        return Markup("").join([*parts, Markup("/>")])
    return Markup("").join([*parts, Markup(">"), inner, Markup(f"</{name}>")])


def _flat(children: Iterable[Piece | Iterable[Piece]]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            yield child
        else:
            yield from (inner for inner in child if inner is not None)


def text(words: str, x: float, y: float, cls: str = "", anchor: str = "start") -> Markup:
    """A line of text at (x, y)."""
    return element("text", words, x=float(x), y=float(y), cls=cls or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> Markup:
    """A straight line."""
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), cls=cls)


def tip(words: str) -> Markup:
    """What is shown when the pointer rests on the element this is the first child of."""
    return element("title", words)


def path(points: Iterable[tuple[float, float]], cls: str, *children: Piece) -> Markup:
    """A line through points."""
    steps = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return element("path", *children, d=f"M{steps}", cls=cls)


def figure(
    width: float,
    height: float,
    label: str,
    description: str,
    children: Iterable[Piece],
    left: float = 0.0,
) -> Markup:
    """A picture with a name and a description for those who cannot see it; what it shows begins at
    -left."""
    return element(
        "svg",
        element("desc", description),
        children,
        viewBox=f"{number(-left)} 0 {number(left + width)} {number(height)}",
        role="img",
        aria_label=f"{label}. {description}",
        cls="figure",
        width=number(left + width),
        height=number(height),
    )
