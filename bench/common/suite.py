"""What benchmarks read of a suite that qm-demo started: its PostgreSQL, and processes."""
import glob
import os
import subprocess

PSQL = (sorted(glob.glob("/usr/lib/postgresql/*/bin/psql")) or ["psql"])[-1]


def sql(conninfo, statement):
    """The answer of one statement, columns separated by spaces."""
    done = subprocess.run([PSQL, "-XqAt", "-F", " ", "-d", conninfo, "-c", statement], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def postmaster_pid(conninfo):
    with open(os.path.join(sql(conninfo, "show data_directory"), "postmaster.pid"), encoding="ascii") as file:
        return int(file.readline())


def children_of(pid):
    """The processes whose parent is this one; none if it has ended."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
        except OSError:
            pass
    return found
