#!/usr/bin/env python3
"""Writes the traces of this folder: the same bytes each time, from a fixed seed.

    python3 tests/data/traces/generate.py

Only random.random() is used, whose numbers Python promises for a seed. No row comes from a public trace: the fleet, the
sizes, the run times and the teams below are made up. The columns are those of the public traces.
"""
import gzip
import math
import os
import random

HERE = os.path.dirname(os.path.abspath(__file__))


class Draw:
    def __init__(self, seed):
        self._random = random.Random(seed)

    def unit(self):
        return self._random.random()

    def below(self, n):
        return int(self.unit() * n)

    def pick(self, weighted):
        """One of [(value, weight)]."""
        at = self.unit() * sum(weight for _, weight in weighted)
        for value, weight in weighted:
            at -= weight
            if at < 0:
                return value
        return weighted[-1][0]

    def normal(self):
        return math.sqrt(-2 * math.log(1 - self.unit())) * math.cos(2 * math.pi * self.unit())


def write(name, lines):
    text = "\n".join(lines) + "\n"
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if name.endswith(".gz"):
        with open(path, "wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as out:
            out.write(text.encode())
    else:
        with open(path, "w", newline="\n") as out:
            out.write(text)


# ---- a fleet and what is asked of it: nodes and pods ----

# Model, nodes, devices, CPU cores, GiB.
FLEET = [("H100", 70, 8, 192, 2048), ("L40S", 90, 4, 96, 768), ("A10", 120, 2, 48, 384), ("T4", 40, 1, 24, 128)]
SHARES = [(120, 6), (230, 16), (350, 12), (460, 22), (540, 14), (620, 14), (810, 16)]
WHOLES = [(1, 80), (2, 9), (4, 6), (8, 5)]
SPECS = [("H100", 2), ("L40S", 2), ("A10", 5), ("T4", 2), ("H100|L40S", 2), ("A10|T4", 4)]
GPUS = sum(nodes * devices for _, nodes, devices, _, _ in FLEET)


def fleet():
    rows = ["sn,cpu_milli,memory_mib,gpu,model"]
    kinds = [kind for kind in FLEET for _ in range(kind[1])]
    draw = Draw(11)
    for i in range(len(kinds) - 1, 0, -1):  # machines of one kind do not stand in one row
        j = draw.below(i + 1)
        kinds[i], kinds[j] = kinds[j], kinds[i]
    for i, (model, _, devices, cores, gib) in enumerate(kinds):
        rows.append(f"rack{i // 16:02}-n{i % 16:02},{cores * 1000},{gib * 1024},{devices},{model}")
    write("openb/openb_node_list_gpu_node.csv", rows)


def pods(name, seed, shared, several, pinned, without, demand=0.98, long=True):
    """`shared` and `several` are shares of the GPU demand, `pinned` of the GPU pods, `without` of all pods."""
    draw = Draw(seed)
    rows = []

    def add(gpus, milli):
        cores = draw.pick([(2, 3), (4, 4), (8, 2)]) if milli < 1000 else draw.pick([(8, 3), (16, 4),
                                                                                    (24, 2)]) * max(1, gpus)
        if gpus == 0:
            cores = draw.pick([(4, 3), (16, 2), (32, 1)])
        gib = cores * draw.pick([(2, 2), (4, 3)])
        spec = ""
        if gpus > 0 and draw.unit() < pinned:
            spec = draw.pick([one for one in SPECS if gpus <= largest(one[0])])
        rows.append((cores * 1000, gib * 1024, gpus, milli, spec))

    asked = {"shared": 0.0, "several": 0.0, "one": 0.0}
    goal = {"shared": shared, "several": several, "one": 1 - shared - several}
    while sum(asked.values()) < demand * GPUS:
        if draw.unit() < without:
            add(0, 0)
            continue
        # What lags most behind its share comes next, so the shares hold for any beginning of the list too.
        kind = max(goal, key=lambda k: goal[k] * (sum(asked.values()) + 1) - asked[k])
        if kind == "shared":
            gpus, milli = 1, draw.pick(SHARES)
        else:
            gpus, milli = (1, 1000) if kind == "one" else (draw.pick(WHOLES[1:]), 1000)
        asked[kind] += gpus * milli / 1000
        add(gpus, milli)

    columns = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"]
    more = ["gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"] if long else []
    lines = [",".join(columns + more)]
    at = 0
    for i, (cpu, memory, gpus, milli, spec) in enumerate(rows):
        line = f"w{i:05},{cpu},{memory},{gpus},{milli}"
        if long:
            at += draw.below(90)
            wait, life = draw.below(20), 60 + int(math.exp(6 + 1.5 * draw.normal()))
            qos = draw.pick([("LS", 5), ("BE", 4), ("Burstable", 1)])
            line += f",{spec},{qos},Succeeded,{at},{at + wait + life},{at + wait}"
        lines.append(line)
    write(f"openb/{name}", lines)


def largest(spec):
    return max(devices for model, _, devices, _, _ in FLEET if model in spec.split("|"))


# ---- jobs of some weeks ----

# Team, share of the jobs, [(GPUs, weight)], factor on run times.
TEAMS = [("atlas", 34, [(1, 92), (2, 3), (4, 4), (8, 1)], 0.6), ("breeze", 20, [(1, 80), (4, 12), (8, 8)], 1.0),
         ("cedar", 14, [(1, 96), (2, 4)], 0.8), ("delta", 10, [(1, 60), (8, 30), (16, 10)], 1.4),
         ("ember", 8, [(1, 88), (2, 8), (4, 4)], 1.2), ("fjord", 6, [(4, 70), (8, 26), (32, 4)], 1.1),
         ("grove", 5, [(1, 100)], 2.0), ("heron", 3, [(8, 75), (16, 25)], 0.9)]
DAYS = 42
# A median of the run time in seconds and its spread, for short and for long jobs, by GPUs.
SHORT, LONG = (420, 1.3), (26000, 1.3)
LONG_PART = {1: 0.25, 2: 0.3, 4: 0.5, 8: 0.55, 16: 0.5, 32: 0.5}
MOST_S = 5 * 86400
JOBS = 16000


def jobs():
    draw = Draw(29)
    made = []
    while len(made) < JOBS:
        at = draw.unit() * DAYS * 86400
        hour, day = at / 3600 % 24, int(at / 86400) % 7
        busy = (1.0 if 9 <= hour < 19 else 0.45) * (1.0 if day < 5 else 0.55)
        if draw.unit() > busy:
            continue
        team, _, sizes, slow = draw.pick([(one, one[1]) for one in TEAMS])
        gpus = draw.pick(sizes)
        median, spread = LONG if draw.unit() < LONG_PART[gpus] else SHORT
        runs = int(slow * median * math.exp(spread * draw.normal()))
        made.append((int(at), min(max(runs, 5), MOST_S), gpus, team))
    # One afternoon with a deadline: many gangs over several nodes come within four hours.
    for _ in range(24):
        at = 23 * 86400 + 12 * 3600 + draw.below(4 * 3600)
        made.append((at, 1800 + draw.below(7200), 16, "delta"))
    made.sort()
    first = made[0][0]
    write("philly/philly_jobs.csv",
          ["submit_s,duration_s,num_gpus,vc"] + [f"{at - first},{runs},{gpus},{team}" for at, runs, gpus, team in made])


fleet()
pods("openb_pod_list_mixed.csv", 101, shared=0.28, several=0.16, pinned=0.0, without=0.12)
pods("pods/openb_pod_list_pinned.csv.gz", 102, shared=0.30, several=0.12, pinned=0.33, without=0.10)
pods("pods/openb_pod_list_gangs.csv.gz", 103, shared=0.14, several=0.50, pinned=0.0, without=0.05, long=False)
pods("pods/openb_pod_list_shares.csv.gz", 104, shared=1.0, several=0.0, pinned=0.0, without=0.10, demand=0.80)
jobs()
