"""Figures of constructed turns, and the Jobs of each scenario: python3 -m unittest figures_test, in this folder."""
import subprocess
import unittest

import measure
import report
import workload
from observe import Record
from workload import Job


def pod(uid, job, gpus, node=None, phase="Pending"):
    containers = [{"resources": {"requests": {workload.GPU: str(gpus)}}}]
    return {"metadata": {"uid": uid, "namespace": "team-a", "labels": {"batch.kubernetes.io/job-name": job}},
            "spec": {"containers": containers, "nodeName": node}, "status": {"phase": phase}}


def node(name, gpus, kind):
    return {"metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind}}, "status": {"allocatable": {workload.GPU: str(gpus)}}}


def turn(record, end=110.0):
    processes = {"api": {"role": "control plane", "cpu_s": 3.0, "peak_mib": 500.0}, "own": {"role": "side", "cpu_s": 1.0, "peak_mib": 100.0},
                 "fleet": {"role": "harness", "cpu_s": 0.5, "peak_mib": 10.0},
                 "agent-0": {"role": "agent", "cpu_s": 0.1, "peak_mib": 30.0}}
    cost = {"processes": processes, "api": {"requests": {"POST": 8.0, "GET": 0.0}, "bytes": {"POST": 80.0}, "watch_bytes": 400.0},
            "database": {"commits": 40, "wal_bytes": 4000}, "services": {"json_bytes": 2000.0, "bus_messages": 6.0}, "samples": []}
    return {"record": record, "created": {"team-a/gang": 100.0, "team-a/single": 101.0}, "first": 100.0, "made": 101.5, "begin": 100.0,
            "end": end, "cost": cost}


class Figures(unittest.TestCase):
    jobs = [Job("gang", "team-a", 3, 8), Job("single", "team-a", 1, 2)]

    def record(self):
        record = Record()
        for name in ("n1", "n2", "n3"):
            record.see_node(False, node(name, 8, "p5.48xlarge"), 90.0)
        return record

    def test_a_gang_of_which_one_pod_has_no_node_is_partial(self):
        record = self.record()
        for i, where in enumerate(("n1", "n2", None)):
            record.see_pod(False, pod(f"g{i}", "gang", 8, where), 102.0 + i)
        record.see_pod(False, pod("s", "single", 2, "n3"), 104.0)
        found = report.figures(turn(record), self.jobs)
        self.assertEqual((found["bound"], found["pods"], found["partial_gangs"], found["first_gang_s"]), (3, 4, 1, None))
        self.assertEqual((found["gpus"], found["nodes_used"], found["stranded_gpus"]), (18, 3, 6))
        self.assertEqual(found["last_bind_s"], 4.0)
        self.assertEqual(found["wait_p99_s"], 3.0)  # the pod that was bound 3 s after its Job was created
        self.assertAlmostEqual(found["jobs_created_s"], 1.5)

    def test_costs_are_per_pod_and_a_side_is_its_own_processes(self):
        record = self.record()
        for i in range(4):
            record.see_pod(False, pod(f"p{i}", "single", 2, "n1"), 101.0 + i)
        found = report.figures(turn(record), self.jobs)
        self.assertAlmostEqual(found["cpu_ms_per_pod"], 1150.0)
        self.assertAlmostEqual(found["side_cpu_ms_per_pod"], 275.0)
        self.assertAlmostEqual(found["services_cpu_ms_per_pod"], 250.0)
        self.assertEqual((found["side_peak_mib"], found["services_peak_mib"]), (130.0, 100.0))
        self.assertEqual((found["json_bytes_per_pod"], found["bus_messages_per_pod"]), (500.0, 1.5))
        self.assertEqual((found["commits_per_pod"], found["all_api_requests_per_pod"], found["watch_bytes_per_pod"]), (10.0, 2.0, 100.0))

    def test_a_pod_that_ended_uses_no_node(self):
        record = self.record()
        record.see_pod(False, pod("s", "single", 2, "n1"), 101.0)
        record.see_pod(False, pod("s", "single", 2, "n1", "Succeeded"), 105.0)
        found = report.figures(turn(record), self.jobs)
        self.assertEqual((found["bound"], found["nodes_used"]), (1, 0))
        self.assertAlmostEqual(found["gpu_hours"], 2 * 4.0 / 3600)

    def test_growth_is_sampled_at_each_tenth_of_the_pods(self):
        binds = [i / 10 for i in range(100)]  # ten a second
        samples = [(100.0 + s / 4, {"own": (5.0 + s, 50.0 + s)}) for s in range(60)]
        rows = report.growth(samples, 100.0, binds)
        self.assertEqual([row["bound"] for row in rows], [1, 11, 21, 31, 41, 51, 61, 71, 81, 91, 100])
        self.assertEqual(rows[0]["processes"]["own"], {"cpu_s": 0.0, "mib": 50.0})
        self.assertEqual(rows[2], {"s": 2.0, "bound": 21, "processes": {"own": {"cpu_s": 8.0, "mib": 58.0}}})

    def test_dollars_are_of_the_lives_of_nodes(self):
        record = Record()
        record.see_node(False, node("a", 1, "g6.xlarge"), 100.0)
        record.see_node(False, node("b", 8, "g6.48xlarge"), 100.0)
        record.see_node(True, node("b", 8, "g6.48xlarge"), 136.0)
        rate, spent = report.dollars(record, 172.0)
        self.assertAlmostEqual(rate, 0.8048)
        self.assertAlmostEqual(spent, 0.8048 * 72 / 3600 + 13.3504 * 36 / 3600)

    def test_a_missed_target_is_reported_as_missed(self):
        sides = {"quartermaster": {"pods_per_s": 70.0}, "kueue": {"pods_per_s": 50.0}, "kube-scheduler": {"pods_per_s": 60.0}}
        self.assertEqual([met for _, met in report.targets("released", sides)], [False, True])

    def test_each_side_is_a_curve_of_the_chart(self):
        drawn = report.chart("Pods bound", {"kueue": [1.0, 2.0], "quartermaster": [0.5, 1.0]})
        self.assertEqual(drawn.count("<polyline"), 2)
        self.assertIn("720", drawn)


class Workload(unittest.TestCase):
    def test_the_same_seed_gives_the_same_jobs(self):
        for scenario in ("burst", "released", "gangs", "turnover", "capacity"):
            self.assertEqual(workload.jobs_of(scenario, 40, 0, 600, 7), workload.jobs_of(scenario, 40, 0, 600, 7))
        self.assertNotEqual(workload.jobs_of("burst", 40, 0, 600, 7), workload.jobs_of("burst", 40, 0, 600, 8))

    def test_standing_jobs_fill_three_quarters_with_about_so_many_pods(self):
        jobs = workload.jobs_of("burst", 1000, 5000, 0, 1)
        self.assertAlmostEqual(sum(j.pods for j in jobs), 5000, delta=50)
        self.assertAlmostEqual(sum(j.pods * j.gpus for j in jobs), 6000, delta=300)

    def test_turnover_arrives_at_the_load(self):
        jobs = workload.jobs_of("turnover", 100, 0, 3600, 1)
        self.assertAlmostEqual(sum(j.pods * j.gpus * j.run_s for j in jobs) / 3600 / 800, workload.TURNOVER_LOAD, delta=0.07)

    def test_only_jobs_of_a_queue_start_suspended(self):
        job = Job("a", "team-a", 1, 1)
        self.assertFalse(workload.job_object(job)["spec"]["suspend"])
        self.assertTrue(workload.job_object(job, queue_label="kueue.x-k8s.io/queue-name")["spec"]["suspend"])

    def test_queues_have_all_gpus(self):
        queues = [o for o in workload.queue_objects("v", "cohort", 2400, True) if o["kind"] == "ClusterQueue"]
        quota = [int(q["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]) for q in queues]
        self.assertEqual(sum(quota), 2400)
        self.assertEqual({q["spec"]["stopPolicy"] for q in queues}, {"Hold"})


class Measure(unittest.TestCase):
    def test_differences_of_nested_counters(self):
        self.assertEqual(measure.difference({"a": 3, "b": {"c": 5, "d": 1}}, {"a": 1, "b": {"c": 2}}), {"a": 2, "b": {"c": 3, "d": 1}})

    def test_a_process_that_ended_is_named(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        with self.assertRaisesRegex(RuntimeError, rf"placement \(process {ended.pid}\) has ended"):
            measure.cpu_seconds("placement", ended.pid)


if __name__ == "__main__":
    unittest.main()
