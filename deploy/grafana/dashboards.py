#!/usr/bin/env python3
"""The dashboards as code: writes deploy/grafana/dashboards/*.json (or, with --check, prints which of them differ).

A panel is a line here: title, description, query, unit. SQL reads only the views of the schema `report`, with a role
that may read nothing else; PromQL reads the metrics of the services' /metrics pages. tests/deploy runs every query.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
SQL = {"type": "grafana-postgresql-datasource", "uid": "${reports}"}
PROM = {"type": "prometheus", "uid": "${metrics}"}
RED, YELLOW, GREEN = "red", "yellow", "green"


def thresholds(*steps):
    """steps: (from, color); the first has None."""
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def panel(kind, title, description, targets, *, unit=None, width=12, height=8, decimals=None, limits=None, stacked=False,
          options=None, datasource):
    defaults = {}
    if unit:
        defaults["unit"] = unit
    if decimals is not None:
        defaults["decimals"] = decimals
    if limits:
        defaults["thresholds"] = limits
    if stacked:
        defaults["custom"] = {"stacking": {"mode": "normal", "group": "A"}, "fillOpacity": 30}
    return {
        "type": kind, "title": title, "description": description, "datasource": datasource,
        "targets": targets, "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options or {}, "gridPos": {"w": width, "h": height, "x": 0, "y": 0},
    }


def sql(kind, title, description, query, **how):
    target = {"refId": "A", "datasource": SQL, "rawQuery": True, "editorMode": "code",
              "format": "time_series" if kind == "timeseries" else "table", "rawSql": " ".join(query.split())}
    return panel(kind, title, description, [target], datasource=SQL, **how)


def prom(kind, title, description, *queries, **how):
    targets = [{"refId": chr(ord("A") + i), "datasource": PROM, "expr": expr, "legendFormat": legend,
                "instant": kind in ("stat", "gauge", "table"), "range": kind not in ("stat", "gauge", "table")}
               for i, (expr, legend) in enumerate(queries)]
    return panel(kind, title, description, targets, datasource=PROM, **how)


def source(name, label, kind):
    return {"name": name, "label": label, "type": "datasource", "query": kind, "refresh": 1, "hide": 0}


def choice(name, label, query):
    return {"name": name, "label": label, "type": "query", "datasource": SQL, "query": query, "refresh": 2, "multi": True,
            "includeAll": True, "hide": 0, "sort": 1}


REPORTS = source("reports", "Reports", "grafana-postgresql-datasource")
METRICS = source("metrics", "Metrics", "prometheus")
TEAMS = choice("team", "Team", "select distinct team from report.cost_by_hour where $__timeFilter(time) order by 1")
PRODUCTS = choice("product", "Product",
                  "select distinct product from report.cost_by_hour where $__timeFilter(time) order by 1")
QUEUES = choice("queue", "Cluster queue",
                "select distinct cluster_queue from report.queue_waits where $__timeFilter(time) order by 1")

COST = "from report.cost_by_hour where $__timeFilter(time) and team in (${team:sqlstring}) and product in (${product:sqlstring})"


def chargeback():
    by = lambda column: f"select {column}, sum(gpu_hours) as gpu_hours, sum(usd) as usd {COST} group by 1 order by 3 desc"
    return dashboard("chargeback", "Chargeback", "Who pays for which GPU-hours, to the nano-dollar.", "now-30d",
                     [REPORTS, TEAMS, PRODUCTS], [
        sql("stat", "Total", "All that the provider charges for the hours shown.",
            f"select sum(usd) as usd {COST}", unit="currencyUSD", decimals=2, width=6, height=4),
        sql("stat", "GPU-hours", "Hours of whole GPUs in that total.",
            f"select sum(gpu_hours) as gpu_hours {COST}", unit="h", decimals=1, width=6, height=4),
        sql("stat", "Paid for and idle", "Share of the cost without work: idle, starting, draining, unhealthy.",
            f"select sum(usd) filter (where account <> 'team-expense') / nullif(sum(usd), 0) as idle {COST}",
            unit="percentunit", decimals=1, width=6, height=4,
            limits=thresholds((None, GREEN), (0.2, YELLOW), (0.4, RED))),
        sql("stat", "Books out of balance", "Sum over all journal entries, in nano-dollars. Any value but zero is a fault.",
            "select imbalance_nano from report.ledger_balance", decimals=0, width=6, height=4,
            limits=thresholds((None, GREEN), (1, RED))),
        sql("timeseries", "Cost per hour by team", "Idle pools have their own names.",
            f"select time, team as metric, sum(usd) as usd {COST} group by 1, 2 order by 1",
            unit="currencyUSD", width=24, stacked=True),
        sql("table", "By month and team", "The chargeback statement of that month.",
            "select month, team, sum(gpu_hours) as gpu_hours, sum(usd) as usd from report.chargeback "
            "where team in (${team:sqlstring}) group by 1, 2 order by 1 desc, 4 desc", unit="none"),
        sql("table", "By team", "In the hours shown.", by("team")),
        sql("table", "By namespace", "In the hours shown.", by("namespace")),
        sql("table", "By product", "By the pods' label `product`; empty where it is not set.", by("product")),
        sql("table", "By cost center and environment", "By the pods' labels `cost-center`, `environment`, `workload-type`.",
            "select month, cost_center, environment, workload_type, sum(gpu_hours) as gpu_hours, sum(usd) as usd "
            "from report.chargeback where team in (${team:sqlstring}) group by 1, 2, 3, 4 order by 1 desc, 6 desc"),
        sql("timeseries", "Idle by day", "Cost of unused time, by reason.",
            "select day as time, account as metric, sum(usd) as usd from report.idle_by_day where $__timeFilter(day) "
            "group by 1, 2 order by 1", unit="currencyUSD", stacked=True),
    ])


def queues():
    rows = "from report.queue_waits where $__timeFilter(time) and cluster_queue in (${queue:sqlstring})"
    return dashboard("queue", "Queues", "Wait times of jobs, by queue and team.", "now-24h", [REPORTS, METRICS, QUEUES], [
        prom("timeseries", "Pending now", "Pending workloads of each ClusterQueue.",
             ("sum by (cluster_queue) (kueue_pending_workloads)", "{{cluster_queue}}")),
        prom("timeseries", "Quota in use", "Share of the nominal GPU quota of each cluster queue.",
             ("sum by (cluster_queue) (kueue_cluster_queue_resource_usage{resource=\"nvidia.com/gpu\"}) / "
              "sum by (cluster_queue) (kueue_cluster_queue_nominal_quota{resource=\"nvidia.com/gpu\"})",
              "{{cluster_queue}}"), unit="percentunit"),
        sql("table", "Waits by cluster queue", "From queueing to admission, of what was admitted in the hours shown.",
            "select cluster_queue, count(*) as starts, percentile_disc(0.5) within group (order by wait_seconds) as p50, "
            f"percentile_disc(0.99) within group (order by wait_seconds) as p99, max(wait_seconds) as longest {rows} "
            "group by 1 order by 4 desc", unit="s"),
        sql("table", "Waits by team", "The same by team.",
            "select team, count(*) as starts, percentile_disc(0.5) within group (order by wait_seconds) as p50, "
            f"percentile_disc(0.99) within group (order by wait_seconds) as p99, max(wait_seconds) as longest {rows} "
            "group by 1 order by 4 desc", unit="s"),
        sql("timeseries", "Median wait", "Per hour of admission.",
            "select $__timeGroupAlias(time, '1h'), cluster_queue as metric, "
            f"percentile_disc(0.5) within group (order by wait_seconds) as wait {rows} group by 1, 2 order by 1", unit="s"),
        sql("timeseries", "GPUs started", "Per hour of admission.",
            f"select $__timeGroupAlias(time, '1h'), cluster_queue as metric, sum(gpus) as gpus {rows} "
            "group by 1, 2 order by 1", stacked=True),
    ])


def jobs():
    return dashboard("job", "Jobs", "Wait time, run time and cost of each job.", "now-7d", [REPORTS, TEAMS, PRODUCTS], [
        sql("table", "Jobs by cost", "The 200 most expensive in the time shown.",
            "select c.namespace, c.workload, c.team, c.product, j.cluster_queue, j.gpus, j.submitted, j.first_start, "
            "j.ended, j.wait_seconds, j.starts, j.evictions, j.succeeded, c.gpu_hours, c.usd, c.uid "
            "from report.cost_by_job c left join report.jobs j on j.uid = c.uid and j.shard = c.shard "
            "where $__timeFilter(c.first_charged) and c.team in (${team:sqlstring}) "
            "and c.product in (${product:sqlstring}) order by c.usd desc limit 200", width=24, height=14),
        sql("table", "Evicted jobs", "Started more than once.",
            "select namespace, workload, team, starts, evictions, submitted, ended from report.jobs "
            "where $__timeFilter(submitted) and evictions > 0 and team in (${team:sqlstring}) "
            "order by evictions desc limit 100", width=24),
    ])


def gpus():
    return dashboard("gpu", "GPUs", "Utilization and health of the GPUs.", "now-6h", [METRICS], [
        prom("timeseries", "Utilization", "Green is 70 to 90 %; red is below 40 % (idle GPUs) and above 95 % (no reserve).",
             ("avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)", "{{Hostname}}"), unit="percent",
             limits=thresholds((None, RED), (40, YELLOW), (70, GREEN), (90, YELLOW), (95, RED))),
        prom("timeseries", "Temperature", "Hottest GPU of each node.",
             ("max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", "{{Hostname}}"), unit="celsius",
             limits=thresholds((None, GREEN), (80, YELLOW), (85, RED))),
        prom("timeseries", "Memory used", "Of the frame buffer.",
             ("sum by (Hostname) (DCGM_FI_DEV_FB_USED) / (sum by (Hostname) (DCGM_FI_DEV_FB_USED) + "
              "sum by (Hostname) (DCGM_FI_DEV_FB_FREE))", "{{Hostname}}"), unit="percentunit"),
        prom("timeseries", "Power", "Of all GPUs of a node.",
             ("sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE)", "{{Hostname}}"), unit="watt", stacked=True),
        prom("stat", "Unhealthy nodes", "Nodes with a health verdict.",
             ("sum(qm_telemetry_unhealthy_nodes)", "nodes"), width=6, height=4,
             limits=thresholds((None, GREEN), (1, RED))),
        prom("stat", "GPUs in use", "Share of the GPUs that placement may allocate.",
             ("sum(qm_placement_gpus_used) / sum(qm_placement_gpus)", "used"), unit="percentunit", width=6, height=4),
        prom("stat", "Agents", "Connected streams.", ("sum(qm_telemetry_agents)", "agents"), width=6, height=4),
        prom("stat", "Burn rate", "Cost of all instances per hour, now.",
             ("sum(qm_cost_burn_usd_per_hour)", "USD/h"), unit="currencyUSD", width=6, height=4),
        prom("timeseries", "Allocated GPUs and upper bounds",
             "GPUs of placed pods, and upper bounds for any scheduler with the same demand and nodes: with the running pods kept, and "
             "without that constraint. Computed each minute.",
             ("max(qm_placement_gpus_allocated)", "allocated"),
             ("max(qm_placement_gpus_bound{who=\"keeping\"})", "upper bound, running pods kept"),
             ("max(qm_placement_gpus_bound{who=\"any\"})", "upper bound"), decimals=0),
        prom("timeseries", "Scarcity", "Additional GPUs that one more node of the model and size would allocate.",
             ("max by (model, gpus) (qm_placement_scarcity_price)", "{{model}} x {{gpus}}"), decimals=1),
    ])


def suite():
    return dashboard("suite", "Quartermaster itself", "Health and throughput of the services.", "now-3h", [METRICS], [
        prom("timeseries", "Ready", "1 if a service decides and commits.",
             ("min by (service) (qm_host_ready)", "{{service}}")),
        prom("timeseries", "Batches per second", "Decisions that were committed.",
             ("sum by (service) (rate(qm_host_batches_total[5m]))", "{{service}}"), unit="ops"),
        prom("timeseries", "Seconds per commit", "Mean time in the database per batch.",
             ("sum by (service) (rate(qm_host_commit_seconds_total[5m])) / "
              "sum by (service) (rate(qm_host_batches_total[5m]))", "{{service}}"), unit="s"),
        prom("timeseries", "Events not yet sent", "Outbox of each service.",
             ("sum by (service) (qm_host_outbox_backlog)", "{{service}}")),
        prom("timeseries", "Behind the bus", "Unread messages of the topics that a service reads.",
             ("sum by (service) (qm_host_bus_lag)", "{{service}}")),
        prom("timeseries", "Open intents", "Intents to Kubernetes and the cloud without an outcome yet.",
             ("sum by (service) (qm_host_open_intents)", "{{service}}")),
    ])


def dashboard(uid, title, description, since, variables, panels):
    x = y = row = 0
    for number, p in enumerate(panels, 1):
        p["id"] = number
        at = p["gridPos"]
        if x + at["w"] > 24:
            x, y, row = 0, y + row, 0
        at["x"], at["y"] = x, y
        x, row = x + at["w"], max(row, at["h"])
    return {"uid": f"qm-{uid}", "title": title, "description": description, "tags": ["quartermaster"], "timezone": "utc",
            "schemaVersion": 42, "version": 1, "editable": False, "refresh": "1m",
            "time": {"from": since, "to": "now"}, "templating": {"list": variables}, "annotations": {"list": []},
            "panels": panels}


def main():
    check = sys.argv[1:] == ["--check"]
    differ = []
    FOLDER.mkdir(exist_ok=True)
    for make in (chargeback, queues, jobs, gpus, suite):
        board = make()
        file = FOLDER / (board["uid"].removeprefix("qm-") + ".json")
        text = json.dumps(board, indent=1, ensure_ascii=False) + "\n"
        if not check:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            differ.append(file.name)
    if differ:
        sys.exit(f"run deploy/grafana/dashboards.py: {', '.join(differ)} differ")


if __name__ == "__main__":
    main()
