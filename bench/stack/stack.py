#!/usr/bin/env python3
"""The same Jobs on kube-scheduler, on Kueue with kube-scheduler, and on Quartermaster: ./qm bench stack.

Each turn gets a new, empty control plane on this machine, so that no side inherits objects, caches or memory. The order of the
sides is drawn for each run.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

import measure
import report
import workload
from cluster import ROOT, await_that, in_parallel
from observe import Observer
from sides import SIDES

QUIET_CORES, QUIET_SECONDS = 0.25, 2
STALLED_SECONDS = 60
PENDING_SECONDS = 600


def say(text):
    print(text, file=sys.stderr, flush=True)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def arguments():
    parser = argparse.ArgumentParser(prog="./qm bench stack", description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="burst", choices=("burst", "released", "gangs", "turnover", "capacity"),
                        help="burst: all Jobs at once; released: all pending, then the quota opens; gangs: 10 of 512 pods and 100 of 32; "
                        "turnover: Jobs that end, at 70 %% load; capacity: single pods from zero nodes, with Karpenter for the others")
    parser.add_argument("--nodes", type=positive, default=300, help="nodes of 8 GPUs [300]")
    parser.add_argument("--pods", type=positive, help="about so many pods for three quarters of the GPUs; default: by the mix of sizes")
    parser.add_argument("--scoring", choices=("spread", "packed"), help="of kube-scheduler: its default, or GPUs packed (MostAllocated); "
                        "default: packed, and spread in capacity, where nodes are launched for the pods")
    parser.add_argument("--seconds", type=positive, default=1800, help="of arrivals in turnover [1800]")
    parser.add_argument("--runs", type=positive, default=3, help="turns of each side; figures are medians [3]")
    parser.add_argument("--seed", type=int, default=1, help="of the Jobs and of the order [1]")
    parser.add_argument("--sides", default=",".join(side.name for side in SIDES), help="some of %(default)s")
    parser.add_argument("--json", help="file for all figures")
    parser.add_argument("--svg", help="file for the chart of bound pods over time")
    parser.add_argument("--dir", default=os.path.join(ROOT, "build/stack"), help="run folder [build/stack]")
    parser.add_argument("--port", type=positive, default=29443, help="first of twenty ports [29443]")
    options = parser.parse_args()
    options.scoring = options.scoring or ("spread" if options.scenario == "capacity" else "packed")
    names = options.sides.split(",")
    unknown = set(names) - {side.name for side in SIDES}
    if unknown:
        parser.error(f"--sides: there is no {', '.join(sorted(unknown))}: name some of {', '.join(s.name for s in SIDES)}")
    options.sides = [side for side in SIDES if side.name in names]
    return options


def settle(processes, limit=120):
    """Until the processes use less than QUIET_CORES together for QUIET_SECONDS."""
    until = time.monotonic() + limit
    while time.monotonic() < until:
        before = sum(measure.cpu_seconds(name, pid) for name, (pid, _) in processes.items())
        time.sleep(QUIET_SECONDS)
        if sum(measure.cpu_seconds(name, pid) for name, (pid, _) in processes.items()) - before < QUIET_CORES * QUIET_SECONDS:
            return
    say(f"the processes still use more than {QUIET_CORES} of a core after {limit} s")


class Costs:
    """What the processes and the API server did between the construction and the end."""

    def __init__(self, side):
        self.side, self.processes = side, side.processes()
        self.memory = measure.Memory({name: pid for name, (pid, _) in self.processes.items()})
        self.before = self.count()

    def count(self):
        counts = {"cpu": {name: measure.cpu_seconds(name, pid) for name, (pid, _) in self.processes.items()},
                  "api": measure.api_counters(self.side.cluster.api)}
        if self.side.database():
            counts["database"] = measure.database_counters(self.side.database())
        if self.side.metrics():
            counts["services"] = measure.service_counters(self.side.metrics())
        return counts

    def end(self):
        spent, peaks = measure.difference(self.count(), self.before), self.memory.end()
        cpu = spent.pop("cpu")
        spent["samples"] = self.memory.samples
        spent["processes"] = {name: {"role": role, "cpu_s": cpu[name], "peak_mib": peaks[name]} for name, (_, role) in self.processes.items()}
        return spent


def create_jobs(side, jobs, created):
    """Creates the Jobs at their arrival, and notes when."""
    begin = time.monotonic()

    def create(api, job):
        delay = begin + job.arrival_s - time.monotonic()
        if delay > 0:
            time.sleep(delay)
        created[f"{job.namespace}/{job.name}"] = time.monotonic()
        api.call("POST", f"/apis/batch/v1/namespaces/{job.namespace}/jobs", side.job(job))

    in_parallel(side.cluster.environment, jobs, create)
    return begin, time.monotonic()


def await_end(observer, options, jobs):
    """The time of the last change: all is bound (or has ended, in turnover), or nothing has changed for STALLED_SECONDS."""
    pods = sum(job.pods for job in jobs)
    count, goal = (observer.ended, len(jobs)) if options.scenario == "turnover" else (observer.bound, pods)
    known, changed = count.value, time.monotonic()
    while count.value < goal and time.monotonic() - changed < STALLED_SECONDS:
        time.sleep(0.1)
        if count.value != known:
            known, changed = count.value, time.monotonic()
    return changed


def take_turn(side_type, options, jobs):
    side = side_type(options, jobs)
    try:
        side.start()
        settle(side.processes())
        observer = Observer(side.cluster.environment)
        time.sleep(1)  # the observer's first lists
        costs, created = None if side.held else Costs(side), {}
        first, made = create_jobs(side, jobs, created)
        begin = first
        if side.held:
            await_that(f"{side.name}: {len(jobs)} pending Jobs", PENDING_SECONDS, lambda: side.all_pending(jobs))
            settle(side.processes())
            costs, begin = Costs(side), time.monotonic()
            side.release()
        end = await_end(observer, options, jobs)
        cost = costs.end()
        turn = {"record": observer.end(), "created": created, "first": first, "made": made, "begin": begin, "end": end, "cost": cost}
        return report.figures(turn, jobs)
    finally:
        side.stop()


def machine():
    def git(*words):
        return subprocess.run(["git", "-C", ROOT, *words], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    return {"commit": git("rev-parse", "--short", "HEAD"), "changed_files": len(git("status", "--porcelain").splitlines()),
            "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the processes of a turn are stopped
    os.makedirs(options.dir, exist_ok=True)
    jobs = workload.jobs_of(options.scenario, options.nodes, options.pods, options.seconds, options.seed)
    about = machine()
    where = "from zero nodes" if options.scenario == "capacity" else f"on {options.nodes} nodes of {workload.GPUS_PER_NODE}"
    say(f"{options.scenario}: {len(jobs)} Jobs, {sum(j.pods for j in jobs)} pods, {sum(j.pods * j.gpus for j in jobs)} GPUs {where}; commit {about['commit']}, {about['cores']} cores, load {about['load_before']:.2f}")
    order = random.Random(options.seed)
    results = {side.name: [] for side in options.sides}
    for run in range(options.runs):
        drawn = list(options.sides)
        order.shuffle(drawn)
        for side in drawn:
            figures = take_turn(side, options, jobs)
            results[side.name].append(figures)
            say(f"run {run + 1}, {side.name}: {figures['bound']} of {figures['pods']} pods bound, {figures['pods_per_s']:.1f} pods/s")
    medians = {name: report.medians(of) for name, of in results.items()}
    targets = report.targets(options.scenario, medians)
    print("\n".join([*report.table(medians), "", "CPU seconds (peak MiB) of each process", *report.processes(results), ""]))
    for text, met in targets:
        print(f"{'met   ' if met else 'missed'}  {text}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**about, "scenario": options.scenario, "scoring": options.scoring, "nodes": 0 if options.scenario == "capacity" else options.nodes, "jobs": len(jobs), "seed": options.seed,
                       "runs": results, "medians": medians,
                       "targets": [{"target": text, "met": met} for text, met in targets]}, file, indent=1)
    if options.svg:
        curves = {name: sorted(of, key=lambda r: r["pods_per_s"])[len(of) // 2]["binds_s"] for name, of in results.items()}
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(report.chart(f"Pods bound, {options.scenario}, {where}", curves))
    return 0


if __name__ == "__main__":
    sys.exit(main())
