#!/usr/bin/env python3
"""Writes openb/expected/lp_bounds.csv: how much GPU any scheduler could allocate, by linear programs that GLPK solves.

    apt-get install glpk-utils; python3 tests/data/traces/bounds.py

It shares no code with the product and bounds in another way. Per model of GPU: a device is filled by one of all maximal
patterns of shares or given whole; CPU and memory count as the sums of the model's nodes; classes of pods have their expected
counts after so many arrivals. Borders of nodes are left out, but a pod needs a node that has as many devices.
"""
import collections
import csv
import gzip
import os
import subprocess
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "openb")
# Workload, per cent of the GPUs that have arrived, per cent of them that must have a place.
CASES = [("mixed", 80, 0), ("mixed", 130, 0), ("mixed", 130, 94), ("pinned", 95, 0), ("pinned", 130, 0), ("pinned", 130, 80),
         ("gangs", 100, 0), ("gangs", 130, 90), ("shares", 110, 0), ("shares", 130, 0), ("shares", 130, 90)]


def rows(name):
    packed = os.path.join(HERE, "pods", name + ".gz")
    with (gzip.open(packed, "rt") if os.path.exists(packed) else open(os.path.join(HERE, name))) as file:
        return list(csv.DictReader(file))


def maximal_patterns(sizes):
    """All ways to fill a device of 1000 with shares to which no further share can be added."""
    out = []

    def fill(at, left, counts):
        if at == len(sizes):
            if left < min(sizes):
                out.append(tuple(counts))
            return
        for n in range(left // sizes[at] + 1):
            fill(at + 1, left - n * sizes[at], counts + [n])

    if sizes:
        fill(0, 1000, [])
    return out


def bound(workload, arrived, prefix):
    types = collections.OrderedDict()
    for node in rows("openb_node_list_gpu_node.csv"):
        one = types.setdefault(node["model"], {"gpu": 0, "cpu": 0, "memory": 0, "most": 0})
        one["gpu"] += int(node["gpu"])
        one["cpu"] += int(node["cpu_milli"])
        one["memory"] += int(node["memory_mib"])
        one["most"] = max(one["most"], int(node["gpu"]))
    capacity = 1000 * sum(one["gpu"] for one in types.values())
    classes = collections.Counter()
    for pod in rows(f"openb_pod_list_{workload}.csv"):
        key = (int(pod["cpu_milli"]), int(pod["memory_mib"]), int(pod["num_gpu"]), int(pod["gpu_milli"]),
               pod.get("gpu_spec") or "")
        classes[key] += 1
    asked = sum(n * c[2] * c[3] for c, n in classes.items())
    scale = capacity / 100 / asked
    shares = sorted({c[3] for c in classes if c[2] == 1 and c[3] < 1000})
    patterns = maximal_patterns(shares)

    goal, limits, bounds = [], [], []
    uses = {(t, what): [] for t in types for what in ("gpu", "cpu", "memory")}
    covered = {(t, s): [] for t in types for s in shares}
    for i, (c, n) in enumerate(classes.items()):
        cpu, memory, gpus, milli, spec = c
        places = [t for t in types if types[t]["most"] >= gpus and (not spec or gpus == 0 or t in spec.split("|"))]
        variables = []
        for t in places:
            x = f"x{i}_{t}"
            variables.append(x)
            uses[t, "cpu"].append(f"{cpu} {x}")
            uses[t, "memory"].append(f"{memory} {x}")
            if gpus == 1 and milli < 1000:
                covered[t, milli].append(x)
            elif gpus > 0:
                uses[t, "gpu"].append(f"{gpus} {x}")
            if gpus > 0:
                goal.append(f"{gpus * milli} {x}")
        limits.append(f"{' + '.join(variables)} <= {n * scale * arrived:.9f}")
        if prefix > 0:
            limits.append(f"{' + '.join(variables)} >= {n * scale * prefix:.9f}")
    for t in types:
        for p, counts in enumerate(patterns):
            uses[t, "gpu"].append(f"1 y{p}_{t}")
        for k, size in enumerate(shares):
            filled = [f"{counts[k]} y{p}_{t}" for p, counts in enumerate(patterns) if counts[k] > 0]
            limits.append(" + ".join(covered[t, size]) + " - " + " - ".join(filled) + " <= 0")
        for what in ("gpu", "cpu", "memory"):
            limits.append(" + ".join(uses[t, what]) + f" <= {types[t][what]}")
    with tempfile.TemporaryDirectory() as folder:
        model, answer = os.path.join(folder, "lp"), os.path.join(folder, "out")
        broken = lambda text: text.replace(" + ", "\n + ").replace(" - ", "\n - ")
        with open(model, "w") as file:
            file.write("Maximize\n obj: " + broken(" + ".join(goal)) + "\nSubject To\n")
            for i, limit in enumerate(limits):
                file.write(f" c{i}: {broken(limit)}\n")
            file.write("End\n")
        subprocess.run(["glpsol", "--lp", model, "--write", answer], check=True, stdout=subprocess.DEVNULL)
        for line in open(answer):
            if line.startswith("s bas"):
                _, _, _, _, primal, dual, best = line.split()
                assert primal == "f" and dual == "f", f"{workload} {arrived} {prefix}: no optimum"
                return 100 * float(best) / capacity
    raise RuntimeError("glpsol wrote no solution")


os.makedirs(os.path.join(HERE, "expected"), exist_ok=True)
with open(os.path.join(HERE, "expected", "lp_bounds.csv"), "w", newline="\n") as file:
    file.write("workload,arrivals_pct,forced_prefix_pct,upper_bound_alloc_pct\n")
    for case in CASES:
        line = f"{case[0]},{case[1]},{case[2]},{bound(*case):.2f}"
        print(line, flush=True)
        file.write(line + "\n")
