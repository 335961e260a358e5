#!/usr/bin/env python3
"""Measures an idle suite: starts it with qm-demo --up, waits, counts for a minute, and prints a table."""
import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench/common"), os.path.join(ROOT, "tools/peers")]
import suite as rig  # noqa: E402
from api import Api  # noqa: E402

REQUEST = re.compile(r"apiserver_request_total\{(.*)\} (\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def main():
    p = argparse.ArgumentParser(prog="bench/idle/run.sh")
    p.add_argument("bin", help="folder of qm-demo")
    p.add_argument("--nodes", type=int, default=6, help="8-GPU nodes")
    p.add_argument("--replicas", type=int, default=1, help="processes of each service")
    p.add_argument("--settle", type=float, default=45, help="seconds before the measurement")
    p.add_argument("--seconds", type=float, default=60, help="length of the measurement")
    p.add_argument("--statements", type=float, default=20, help="seconds in which statements are logged afterwards")
    p.add_argument("--json", help="write the figures here")
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="qm-idle-") as folder:
        os.chmod(folder, 0o755)
        measure(args, folder)


def measure(args, folder):
    demo = os.path.join(args.bin, "qm-demo")
    command = [demo, "--up", "--dir", folder, "--nodes", str(args.nodes), "--replicas", str(args.replicas),
               "--speed", "1"]
    if os.environ.get("KUBECONFIG"):
        command += ["--kube", "kubeconfig:" + os.environ["KUBECONFIG"]]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit("bench idle: the suite does not start: the last lines of " + " ".join(command) + " say why")
    try:
        with open(os.path.join(folder, "endpoints.json")) as f:
            suite = Suite(json.load(f))
        time.sleep(args.settle)
        report = suite.count(args.seconds)
        report["statements_per_second"] = suite.statements(args.statements) if args.statements > 0 else []
        report["nodes"], report["replicas"] = args.nodes, args.replicas
        show(report)
        if args.json:
            with open(args.json, "w") as f:
                json.dump(report, f, indent=1)
    finally:
        subprocess.run([demo, "--down", "--dir", folder], stdout=subprocess.DEVNULL, check=False)


class Suite:
    def __init__(self, endpoints):
        self.conninfo = endpoints["postgres"]
        # The fleet is a part of the measurement's environment, as the API server is.
        self.processes = {name: pid for name, pid in endpoints["pids"].items() if name != "fleet"}
        self.postmaster = rig.postmaster_pid(self.conninfo)

    def sql(self, statement):
        return rig.sql(self.conninfo, statement)

    def database(self):
        row = self.sql("select xact_commit, xact_rollback, pg_current_wal_lsn() - '0/0'::pg_lsn from pg_stat_database "
                       "where datname = current_database()").split()
        return [int(n) for n in row]

    def count(self, seconds):
        # Each psql is a session with a commit of its own, which sessions report when they end.
        audit_from = audit_size()
        before, cpu_before, api_before, begin = self.database(), self.cpu(), api_requests(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begin
        cpu_after, api_after, after = self.cpu(), api_requests(), self.database()
        api = {k: (api_after[k] - api_before.get(k, 0)) / passed for k in api_after if api_after[k] > api_before.get(k, 0)}
        return {"seconds": passed,
                "commits_per_second": (after[0] - before[0] - 1) / passed,
                "rollbacks_per_second": (after[1] - before[1]) / passed,
                "wal_bytes_per_second": (after[2] - before[2]) / passed,
                "api_per_second": api,
                "api_by_client": audited(audit_from, passed),
                "core_percent": {k: 100 * (cpu_after[k] - cpu_before.get(k, 0)) / passed for k in cpu_after}}

    def cpu(self):
        """CPU seconds by program."""
        out = {name: cpu_seconds(pid) for name, pid in self.processes.items()}
        out["PostgreSQL"] = cpu_seconds(self.postmaster) + sum(cpu_seconds(c) for c in rig.children_of(self.postmaster))
        return out

    def statements(self, seconds):
        """Statements by sender, from the server's log."""
        log = os.readlink(f"/proc/{self.postmaster}/fd/2")
        for setting in ("log_statement = 'all'", "log_line_prefix = '|%a|'"):
            self.sql("alter system set " + setting)
        self.sql("select pg_reload_conf()")
        start = os.path.getsize(log)
        time.sleep(seconds)
        counts = collections.Counter()
        with open(log, errors="replace") as f:
            f.seek(start)
            for line in f:
                match = re.match(r"\|(qm [^|]*)\|LOG:  (?:execute [^:]*|statement): *(.*)", line)
                if match:
                    counts[(match[1], " ".join(match[2].split())[:70])] += 1
        self.sql("alter system reset all")
        self.sql("select pg_reload_conf()")
        return [[who, what, n / seconds] for (who, what), n in counts.most_common()]


def cpu_seconds(pid):
    """Of all threads that are alive, in nanoseconds of the scheduler: ticks of 10 ms are too coarse here."""
    total = 0
    for task in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        try:
            with open(task) as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def api_requests():
    """Requests so far of the real API server by verb and resource; empty with the simulated one."""
    counts = collections.Counter()
    if "QM_KUBE_URL" in os.environ:
        for line in Api().send("GET", "/metrics")[1].decode().splitlines():
            match = REQUEST.match(line)
            if match:
                labels = dict(LABEL.findall(match[1]))
                counts[f"{labels['verb']} {labels['resource'] or '-'}"] += int(float(match[2]))
    return counts


def audit_log():
    return os.path.join(os.path.dirname(os.environ.get("KUBECONFIG", "")), "audit.log")


def audit_size():
    return os.path.getsize(audit_log()) if os.path.exists(audit_log()) else None


def audited(start, seconds):
    """Requests by program, verb and resource, from the audit log (QM_KUBE_AUDIT=1 of tools/peers/kubernetes.sh)."""
    if start is None:
        return {}
    counts = collections.Counter()
    with open(audit_log()) as f:
        f.seek(start)
        for line in f:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the last line is not complete yet
            if event["stage"] != "ResponseStarted":  # of a watch; its end is counted
                what = event.get("objectRef", {}).get("resource") or event["requestURI"].split("?")[0]
                counts[f"{program_of(event.get('userAgent') or '-')}: {event['verb']} {what}"] += 1
    return {k: n / seconds for k, n in counts.most_common()}


def program_of(agent):
    """"quartermaster/qm-cost" is ours; "kwok/v1 (linux/amd64)" is not."""
    name, _, rest = agent.split()[0].partition("/")
    return rest if name == "quartermaster" else name


def show(report):
    print(f"idle suite, {report['nodes']} nodes, {report['replicas']} replica(s) of each service, {report['seconds']:.0f} s")
    print(f"  commits/s        {report['commits_per_second']:8.2f}")
    print(f"  rollbacks/s      {report['rollbacks_per_second']:8.2f}")
    print(f"  WAL bytes/s      {report['wal_bytes_per_second']:8.0f}")
    own = {k: n for k, n in report["api_by_client"].items() if k.startswith("qm-") and not k.startswith("qm-demo")}
    if report["api_per_second"]:
        print(f"  API requests/s   {f'{sum(own.values()):.2f}' if report['api_by_client'] else 'unknown':>8} of the suite, "
              f"{sum(report['api_per_second'].values()):.2f} of all clients")
    print(f"  % of a core      {sum(report['core_percent'].values()):8.2f}")
    for name, percent in sorted(report["core_percent"].items(), key=lambda item: -item[1]):
        print(f"    {percent:7.3f}  {name}")
    for title, rows in (("API requests/s by client", report["api_by_client"]), ("API requests/s", report["api_per_second"])):
        if rows:
            print(f"  {title}")
            for what, n in sorted(rows.items(), key=lambda item: -item[1]):
                print(f"    {n:7.3f}  {what}")
    if report["statements_per_second"]:
        print("  statements/s by session")
        for who, what, n in report["statements_per_second"]:
            print(f"    {n:7.2f}  {who}: {what}")


if __name__ == "__main__":
    main()
