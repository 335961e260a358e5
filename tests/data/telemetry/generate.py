#!/usr/bin/env python3
"""Writes the pages of this folder and expected.csv, which says what a reader must find in them.

    python3 tests/data/telemetry/generate.py

One machine is described below, and each page shows it in another form of dcgm-exporter. The names of the fields in all three
generations come from ../tables/dcgm_field_names.csv. expected.csv comes from the description too, by the arithmetic here and
not by the reader that is tested.
"""
import csv
import os

HERE = os.path.dirname(os.path.abspath(__file__))

# Older name, help, type, form of the value, whether MIG instances have it. The order is that of DCGM's field ids.
FAMILIES = [
    ("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", "gauge", "%d", True),
    ("DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", "gauge", "%d", True),
    ("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", "gauge", "%d", True),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", "gauge", "%d", True),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", "gauge", "%f", True),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", "counter", "%d", True),
    ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Total number of PCIe retries.", "counter", "%d", True),
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", "gauge", "%d", False),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", "gauge", "%d", False),
    ("DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).", "gauge", "%d", False),
    ("DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).", "gauge", "%d", False),
    ("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", "gauge", "%d", True),
    ("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", "gauge", "%d", True),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", "gauge", "%d", True),
    ("DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB).", "gauge", "%d", True),
    ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for uncorrectable errors", "counter", "%d", True),
    ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors", "counter", "%d", True),
    ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed", "gauge", "%d", True),
    ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "Total number of NVLink bandwidth counters for all lanes.", "counter", "%d",
     False),
    ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "vGPU License status", "gauge", "%d", True),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", "gauge", "%f", True),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", "gauge", "%f", True),
    ("DCGM_FI_PROF_DRAM_ACTIVE",
     "Ratio of cycles the device memory interface is active sending or receiving data.", "gauge", "%f", True),
    ("DCGM_FI_PROF_PCIE_TX_BYTES",
     "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes per "
     "second.", "gauge", "%d", False),
    ("DCGM_FI_PROF_PCIE_RX_BYTES",
     "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes per "
     "second.", "gauge", "%d", False),
]
MORE = [
    ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Clocks event reasons bitmask.", "gauge", "%d", True),
    ("DCGM_FI_DEV_ROW_REMAP_PENDING", "Whether a row remap is pending a GPU reset", "gauge", "%d", True),
    ("DCGM_FI_PROF_SM_ACTIVE", "The ratio of cycles an SM has at least 1 warp assigned.", "gauge", "%f", True),
    ("DCGM_FI_PROF_SM_OCCUPANCY", "The ratio of number of warps resident on an SM.", "gauge", "%f", True),
]
MODEL, HOST, DRIVER, MEMORY = "NVIDIA H200", "dl-rack4-node09", "575.57.08", 143771

TRAIN = ("bio-fold", "fold-v3-worker-1", "learner")
SERVE = ("assistants", "chat-large-66d9f7c5b4-r2qm9", "server")
LAB = ("students", "lab-7-notebook-0", "jupyter")


class Gpu:
    def __init__(self, index, busy, used, temp, watts, energy, xid=(0, "No Error"), holder=None, instances=()):
        self.index, self.busy, self.used, self.temp, self.watts = index, busy, used, temp, watts
        self.energy, self.xid, self.holder, self.instances = energy, xid, holder, instances
        self.uuid = f"GPU-{index + 16:08x}-4b1d-4c0e-9d2f-{0xa0 + index:012x}"
        self.bus = f"00000000:{(0x19 + 0x1B * index) % 256:02X}:00.0"


class Instance:
    def __init__(self, number, profile, busy, used, holder=None):
        self.number, self.profile, self.busy, self.used, self.holder = number, profile, busy, used, holder


GPUS = [
    Gpu(0, 93, 120400, 66, 612.25, 88_120_455_210, holder=TRAIN),
    Gpu(1, 91, 120388, 67, 608.5, 87_993_002_117, holder=TRAIN),
    Gpu(2, 38, 98304, 52, 331.125, 51_377_400_004, (43, "GPU stopped processing"), SERVE),
    Gpu(3, 0, 1, 31, 77.75, 20_000_000_001, (48, "Double Bit ECC Error")),
    Gpu(4, 0, 0, 44, 241.5, 33_333_000_333, holder=None, instances=(
        Instance(1, "3g.71gb", 0.84, 60100, ("assistants", "rank-0", "server")),
        Instance(5, "2g.35gb", 0.28, 20050, ("ci", "kernels-9q4xk", "main")),
        Instance(13, "1g.18gb", 0.0, 13))),
    Gpu(5, 0, 0, 39, 180.0, 30_303_030_303, instances=(
        Instance(7, "1g.18gb", 0.7, 9000, LAB), Instance(8, "1g.18gb", 0.35, 4000, LAB))),
    Gpu(6, 2, 70000, 36, 92.5, 25_250_000_600, holder=LAB),
    Gpu(7, 0, 1, 30, 76.0, 19_700_000_000),
]


def names():
    """Older name -> (name of DCGM 4.6, name of 1.x or empty)."""
    out = {}
    with open(os.path.join(HERE, "..", "tables", "dcgm_field_names.csv")) as file:
        for row in csv.DictReader(file):
            out[row["older_names"] or row["name_dcgm_4_6"]] = (row["name_dcgm_4_6"], row["legacy_1x_metric"])
    return out


NAMES = names()


def reading(gpu, instance, family):
    busy = instance.busy if instance else gpu.busy / 100
    used = instance.used if instance else gpu.used
    total = MEMORY - 600 if not instance else {"1": 16384, "2": 33280, "3": 70144}[instance.profile[0]]
    hot = busy > 0
    return {
        "SM_CLOCK": 1980 if hot else 345, "MEM_CLOCK": 3201, "MEMORY_TEMP": gpu.temp + 9, "GPU_TEMP": gpu.temp,
        "POWER_USAGE": gpu.watts, "TOTAL_ENERGY_CONSUMPTION": gpu.energy, "GPU_UTIL": gpu.busy,
        "MEM_COPY_UTIL": gpu.busy // 2, "XID_ERRORS": gpu.xid[0], "FB_FREE": total - used, "FB_USED": used,
        "FB_RESERVED": 600, "UNCORRECTABLE_REMAPPED_ROWS": 1 if gpu.xid[0] == 48 else 0,
        "ROW_REMAP_PENDING": 1 if gpu.xid[0] == 48 else 0, "NVLINK_BANDWIDTH_TOTAL": 1000 * gpu.busy,
        "GR_ENGINE_ACTIVE": busy, "PIPE_TENSOR_ACTIVE": 0.5 * busy, "DRAM_ACTIVE": 0.25 * busy,
        "SM_ACTIVE": 0.75 * busy, "SM_OCCUPANCY": 0.5 * busy, "PCIE_TX_BYTES": 52000 + 10_000 * gpu.busy,
        "PCIE_RX_BYTES": 98000 + 20_000 * gpu.busy,
    }.get(family.split("_FI_")[1].split("_", 1)[1], 0)


def labels(gpu, instance, holder, family, host="Hostname", extra=()):
    out = [("gpu", gpu.index), ("UUID", gpu.uuid), ("pci_bus_id", gpu.bus), ("device", f"nvidia{gpu.index}"),
           ("modelName", MODEL)]
    if instance:
        out += [("GPU_I_PROFILE", instance.profile), ("GPU_I_ID", instance.number)]
    out += [(host, HOST), ("DCGM_FI_DRIVER_VERSION", DRIVER)]
    if holder:
        out.append(("container", holder[2]))
    if "XID_ERROR" in family:
        out += [("err_code", gpu.xid[0]), ("err_msg", gpu.xid[1])]
    if holder:
        out += [("namespace", holder[0]), ("pod", holder[1])]
    return "{" + ",".join(f'{name}="{value}"' for name, value in out + list(extra)) + "}"


class Page:
    def __init__(self, name, about):
        self.name, self.lines, self.samples, self.blanks, self.bad, self.gpus = name, [f"# {about}"], 0, 0, 0, []

    def family(self, name, help_text, kind):
        self.lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]

    def sample(self, text, blank=False):
        self.lines.append(text)
        self.samples += 1
        self.blanks += blank

    def broken(self, text):
        self.lines.append(text)
        self.bad += 1

    def expect(self, index, uuid, model, **values):
        self.gpus.append((index, uuid, model, values))

    def write(self, rows, newline="\n", end=True):
        with open(os.path.join(HERE, self.name), "w", newline="") as out:
            out.write(newline.join(self.lines) + (newline if end else ""))
        rows.append([self.name, "", "", "", self.samples, self.blanks, self.bad] + [""] * 8)
        for index, uuid, model, values in self.gpus:
            rows.append([self.name, index, uuid, model, "", "", ""] + [values.get(key, "") for key in VALUES])


VALUES = ["utilization", "sm_active", "fb_used_mib", "fb_free_mib", "temperature_c", "power_watts", "energy_mj", "xid",
          "holders"]


def held(holders):
    return ";".join(sorted("/".join(h[:3]) + "/" + profile for h, profile in holders))


def expect_machine(page, profiling=False, mig=True):
    """By the rules that the reader promises: instances count by their compute slices of seven, and their memory adds up."""
    for gpu in GPUS:
        values = {"temperature_c": gpu.temp, "power_watts": gpu.watts, "energy_mj": gpu.energy, "xid": gpu.xid[0]}
        if gpu.instances and mig:
            busy = sum(int(i.profile[0]) * i.busy for i in gpu.instances) / 7
            values["fb_used_mib"] = sum(i.used for i in gpu.instances)
            values["fb_free_mib"] = sum(reading(gpu, i, "DCGM_FI_DEV_FB_FREE") for i in gpu.instances)
            values["holders"] = held([(i.holder, i.profile) for i in gpu.instances if i.holder])
        else:
            busy = gpu.busy / 100
            values["fb_used_mib"] = gpu.used
            values["fb_free_mib"] = MEMORY - 600 - gpu.used
            values["holders"] = held([(gpu.holder, "")] if gpu.holder else [])
        values["utilization"] = f"{busy:.9f}"
        if profiling:
            values["sm_active"] = f"{0.75 * busy:.9f}"
        page.expect(gpu.index, gpu.uuid, MODEL, **values)


def machine(page, families, host="Hostname", newer=False):
    for older, help_text, kind, form, on_instances in families:
        name = NAMES[older][0] if newer else older
        page.family(name, help_text, kind)
        for gpu in GPUS:
            parts = gpu.instances if on_instances and gpu.instances else () if gpu.instances else (None,)
            for part in parts:
                holder = part.holder if part else gpu.holder
                page.sample(name + labels(gpu, part, holder, name, host) + " " + form % reading(gpu, part, older))


def now(rows):
    page = Page("node.prom", "8 GPUs, two of them with MIG instances, as dcgm-exporter writes its default counters up to DCGM 4.5")
    machine(page, FAMILIES)
    expect_machine(page)
    page.write(rows)


def health(rows):
    page = Page("node-more-counters.prom", "the same machine with more counters, and counters of the exporter itself")
    machine(page, FAMILIES + MORE)
    page.family("DCGM_EXP_XID_ERRORS_COUNT", "reported XIDs during last window", "gauge")
    for gpu in GPUS:
        if gpu.xid[0] > 0:
            page.sample("DCGM_EXP_XID_ERRORS_COUNT" + labels(
                gpu, None, gpu.holder, "", extra=(("window_size_in_ms", 300000), ("xid", gpu.xid[0]))) + " 2")
    expect_machine(page, profiling=True)
    page.write(rows)


def newer(rows):
    page = Page("node-dcgm46.prom", "the same machine under the names of DCGM 4.6, with the label hostname")
    machine(page, FAMILIES, host="hostname", newer=True)
    expect_machine(page)
    page.write(rows)


def oldest(rows):
    """1.x had no profiles, wrote all labels of pods on all rows, and knew no MIG: here the instances run as one GPU."""
    page = Page("node-1x.prom", "the same machine under the names of 1.x, which knew no MIG")
    for older, _, kind, form, _ in FAMILIES:
        name = NAMES[older][1]
        if not name or "PROF" in older:
            continue
        page.family(name, "name of 1.x", kind)
        for gpu in GPUS:
            ns, pod, container = gpu.holder or ("", "", "")
            page.sample(f'{name}{{gpu="{gpu.index}",uuid="{gpu.uuid}",device="nvidia{gpu.index}",modelName="{MODEL}",'
                        f'Hostname="{HOST}",container_name="{container}",pod_name="{pod}",pod_namespace="{ns}"}} '
                        + form % reading(gpu, None, older))
    expect_machine(page, mig=False)
    page.write(rows)


def sliced(rows):
    page = Page("time-slicing.prom", "GPU 0 has a row of its own and three pods; of GPU 1 only the rows of its two pods are there")
    gpu, other = GPUS[0], GPUS[1]
    pods = [("vision", "tagger-0", "main"), ("vision", "tagger-1", "main"), ("vision", "tagger-spare", "main")]
    rows_of = {"DCGM_FI_DEV_GPU_UTIL": ("%d", 77, [40, 37, 0]), "DCGM_FI_DEV_FB_USED": ("%d", 30500, [16200, 14100, 0]),
               "DCGM_FI_DEV_POWER_USAGE": ("%f", None, [455.5, 455.5, 455.5])}
    for name, help_text, kind, _, _ in FAMILIES:
        if name not in rows_of:
            continue
        form, own, of_pods = rows_of[name]
        page.family(name, help_text, kind)
        if own is not None:
            page.sample(name + labels(gpu, None, None, name) + " " + form % own)
        for number, (pod, value) in enumerate(zip(pods, of_pods)):
            page.sample(name + labels(gpu, None, pod, name, extra=(("vgpu", number),)) + " " + form % value)
        for number, (pod, value) in enumerate(zip(pods[:2], of_pods)):
            page.sample(name + labels(other, None, pod, name, extra=(("vgpu", number),)) + " " + form % value)
    page.expect(0, gpu.uuid, MODEL, utilization="0.77", fb_used_mib=30500, power_watts=455.5, holders=held([(p, "") for p in pods]))
    page.expect(1, other.uuid, MODEL, utilization="0.40", fb_used_mib=16200, power_watts=455.5, holders=held([(p, "") for p in pods[:2]]))
    page.write(rows)


def hostile(rows):
    """What a reader must survive: blanks of each width, words for numbers, quotes in labels, lines that break off."""
    page = Page("hostile.prom", "lines that no exporter should write")
    util, temp, power = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"
    page.family(temp, "GPU temperature (in C).", "gauge")
    page.sample(temp + '{gpu="0",UUID="GPU-h0"} 2147483632', blank=True)
    page.sample(temp + '{gpu="1",UUID="GPU-h1"} 2147483635', blank=True)
    page.sample(temp + '{gpu="2",UUID="GPU-h2"} 9223372036854775792', blank=True)
    page.sample(temp + '{gpu="3",UUID="GPU-h3"} 2147483631')
    page.family(power, "Power draw (in W).", "gauge")
    page.sample(power + '{gpu="0",UUID="GPU-h0"} 140737488355328.000000', blank=True)
    page.sample(power + '{gpu="1",UUID="GPU-h1"} -Inf', blank=True)
    page.sample(power + '{ gpu = "2" , UUID = "GPU-h2" , } 1.5e2 1790000000000')
    page.broken(power + '{gpu="3",UUID="GPU-h3"} N/A')
    page.broken(power + '{gpu="4",UUID="GPU-h4"}')
    page.family(util, "GPU utilization (in %).", "gauge")
    page.sample(util + '{gpu="0",UUID="GPU-h0",note="a \\"b\\" } 9"} 64')
    page.broken(util + '{gpu="1",UUID="GPU-h1",note="a "b" c"} 12')
    page.sample(util + '{gpu="2",UUID="GPU-h2"} 101')
    page.sample(util + '{gpu="3",UUID="GPU-h3"} nan', blank=True)
    page.broken(util + " gpu=5 7")
    page.broken('<html><body>503 busy</body></html>')
    page.broken(util + '{gpu="6",UUID="GPU-h')
    page.expect(0, "GPU-h0", "", utilization="0.64", holders="")
    page.expect(1, "GPU-h1", "", holders="")
    page.expect(2, "GPU-h2", "", utilization="1", power_watts=150, holders="")
    page.expect(3, "GPU-h3", "", temperature_c=2147483631, holders="")
    page.write(rows, end=False)


def shapes(rows):
    """Forms that one release or another has: labels that are missing or empty, escapes, timestamps, carriage returns."""
    page = Page("shapes.prom", "forms of many releases in one page")
    page.sample('DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-s0",device="nvidia0",container="",namespace="",pod=""} 12')
    page.sample('DCGM_FI_DEV_GPU_UTIL{device="nvidia3",UUID="GPU-s3"} 5 1790000000000')
    page.sample('dcgm_gpu_utilization{gpu="1",uuid="GPU-s1",pod_name="a\\\\b",pod_namespace="n",container_name="c"} 50')
    page.sample('DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="2",UUID="GPU-s2",GPU_I_PROFILE="7g.141gb",GPU_I_ID="0"} 0.500000')
    page.sample('DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-s0",device="nvidia0",container="",namespace="",pod=""} 80000')
    page.sample('up{job="dcgm"} 1')
    page.lines.append("")
    page.sample("scrape_duration_seconds 0.25")
    page.expect(0, "GPU-s0", "", utilization="0.12", fb_free_mib=80000, holders="")
    page.expect(1, "GPU-s1", "", utilization="0.5", holders="n/a\\b/c/")
    page.expect(2, "GPU-s2", "", utilization="0.5", holders="")
    page.expect(3, "GPU-s3", "", utilization="0.05", holders="")
    page.write(rows, newline="\r\n")


def faults(rows):
    """One fault on each of three GPUs with fans, and a passively cooled GPU, whose fan speed is a blank."""
    page = Page("faults.prom", "an ECC fault, a thermal slowdown, a fan that stands still, and a GPU at its power cap")
    models = ["NVIDIA RTX 6000 Ada Generation"] * 3 + ["NVIDIA L40S"]
    for name, help_text, kind, values in (
            ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", "gauge", (48, 92, 79, 66)),
            ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", "gauge", (0, 97, 88, 99)),
            ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Clocks event reasons bitmask.", "gauge", (1, 0x48, 0, 4)),
            ("DCGM_FI_DEV_FAN_SPEED", "Fan speed for the device in percent 0-100.", "gauge", (30, 100, 0, None)),
            ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Total number of double-bit volatile ECC errors.", "counter", (2, 0, 0, 0))):
        page.family(name, help_text, kind)
        for gpu, value in enumerate(values):
            page.sample(f'{name}{{gpu="{gpu}",UUID="GPU-f{gpu}",modelName="{models[gpu]}",Hostname="studio-3"}} '
                        f'{9223372036854775794 if value is None else value}', blank=value is None)
    for gpu, (temperature, busy) in enumerate(((48, 0), (92, 97), (79, 88), (66, 99))):
        page.expect(gpu, f"GPU-f{gpu}", models[gpu], utilization=f"{busy / 100:.2f}", temperature_c=temperature, holders="")
    page.write(rows)


def main():
    rows = [["page", "gpu", "uuid", "model", "samples", "blanks", "bad_lines"] + VALUES]
    for page in (now, health, newer, oldest, sliced, hostile, shapes, faults):
        page(rows)
    with open(os.path.join(HERE, "expected.csv"), "w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows(rows)


main()
