"""Results of the turns: figures of one turn, medians over turns, the table, the verdict on the targets, and the chart."""
import bisect
import statistics

from capacity import prices
from workload import GPUS_PER_NODE

COLORS = {"kube-scheduler": "#6b7280", "kueue": "#d97706", "quartermaster": "#2563eb"}


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def packing(record, at):
    """GPUs of the pods that ran at a time, the nodes that they used, and the GPUs of these nodes."""
    used = {}
    for pod in record.pods.values():
        if pod["bound"] is not None and pod["bound"] <= at and (pod["ended"] is None or pod["ended"] > at):
            used[pod["node"]] = used.get(pod["node"], 0) + pod["gpus"]
    total = sum(record.nodes.get(node, {}).get("gpus", GPUS_PER_NODE) for node in used)
    return sum(used.values()), len(used), total


def gangs(record, jobs, at):
    """Gangs of which only a part of the pods was bound at a time, and when the first whole one was."""
    bound = {}
    for pod in record.pods.values():
        if pod["bound"] is not None and pod["bound"] <= at and (pod["ended"] is None or pod["ended"] > at):
            bound.setdefault(pod["job"], []).append(pod["bound"])
    several = [(f"{job.namespace}/{job.name}", job.pods) for job in jobs if job.pods > 1]
    partial = sum(1 for name, pods in several if 0 < len(bound.get(name, ())) < pods)
    whole = [max(bound[name]) for name, pods in several if len(bound.get(name, ())) >= pods]
    return partial, min(whole, default=None)


def dollars(record, end):
    """USD an hour of the nodes at the end, and USD of all nodes from when they joined until they were gone, or the end."""
    usd_per_hour = prices()
    lives = [(usd_per_hour.get(node["type"], 0.0), node) for node in record.nodes.values() if node["joined"] <= end]
    rate = sum(price for price, node in lives if node["gone"] is None or node["gone"] > end)
    return rate, sum(price * (min(node["gone"] or end, end) - node["joined"]) / 3600 for price, node in lives)


def growth(samples, begin, binds):
    """At about each tenth of the bound pods: seconds, bound pods, and of each process the CPU seconds since the start and the MiB."""
    rows, start = [], samples[0][1] if samples else {}
    for at, found in samples:
        bound = bisect.bisect_right(binds, at - begin)
        if rows and bound < rows[-1]["bound"] + max(1, len(binds) // 10) and bound < len(binds):
            continue
        rows.append({"s": at - begin, "bound": bound, "processes": {name: {"cpu_s": cpu - start[name][0], "mib": mib} for name, (cpu, mib) in found.items()}})
        if bound == len(binds):
            break
    return rows


def figures(turn, jobs):
    """The figures of one turn. Times are seconds since the first Job was created, or since the release."""
    record, begin = turn["record"], turn["begin"]
    binds = sorted(pod["bound"] - begin for pod in record.pods.values() if pod["bound"] is not None)
    admits = sorted(job["admitted"] - begin for job in record.jobs.values() if job["admitted"] is not None and job["admitted"] >= begin)
    waits = [pod["bound"] - max(begin, turn["created"][pod["job"]]) for pod in record.pods.values() if pod["bound"] is not None]
    end = turn["end"]
    gpus, nodes, total = packing(record, end)
    partial, first = gangs(record, jobs, end)
    middle = binds[len(binds) // 10: len(binds) - len(binds) // 10]
    pods = max(1, len(binds))
    cost = turn["cost"]
    rate, spent = dollars(record, end)
    by_role = {}
    for process in cost["processes"].values():
        role = by_role.setdefault(process["role"], {"cpu_s": 0.0, "peak_mib": 0.0})
        role["cpu_s"] += process["cpu_s"]
        role["peak_mib"] += process["peak_mib"]
    services = by_role.get("side", {"cpu_s": 0.0, "peak_mib": 0.0})
    own = {key: services[key] + by_role.get("agent", {}).get(key, 0.0) for key in services}
    used = sum(pod["gpus"] * ((pod["ended"] or end) - pod["bound"]) for pod in record.pods.values() if pod["bound"] is not None)
    result = {
        "pods": sum(job.pods for job in jobs), "bound": len(binds), "jobs_created_s": turn["made"] - turn["first"],
        "last_admission_s": admits[-1] if admits else None, "last_bind_s": binds[-1] if binds else None,
        "pods_per_s": len(binds) / binds[-1] if binds else 0.0,
        "pods_per_s_middle": (len(middle) - 1) / (middle[-1] - middle[0]) if len(middle) > 1 and middle[-1] > middle[0] else None,
        "wait_p50_s": quantile(waits, 0.50), "wait_p99_s": quantile(waits, 0.99), "gpus": gpus, "nodes_used": nodes,
        "gpu_share": gpus / total if total else None, "stranded_gpus": total - gpus, "nodes": sum(1 for node in record.nodes.values() if node["gone"] is None or node["gone"] > end),
        "last_node_s": max((node["joined"] - begin for node in record.nodes.values() if node["joined"] >= begin), default=None),
        "usd_per_hour": rate, "usd": spent, "partial_gangs": partial,
        "first_gang_s": first - begin if first is not None else None, "cpu_ms_per_pod": 1000 * sum(r["cpu_s"] for r in by_role.values()) / pods,
        "side_cpu_s": own["cpu_s"], "side_cpu_ms_per_pod": 1000 * own["cpu_s"] / pods, "side_peak_mib": own["peak_mib"],
        "services_cpu_ms_per_pod": 1000 * services["cpu_s"] / pods, "services_peak_mib": services["peak_mib"], "gpu_hours": used / 3600,
        "by_role": by_role, "processes": cost["processes"],
        "api_requests_per_pod": {verb: n / pods for verb, n in sorted(cost["api"]["requests"].items()) if n},
        "api_bytes_per_pod": {verb: n / pods for verb, n in sorted(cost["api"]["bytes"].items()) if n},
        "watch_bytes_per_pod": cost["api"]["watch_bytes"] / pods, "binds_s": [round(b, 3) for b in binds],
        "growth": growth(cost["samples"], begin, binds),
    }
    result["all_api_requests_per_pod"] = sum(result["api_requests_per_pod"].values())
    if "database" in cost:
        result["commits_per_pod"] = cost["database"]["commits"] / pods
        result["wal_bytes_per_pod"] = cost["database"]["wal_bytes"] / pods
    if "services" in cost:
        result["json_bytes_per_pod"] = cost["services"]["json_bytes"] / pods
        result["bus_messages_per_pod"] = cost["services"]["bus_messages"] / pods
    return result


ROWS = (
    ("pods bound", "bound", 0), ("of pods", "pods", 0), ("Jobs created, s", "jobs_created_s", 1), ("last admission, s", "last_admission_s", 1),
    ("last bind, s", "last_bind_s", 1), ("pods/s", "pods_per_s", 1), ("pods/s, middle 80 %", "pods_per_s_middle", 1),
    ("wait p50, s", "wait_p50_s", 2), ("wait p99, s", "wait_p99_s", 2), ("nodes used", "nodes_used", 0),
    ("last node created, s", "last_node_s", 1), ("nodes", "nodes", 0), ("nodes, USD an hour", "usd_per_hour", 2), ("GPU share of used nodes", "gpu_share", 3), ("stranded GPUs", "stranded_gpus", 0), ("gangs bound in part", "partial_gangs", 0),
    ("first whole gang, s", "first_gang_s", 1), ("CPU per pod, all, ms", "cpu_ms_per_pod", 1), ("CPU per pod, own, ms", "side_cpu_ms_per_pod", 1),
    ("CPU per pod, no agents, ms", "services_cpu_ms_per_pod", 1), ("peak memory, own, MiB", "side_peak_mib", 0),
    ("peak memory, no agents, MiB", "services_peak_mib", 0), ("GPU-hours of pods", "gpu_hours", 1), ("API requests per pod", "all_api_requests_per_pod", 1),
    ("watch bytes per pod", "watch_bytes_per_pod", 0), ("commits per pod", "commits_per_pod", 1), ("WAL bytes per pod", "wal_bytes_per_pod", 0),
    ("JSON bytes parsed per pod", "json_bytes_per_pod", 0), ("bus messages per pod", "bus_messages_per_pod", 1))


def medians(results):
    """The median of each figure over the turns of a side; of figures that a side lacks, None."""
    keys = [key for _, key, _ in ROWS]
    found = {}
    for key in keys:
        values = [r[key] for r in results if r.get(key) is not None]
        found[key] = statistics.median(values) if values else None
    return found


def table(by_side):
    """Lines of text: a row for each figure, a column for each side."""
    names = list(by_side)
    lines = [f"{'':28}" + "".join(f"{name:>16}" for name in names)]
    for title, key, digits in ROWS:
        if any(by_side[name][key] is not None for name in names):
            cells = ("-" if by_side[name][key] is None else f"{by_side[name][key]:,.{digits}f}" for name in names)
            lines.append(f"{title:28}" + "".join(f"{cell:>16}" for cell in cells))
    return lines


def processes(results_by_side):
    """Lines of text: CPU seconds and peak MiB of each process, medians over the turns."""
    lines = []
    for side, results in results_by_side.items():
        cells = []
        for name in results[-1]["processes"]:
            samples = [r["processes"][name] for r in results if name in r["processes"]]
            cpu, peak = (statistics.median(t[key] for t in samples) for key in ("cpu_s", "peak_mib"))
            cells.append(f"{name} {cpu:.2f} ({peak:.0f})")
        lines.append(f"{side}: " + ", ".join(cells))
    return lines


def targets(scenario, by_side):
    """(text, met) for each target of the scenario whose sides were measured. must: required; goal: wished."""
    ours, kueue, stock = (by_side.get(name) for name in ("quartermaster", "kueue", "kube-scheduler"))
    if ours is None:
        return []
    found = []

    def compare(what, value, bound, at_least):
        met = value >= bound if at_least else value <= bound
        found.append((f"{what}: {value:.2f}, {'at least' if at_least else 'at most'} {bound:.2f}", met))

    if scenario in ("burst", "released") and kueue:
        compare("must: pods/s of Quartermaster over Kueue", ours["pods_per_s"] / kueue["pods_per_s"], 2.0, True)
    if scenario == "released" and stock:
        compare("goal: pods/s of Quartermaster over kube-scheduler", ours["pods_per_s"] / stock["pods_per_s"], 1.0, True)
    if scenario == "burst" and stock:
        compare("goal: last bind of Quartermaster over kube-scheduler", ours["last_bind_s"] / stock["last_bind_s"], 1.2, False)
        for word, bound in (("must", 1.5), ("goal", 1.1)):
            compare(f"{word}: time to create the Jobs over kube-scheduler", ours["jobs_created_s"] / stock["jobs_created_s"], bound, False)
    if scenario == "gangs":
        compare("must: gangs bound in part", ours["partial_gangs"], 0, False)
        if kueue and kueue["first_gang_s"] and ours["first_gang_s"]:
            compare("must: first whole gang over Kueue's", ours["first_gang_s"] / kueue["first_gang_s"], 1.0, False)
    if scenario == "capacity" and kueue:
        compare("must: USD an hour over Kueue's and Karpenter's", ours["usd_per_hour"] / kueue["usd_per_hour"], 0.75, False)
        compare("must: last bind over Kueue's and Karpenter's", ours["last_bind_s"] / kueue["last_bind_s"], 1.0, False)
    if scenario == "turnover" and kueue:
        # Agents serve the metrics of GPUs, for which the other side has no program.
        compare("must: CPU per pod, without agents, over Kueue, kube-scheduler and Karpenter",
                ours["services_cpu_ms_per_pod"] / kueue["services_cpu_ms_per_pod"], 0.6, False)
        compare("must: peak memory, without agents, over Kueue, kube-scheduler and Karpenter",
                ours["services_peak_mib"] / kueue["services_peak_mib"], 1.0, False)
    return found


def chart(title, curves):
    """An SVG of bound pods over time: side -> sorted seconds."""
    width, height, left, bottom, top = 720, 360, 60, 40, 40
    last = max((c[-1] for c in curves.values() if c), default=1.0) or 1.0
    most = max((len(c) for c in curves.values()), default=1) or 1
    plot_w, plot_h = width - left - 20, height - bottom - top

    def point(second, count):
        return f"{left + plot_w * second / last:.1f},{top + plot_h * (1 - count / most):.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="#ffffff"/>', f'<text x="{left}" y="20" font-size="14">{title}</text>',
             f'<path d="M{left},{top} V{top + plot_h} H{left + plot_w}" fill="none" stroke="#111827"/>']
    for i in range(6):
        x, y = left + plot_w * i / 5, top + plot_h * (1 - i / 5)
        parts.append(f'<text x="{x:.0f}" y="{top + plot_h + 16}" text-anchor="middle">{last * i / 5:.1f}</text>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{most * i / 5:.0f}</text>')
    parts.append(f'<text x="{left + plot_w}" y="{height - 6}" text-anchor="end">seconds</text>')
    for i, (side, curve) in enumerate(curves.items()):
        points = [point(0, 0)]
        step = max(1, len(curve) // 500)
        for count, second in enumerate(curve, 1):
            if count % step == 0 or count == len(curve):
                points.append(point(second, count))
        color = COLORS[side]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<rect x="{left + 12}" y="{top + 4 + 18 * i}" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{left + 30}" y="{top + 14 + 18 * i}">{side}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
