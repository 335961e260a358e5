#!/usr/bin/env python3
"""Draws an SVG of a terminal window from the text of a real run.

    python3 tools/terminal.py docs/images/demo.txt            writes docs/images/demo.svg
    python3 tools/terminal.py --check docs/images/demo.txt    exits 1 where the SVG differs from its source

The first line of the source is a comment: which command, at which commit. A line that starts with "$ " is a command. The output is a
function of the source alone. A line that is wider than the window continues on the next one, as in a terminal.
"""
import sys
from html import escape
from pathlib import Path

COLUMNS, SIZE, LEADING, MARGIN, BAR = 104, 13, 18, 20, 30  # characters, pixels
WIDTH_OF_CHARACTER = 0.602  # of the font size, in the usual monospace fonts


def draw(source):
    comment, *lines = source.read_text().splitlines()
    lines = [line[at:at + COLUMNS] for line in lines for at in range(0, max(len(line), 1), COLUMNS)]
    width = round(2 * MARGIN + COLUMNS * SIZE * WIDTH_OF_CHARACTER)
    height = BAR + MARGIN + len(lines) * LEADING
    title = escape(comment.lstrip("# "))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
           f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}" role="img" aria-label="{title}">',
           f"<title>{title}</title>",
           f'<path d="M0 8 Q0 0 8 0 H{width - 8} Q{width} 0 {width} 8 V{height} H0 Z" fill="#1e272c"/>']
    out += [f'<circle cx="{18 + 18 * i}" cy="15" r="5" fill="{color}"/>'
            for i, color in enumerate(("#e06c60", "#d9b24c", "#7fb36a"))]
    for i, line in enumerate(lines):
        if line.strip():
            color = "#9ccc65" if line.startswith("$ ") else "#cfd8dc"
            out.append(f'<text x="{MARGIN}" y="{BAR + MARGIN - 6 + i * LEADING}" fill="{color}" '
                       f'xml:space="preserve">{escape(line)}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    check = "--check" in sys.argv
    sources = [Path(name) for name in sys.argv[1:] if name != "--check"]
    if not sources:
        sys.exit(__doc__)
    for source in sources:
        drawn, target = draw(source), source.with_suffix(".svg")
        if not check:
            target.write_text(drawn)
        elif not target.exists() or target.read_text() != drawn:
            sys.exit(f"{target} is not what {source} describes; run python3 tools/terminal.py {source}")


main()
