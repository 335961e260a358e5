#!/usr/bin/env python3
"""Where the minutes of a build and of a test run go, as Markdown. Called by ./qm check minutes.

  minutes.py targets BUILD          compile time by target, and link time, from ninja's log
  minutes.py headers BUILD          what the most expensive headers cost: time to parse one times the sources that include it
  minutes.py tests BUILD            the slowest tests, from the result files of their binaries
  minutes.py waits                  where tests and scripts poll, with the interval
"""
import collections
import json
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    rows = list(rows)
    numbers = [bool(rows) and re.fullmatch(r"[0-9.]+", str(cell)) is not None for cell in (rows[0] if rows else head)]
    print("| " + " | ".join("---:" if number else "---" for number in numbers) + " |")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def commands_of(build):
    """Seconds of each output of the last builds; ninja's log has the newest last."""
    seconds = {}
    for line in (build / ".ninja_log").read_text().splitlines()[1:]:
        begin, end, _, output, _ = line.split("\t")
        seconds[output] = (int(end) - int(begin)) / 1000
    return seconds


def targets(build):
    compiled, files, linked = collections.Counter(), collections.Counter(), 0.0
    for output, seconds in commands_of(build).items():
        found = re.search(r"CMakeFiles/([^/]+)\.dir/.*\.(o|gch)$", output)
        if found:
            compiled[found[1]] += seconds
            files[found[1]] += 1
        elif output.startswith("bin/") or output.endswith((".a", ".so")):
            linked += seconds
    total = sum(compiled.values())
    print(f"{len(compiled)} targets, {sum(files.values())} compile commands, {total / 60:.1f} min in all; links and archives "
          f"{linked / 60:.1f} min. The thirty largest:\n")
    table(("target", "seconds", "commands"), [(f"`{name}`", f"{s:.0f}", files[name]) for name, s in compiled.most_common(30)])


def headers(build):
    """Each header alone, with the flags of the source that includes the most."""
    users = collections.Counter()
    for source in subprocess.check_output(["git", "ls-files", "*.cpp", "*.hpp"], text=True).split():
        for name in re.findall(r'^#include [<"]([^>"]+)[>"]', pathlib.Path(source).read_text(), re.M):
            users[name] += 1
    entries = json.loads((build / "compile_commands.json").read_text())
    includes = []
    for entry in entries:
        words = shlex.split(entry["command"])
        for i, word in enumerate(words):
            flag = word if word.startswith("-I") else "-isystem" + words[i + 1] if word == "-isystem" else None
            if flag and flag not in includes:
                includes.append(flag)
    flags = [part for flag in includes for part in (("-isystem", flag[8:]) if flag.startswith("-isystem") else (flag,))]

    def cost(name):
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
            source.write(f"#include <{name}>\n")
            source.flush()
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            ran = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", *flags, source.name], capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return name, (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) if ran.returncode == 0 else 0.0

    # One at a time: the processor time of children is a sum over all of them.
    measured = [cost(name) for name, count in users.most_common(150)]
    measured.sort(key=lambda one: -one[1] * users[one[0]])
    table(("header", "seconds to parse", "files that include it", "product"),
          [(f"`{n}`", f"{s:.2f}", users[n], f"{s * users[n]:.0f}") for n, s in measured[:20]])


def tests(build):
    """A simulation moves the clock that the result file takes its times from: what would be longer than an hour is left out."""
    found = []
    for path in (build / "results").glob("*.xml"):
        for case in xml.parse(path).getroot().iter("testcase"):
            seconds = float(case.get("time", 0))
            if seconds < 3600:
                found.append((seconds, path.stem, f"{case.get('classname')}.{case.get('name')}"))
    found.sort(reverse=True)
    print(f"{len(found)} tests, {sum(one[0] for one in found) / 60:.1f} min in all. The forty slowest:\n")
    table(("test", "binary", "seconds"), [(f"`{case}`", f"`{binary}`", f"{s:.1f}") for s, binary, case in found[:40]])


def waits():
    rows = []
    for source in subprocess.check_output(["git", "ls-files", "tests", "tools", "libs", "services", "agent", "demo", "fleet"], text=True).split():
        if not source.endswith((".cpp", ".hpp", ".sh")):
            continue
        for number, line in enumerate(pathlib.Path(source).read_text().splitlines(), 1):
            pause = re.search(r"sleep_for\(.*?\);|(?:^\s*|; )sleep [0-9.]+", line)
            if pause:
                rows.append((f"{source}:{number}", f"`{pause[0].strip(' ;')}`"))
    table(("place", "pause"), rows)


def main():
    verb, rest = (sys.argv[1] if len(sys.argv) > 1 else ""), [pathlib.Path(p) for p in sys.argv[2:]]
    if verb == "targets" and len(rest) == 1:
        targets(rest[0])
    elif verb == "headers" and len(rest) == 1:
        headers(rest[0])
    elif verb == "tests" and len(rest) == 1:
        tests(rest[0])
    elif verb == "waits" and not rest:
        waits()
    else:
        sys.exit(__doc__)


main()
