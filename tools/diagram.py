#!/usr/bin/env python3
"""Draws an SVG of boxes and vertical arrows from a text description.

    python3 tools/diagram.py docs/images/architecture.txt            writes docs/images/architecture.svg
    python3 tools/diagram.py --check docs/images/architecture.txt    exits 1 where the SVG differs from its source

The comment at the top of a description explains its lines. The output is a function of the description alone. A text that is wider
than its box, two boxes in one place and an arrow that does not touch both of its boxes are errors.
"""
import sys
from html import escape
from pathlib import Path

MARGIN, GAP, COLUMN, HEIGHT, LEAD, TITLE = 28, 16, 186, 78, 66, 52  # pixels; LEAD is the space between two rows
TITLE_SIZE, LINE_SIZE, LABEL_SIZE = 14, 12, 11
WIDTH_OF_CHARACTER = 0.56  # of the font size, for the widest common sans-serif fonts
FILLS = {"service": ("#dbe9f8", "#1f5a96"), "bus": ("#fdeccb", "#9a6400"), "outside": ("#eceff1", "#546069"),
         "store": ("#e2f0e0", "#3a7334")}


class Box:
    def __init__(self, kind, row, column, span, texts):
        self.kind, self.row, self.column, self.span = kind, row, column, span
        self.title, self.lines = texts[0], texts[1:]
        self.x, self.y = MARGIN + column * (COLUMN + GAP), TITLE + row * (HEIGHT + LEAD)
        self.width, self.height = span * COLUMN + (span - 1) * GAP, HEIGHT


class Arrow:
    def __init__(self, first, last, column, both, labels):
        self.first, self.last, self.column, self.both, self.labels = first, last, column, both, labels


def fail(number, message):
    sys.exit(f"line {number}: {message}")


def width_of(text, size):
    return len(text) * size * WIDTH_OF_CHARACTER


def texts_of(text):
    return [part.strip() for part in text.split("|")]


def read(source):
    title, columns, boxes, arrows = "", 1, {}, []
    for number, line in enumerate(source.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] == "title":
            title = line.split(None, 1)[1].strip()
        elif words[0] == "columns":
            columns = int(words[1])
        elif words[0] == "box":
            _, name, kind, row, column, span, text = line.split(None, 6)
            box = Box(kind, int(row), int(column), int(span), texts_of(text))
            if kind not in FILLS:
                fail(number, f"kind {kind} is not one of {', '.join(sorted(FILLS))}")
            if box.column + box.span > columns:
                fail(number, f"box {name} ends beyond column {columns - 1}")
            for other, there in boxes.items():
                if there.row == box.row and box.column < there.column + there.span and there.column < box.column + box.span:
                    fail(number, f"box {name} overlaps box {other}")
            for text, size in [(box.title, TITLE_SIZE)] + [(part, LINE_SIZE) for part in box.lines]:
                if width_of(text, size) > box.width - 12:
                    fail(number, f"'{text}' is wider than box {name}")
            if len(box.lines) > 2:
                fail(number, f"box {name} has more than two lines below its title")
            boxes[name] = box
        elif words[0] == "arrow":
            _, first, head, last, column, text = line.split(None, 5)
            arrow = Arrow(boxes[first], boxes[last], int(column), head == "<->", texts_of(text))
            for box in (arrow.first, arrow.last):
                if not box.column <= arrow.column < box.column + box.span:
                    fail(number, f"column {arrow.column} is not in both boxes")
            if abs(arrow.first.row - arrow.last.row) != 1:
                fail(number, "the boxes of an arrow are in neighboring rows")
            if any(width_of(text, LABEL_SIZE) > COLUMN / 2 + GAP - 10 for text in arrow.labels) or len(arrow.labels) > 2:
                fail(number, "the label is too long")
            arrows.append(arrow)
        else:
            fail(number, f"{words[0]} is not title, columns, box or arrow")
    return title, columns, boxes, arrows


def text_at(x, y, text, size, color, anchor, weight=""):
    bold = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{bold}>{escape(text)}</text>'


def head_at(x, y, down):
    back = y - 8 if down else y + 8
    return f'<path d="M{x:g} {y:g} L{x - 5:g} {back:g} L{x + 5:g} {back:g} Z" fill="#37474f"/>'


def draw(title, columns, boxes, arrows):
    width = 2 * MARGIN + columns * COLUMN + (columns - 1) * GAP
    height = max(box.y + box.height for box in boxes.values()) + MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           f'font-family="Helvetica, Arial, sans-serif" role="img" aria-label="{escape(title)}">',
           f"<title>{escape(title)}</title>",
           f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
           text_at(width / 2, 32, title, 16, "#263238", "middle", "bold")]
    for box in boxes.values():
        fill, line = FILLS[box.kind]
        out.append(f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="6" fill="{fill}" '
                   f'stroke="{line}" stroke-width="1.5"/>')
        center, step = box.x + box.width / 2, LINE_SIZE + 5
        top = box.y + (box.height - TITLE_SIZE - step * len(box.lines)) / 2 + TITLE_SIZE - 2
        out.append(text_at(center, top, box.title, TITLE_SIZE, line, "middle", "bold"))
        for i, text in enumerate(box.lines, 1):
            out.append(text_at(center, top + i * step, text, LINE_SIZE, "#263238", "middle"))
    for arrow in arrows:
        x = MARGIN + arrow.column * (COLUMN + GAP) + COLUMN / 2
        down = arrow.first.row < arrow.last.row
        start = arrow.first.y + arrow.first.height + 3 if down else arrow.first.y - 3
        end = arrow.last.y - 3 if down else arrow.last.y + arrow.last.height + 3
        out.append(f'<path d="M{x:g} {start:g} L{x:g} {end:g}" stroke="#37474f" stroke-width="1.5"/>')
        out.append(head_at(x, end, down))
        if arrow.both:
            out.append(head_at(x, start, not down))
        middle = (start + end) / 2 + 4 - (len(arrow.labels) - 1) * 7
        for i, text in enumerate(arrow.labels):
            out.append(text_at(x + 10, middle + i * 14, text, LABEL_SIZE, "#37474f", "start"))
    return "\n".join(out + ["</svg>", ""])


def main():
    check = "--check" in sys.argv
    sources = [Path(name) for name in sys.argv[1:] if name != "--check"]
    if not sources:
        sys.exit(__doc__)
    for source in sources:
        drawn, target = draw(*read(source.read_text())), source.with_suffix(".svg")
        if not check:
            target.write_text(drawn)
        elif not target.exists() or target.read_text() != drawn:
            sys.exit(f"{target} is not what {source} describes; run python3 tools/diagram.py {source}")


main()
