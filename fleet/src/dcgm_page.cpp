#include "dcgm_page.hpp"

#include "qm/base/digest.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace qm::fleet {
namespace {

constexpr std::string_view kXidErrors = "DCGM_FI_DEV_XID_ERRORS";

/// Power and clocks of a model: idle and full power, clocks when busy.
struct Board {
  double idle_w, full_w, sm_mhz, memory_mhz, reserved_mib;
};

Board board_of(const std::string& model) {
  static const std::map<std::string, Board> kBoards = {
      {"H100", {75, 700, 1755, 2619, 551}}, {"H200", {78, 700, 1755, 3201, 600}},
      {"A100", {52, 400, 1410, 1593, 450}}, {"B200", {140, 1000, 1965, 3996, 700}},
      {"V100", {40, 300, 1380, 877, 300}},  {"L40S", {35, 350, 2520, 9001, 400}},
      {"A10G", {18, 300, 1710, 6251, 320}}, {"L4", {12, 72, 2040, 6251, 320}},
      {"T4", {10, 70, 1590, 5001, 300}}};
  const Board* known = find_in(kBoards, model);
  return known == nullptr ? Board{30, 250, 1400, 1000, 300} : *known;
}

enum class Load { kIdle, kHeld, kSpins, kWorks };

struct Reading {
  const InstanceType* type;
  const Device* device;
  const PodState* pod;
  Board board;
  std::string labels;  // everything before the pod's labels, without braces
  Load load;
  double tensor, dram, busy, power;
  double noise;  // -1..1
};

Load load_of(const PodState* pod, const Device& device, const Cluster& cluster) {
  if (pod == nullptr) return Load::kIdle;
  if (pod->phase != PodState::Phase::kRunning || device.xid == 79) return Load::kHeld;
  if (cluster.gangs().whole(pod->gang) && !pod->hung) return Load::kWorks;
  return cluster.gangs().ever_whole(pod->gang) ? Load::kSpins : Load::kHeld;
}

std::string model_name(const InstanceType& type) {
  std::string name = type.gpu_product;
  std::ranges::replace(name, '-', ' ');
  return name;
}

Reading read(const NodeState& node, const Device& device, const Cluster& cluster, Instant now) {
  Reading r;
  r.type = &node.type;
  r.device = &device;
  r.pod = device.pod.empty() ? nullptr : cluster.pod(device.pod);
  r.board = board_of(node.type.gpu_model);
  r.load = load_of(r.pod, device, cluster);
  const auto bucket = now.time_since_epoch() / kCollect;
  r.noise = static_cast<double>(stable_hash(fmt::format("{}@{}", device.uuid, bucket)) % 2001) / 1000 - 1;
  const double share = r.pod == nullptr ? 0 : std::clamp(r.pod->utilization + 0.03 * r.noise, 0.0, 1.0);
  r.busy = r.load == Load::kWorks ? share : r.load == Load::kSpins ? 1 : 0;
  r.tensor = r.load == Load::kWorks ? 0.6 * share : 0;
  r.dram = r.load == Load::kWorks ? 0.45 * share : r.load == Load::kSpins ? 0.004 : 0;
  const double draw = r.load == Load::kWorks ? share : r.load == Load::kSpins ? 0.12 : 0;
  r.power = r.board.idle_w + (r.board.full_w - r.board.idle_w) * draw + 2 * r.noise;
  r.labels = fmt::format(
      R"(gpu="{}",UUID="{}",pci_bus_id="{}",device="nvidia{}",modelName="{}",Hostname="{}",DCGM_FI_DRIVER_VERSION="570.172.08")",
      device.minor, device.uuid, device.pci_bus_id, device.minor, model_name(node.type), node.name);
  return r;
}

/// Counters increase by the current power draw, because what happened between two reads is not observable.
void count_up(Device& device, const Reading& reading, Instant now) {
  const double passed = seconds(now - device.counted);
  device.energy_mj += reading.power * 1000 * passed;
  if (reading.load == Load::kWorks && reading.pod->size > 1) device.nvlink_total += 400 * passed * reading.busy;
  device.counted = now;
}

double used_mib(const Reading& r) {
  const double available = static_cast<double>(r.type->gpu_memory_mib) - r.board.reserved_mib;
  if (r.pod == nullptr) return 4;
  if (r.load == Load::kHeld) return 520;
  return std::round(available * (0.55 + 0.4 * r.pod->utilization));
}

struct Family {
  std::string_view name, help, type;
  double (*value)(const Reading&);
  bool fraction = false;  ///< six decimals; else a whole number
};

constexpr const char *kGauge = "gauge", *kCounter = "counter";
double always_zero(const Reading&) { return 0; }

// In the order of DCGM's field ids, as the exporter writes them.
const Family kFamilies[] = {
    {"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", kGauge,
     [](const Reading& r) { return r.busy > 0 ? r.board.sm_mhz : 345; }},
    {"DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", kGauge,
     [](const Reading& r) { return r.board.memory_mhz; }},
    {"DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature (in C).", kGauge,
     [](const Reading& r) { return 44 + 34 * r.busy + r.noise; }},
    {"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", kGauge,
     [](const Reading& r) { return 33 + 32 * r.busy + r.noise; }},
    {"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", kGauge, [](const Reading& r) { return r.power; }, true},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).", kCounter,
     [](const Reading& r) { return r.device->energy_mj; }},
    {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "Total number of PCIe retries.", kCounter, always_zero},
    {"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", kGauge, [](const Reading& r) { return 100 * r.busy; }},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization (in %).", kGauge, [](const Reading& r) { return 130 * r.dram; }},
    {"DCGM_FI_DEV_ENC_UTIL", "Encoder utilization (in %).", kGauge, always_zero},
    {"DCGM_FI_DEV_DEC_UTIL", "Decoder utilization (in %).", kGauge, always_zero},
    {kXidErrors, "Value of the last XID error encountered.", kGauge,
     [](const Reading& r) -> double { return r.device->xid; }},
    {"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", kGauge,
     [](const Reading& r) { return static_cast<double>(r.type->gpu_memory_mib) - r.board.reserved_mib - used_mib(r); }},
    {"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", kGauge, used_mib},
    {"DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB).", kGauge,
     [](const Reading& r) { return r.board.reserved_mib; }},
    {"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for uncorrectable errors", kCounter,
     [](const Reading& r) { return r.device->xid == 63 ? 2.0 : 0.0; }},
    {"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors", kCounter, always_zero},
    {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed", kGauge,
     [](const Reading& r) { return r.device->xid == 64 ? 1.0 : 0.0; }},
    {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "Total number of NVLink bandwidth counters for all lanes.", kCounter,
     [](const Reading& r) { return r.device->nvlink_total; }},
    {"DCGM_FI_DEV_VGPU_LICENSE_STATUS", "vGPU License status", kGauge, always_zero},
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Ratio of time the graphics engine is active.", kGauge,
     [](const Reading& r) { return r.busy; }, true},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Ratio of cycles the tensor (HMMA) pipe is active.", kGauge,
     [](const Reading& r) { return r.tensor; }, true},
    {"DCGM_FI_PROF_DRAM_ACTIVE", "Ratio of cycles the device memory interface is active sending or receiving data.",
     kGauge, [](const Reading& r) { return r.dram; }, true},
    {"DCGM_FI_PROF_PCIE_TX_BYTES",
     "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads - in bytes "
     "per second.",
     kGauge, [](const Reading& r) { return 41022 + 1.6e9 * r.tensor; }},
    {"DCGM_FI_PROF_PCIE_RX_BYTES",
     "The rate of data received over the PCIe bus - including both protocol headers and data payloads - in bytes "
     "per second.",
     kGauge, [](const Reading& r) { return 73911 + 2.8e9 * r.tensor; }},
};

const Xid kXids[] = {
    {0, "No Error", true},
    {13, "Graphics Engine Exception", true, true},
    {31, "GPU memory page fault", true, true},
    {43, "GPU stopped processing", true},
    {45, "Preemptive cleanup, due to previous errors", true},
    {48, "Double Bit ECC Error", false, true},
    {62, "Internal micro-controller halt", false, true},
    {63, "ECC page retirement or row remapping recording event", true},
    {64, "ECC page retirement or row remapper recording failure"},
    {68, "Unknown Error", true},
    {74, "NVLINK Error", false, true},
    {79, "GPU has fallen off the bus", false, true},
    {92, "High single-bit ECC error rate", true},
    {94, "Contained ECC error", false, true},
    {95, "Uncontained ECC error", false, true},
    {109, "Unknown Error", true},
    {119, "GSP RPC Timeout", false, true},
    {120, "GSP Error", false, true},
    {140, "Unknown Error", false, true},
};

}  // namespace

const Xid& xid_of(int code) {
  static constexpr Xid kUnknown{-1, "Unknown Error"};
  const auto* known = std::ranges::find(kXids, code, &Xid::code);
  return known == std::end(kXids) ? kUnknown : *known;
}

std::string dcgm_page(NodeState& node, const Cluster& cluster, Instant now) {
  std::vector<Reading> readings;
  for (Device& device : node.devices) {
    readings.push_back(read(node, device, cluster, now));
    count_up(device, readings.back(), now);
  }
  std::string page;
  page.reserve(std::size(kFamilies) * (readings.size() * 360 + 200));
  for (const Family& family : kFamilies) {
    if (readings.empty()) break;
    page += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, family.help, family.name, family.type);
    for (const Reading& r : readings) {
      page.append(family.name).append("{").append(r.labels);
      if (r.pod != nullptr) page += fmt::format(R"(,container="{}")", r.pod->container);
      if (family.name == kXidErrors) {
        page += fmt::format(R"(,err_code="{}",err_msg="{}")", r.device->xid, xid_of(r.device->xid).text);
      }
      if (r.pod != nullptr) page += fmt::format(R"(,namespace="{}",pod="{}")", r.pod->ns, r.pod->name);
      const double value = family.value(r);
      page += family.fraction ? fmt::format("}} {:.6f}\n", value) : fmt::format("}} {}\n", std::llround(value));
    }
  }
  return page;
}

}  // namespace qm::fleet
