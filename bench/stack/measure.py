"""Costs of a turn: CPU and memory of processes, requests of the API server, commits and WAL of PostgreSQL."""
import os
import re
import sys
import threading
import time
import urllib.request

from cluster import ROOT

sys.path.insert(0, os.path.join(ROOT, "bench/common"))
from suite import children_of, sql  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
SERIES = re.compile(r'^(apiserver_request_total|apiserver_response_sizes_sum|apiserver_watch_events_sizes_sum)(?:\{(.*)\})? (\S+)$', re.M)
VERB = re.compile(r'\bverb="([^"]*)"')
SERVICE_SERIES = {"json_bytes": "qm_json_parsed_bytes_total", "bus_messages": "qm_host_published_total"}
SAMPLE_SECONDS = 2
TREES = ("postgresql",)  # programs that work in child processes


def _stat(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()


def cpu_seconds(name, pid):
    """CPU time of a process; for one of TREES with that of its children, also of those that have ended."""
    try:
        fields = _stat(pid)
    except FileNotFoundError:
        raise RuntimeError(f"{name} (process {pid}) has ended before the turn did; read the end of its log, and whether the kernel "
                           "stopped it for memory (dmesg)") from None
    if name not in TREES:
        return sum(int(f) for f in fields[11:13]) / TICKS  # utime, stime
    ticks = sum(int(f) for f in fields[11:15])  # and cutime, cstime
    for child in children_of(pid):
        try:
            ticks += sum(int(f) for f in _stat(child)[11:13])
        except OSError:  # ended meanwhile: in cutime next time
            pass
    return ticks / TICKS


def _field(path, name):
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) / 1024
    return 0.0


def forget_peak(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def peak_mib(pid):
    return _field(f"/proc/{pid}/status", "VmHWM:")


def resident_mib(pid):
    return _field(f"/proc/{pid}/status", "VmRSS:")


def shared_out_mib(pid):
    """Memory of a process and its children, pages that they share counted once."""
    total = 0.0
    for one in [pid, *children_of(pid)]:
        try:
            total += _field(f"/proc/{one}/smaps_rollup", "Pss:")
        except OSError:
            pass
    return total


class Memory:
    """Peak memory of each process: the kernel's own peak, or samples for a process with children. And samples of the CPU time and
    the memory of each: a list of (time, process -> (CPU seconds, MiB))."""

    def __init__(self, processes):
        self.processes, self.samples = processes, []
        self.single = {name: pid for name, pid in processes.items() if name not in TREES}
        self.peaks = {name: 0.0 for name in processes if name in TREES}
        self.over = threading.Event()
        for pid in self.single.values():
            forget_peak(pid)
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.thread.start()

    def _sample(self):
        while True:
            found = {name: (cpu_seconds(name, pid), resident_mib(pid) if name in self.single else shared_out_mib(pid))
                     for name, pid in self.processes.items()}
            self.samples.append((time.monotonic(), found))
            for name in self.peaks:
                self.peaks[name] = max(self.peaks[name], found[name][1])
            if self.over.wait(SAMPLE_SECONDS):
                return

    def end(self):
        self.over.set()
        self.thread.join()
        return {**self.peaks, **{name: peak_mib(pid) for name, pid in self.single.items()}}


def api_counters(api):
    """Requests and bytes of the answers by verb, and the bytes of watch events."""
    status, text = api.send("GET", "/metrics")
    if status != 200:
        raise RuntimeError(f"metrics of the API server: {status}")
    counts = {}
    for name, labels, value in SERIES.findall(text.decode()):
        verb = VERB.search(labels or "")
        key = (name, verb.group(1) if verb else "")
        counts[key] = counts.get(key, 0.0) + float(value)
    requests = {verb: n for (name, verb), n in counts.items() if name == "apiserver_request_total"}
    answers = {verb: n for (name, verb), n in counts.items() if name == "apiserver_response_sizes_sum"}
    events = sum(n for (name, _), n in counts.items() if name == "apiserver_watch_events_sizes_sum")
    return {"requests": requests, "bytes": answers, "watch_bytes": events}


def database_counters(conninfo):
    commits, wal = sql(conninfo, "SELECT sum(xact_commit), pg_current_wal_lsn() - '0/0' FROM pg_stat_database").split()
    return {"commits": int(commits), "wal_bytes": int(wal)}


def service_counters(urls):
    """Bytes of JSON that services parsed, and messages that they sent to the bus."""
    counts = {name: 0.0 for name in SERVICE_SERIES}
    for url in urls:
        with urllib.request.urlopen(url + "/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for name, series in SERVICE_SERIES.items():
            counts[name] += sum(float(value) for value in re.findall(rf"^{series}(?:\{{.*\}})? (\S+)$", text, re.M))
    return counts


def difference(after, before):
    """after - before of counters, also nested."""
    return {key: difference(value, before.get(key, {})) if isinstance(value, dict) else value - before.get(key, 0)
            for key, value in after.items()}
