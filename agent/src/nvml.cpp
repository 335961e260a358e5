// Loads the driver's management library by name, so that the agent starts on nodes without one. Its functions are C,
// and their names contain the version of their arguments.
#include "devices.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <mutex>

namespace qm::agent {
namespace {

using Handle = void*;
constexpr int kSuccess = 0;
constexpr unsigned kText = 96;  // longest name or id

struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];  // "00000000:1B:00.0"
};

struct MemoryInfo {  // nvmlMemory_t
  unsigned long long total, free, used;
};

struct Library {
  void* handle = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, Handle*) = nullptr;
  int (*uuid)(Handle, char*, unsigned) = nullptr;
  int (*name)(Handle, char*, unsigned) = nullptr;
  int (*memory)(Handle, MemoryInfo*) = nullptr;
  int (*pci)(Handle, PciInfo*) = nullptr;
  int (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  int (*mig_most)(Handle, unsigned*) = nullptr;
  int (*mig_by_index)(Handle, unsigned, Handle*) = nullptr;
  int (*p2p)(Handle, Handle, int, int*) = nullptr;  // optional: a driver may lack these two
  int (*ancestor)(Handle, Handle, int*) = nullptr;

  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (handle == nullptr) return;
    if (shutdown != nullptr) shutdown();
    dlclose(handle);
  }
  template <class Fn>
  bool find(const char* symbol, Fn& out) const {
    out = reinterpret_cast<Fn>(dlsym(handle, symbol));
    return out != nullptr;
  }
};

template <class Get>
std::string text_of(const Get& get, Handle device) {
  std::array<char, kText> text{};
  return get(device, text.data(), kText) == kSuccess ? std::string(text.data()) : std::string();
}

/// The bus id in the kernel's format, whose domains have four digits.
std::string bus_of(const PciInfo& pci) {
  std::string bus(pci.bus_id);
  std::ranges::transform(bus, bus.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (bus.size() > 12) bus.erase(0, bus.size() - 12);
  return bus;
}

/// The NUMA node of the PCI device; -1 if the bus does not report it.
std::int32_t numa_of(const std::string& bus) {
  std::int32_t node = -1;
  std::ifstream(fmt::format("/sys/bus/pci/devices/{}/numa_node", bus)) >> node;
  return node;
}

class Nvml final : public DeviceSource {
 public:
  explicit Nvml(std::string library) : name_(std::move(library)) {}

  Result<std::vector<Device>> devices() override {
    const std::lock_guard lock(mutex_);
    if (!library_) QM_TRY(load());
    unsigned count = 0;
    if (const int rc = library_->count(&count); rc != kSuccess) return lost("count devices", rc);
    std::vector<Device> out;
    for (unsigned i = 0; i < count; ++i) {
      Handle handle = nullptr;
      if (library_->by_index(i, &handle) != kSuccess) continue;  // fell off the bus
      Device device;
      device.index = static_cast<std::int32_t>(i);
      device.uuid = text_of(library_->uuid, handle);
      if (device.uuid.empty()) continue;
      PciInfo pci{};
      if (library_->pci(handle, &pci) == kSuccess) device.pci = bus_of(pci), device.numa = numa_of(device.pci);
      MemoryInfo memory{};
      if (library_->memory(handle, &memory) == kSuccess)
        device.memory_mib = static_cast<std::int64_t>(memory.total >> 20);
      unsigned on = 0, pending = 0;
      if (library_->mig_mode(handle, &on, &pending) == kSuccess && on != 0) {
        device.mig = true;
        device.slices = slices(handle);
      }
      out.push_back(std::move(device));
    }
    return out;
  }

  Result<std::vector<Joint>> joints() override {
    const std::lock_guard lock(mutex_);
    if (!library_) QM_TRY(load());
    std::vector<Joint> out;
    if (library_->p2p == nullptr || library_->ancestor == nullptr) return out;
    unsigned count = 0;
    if (const int rc = library_->count(&count); rc != kSuccess) return lost("count devices", rc);
    std::vector<Handle> gpus(count, nullptr);
    for (unsigned i = 0; i < count; ++i) {
      if (library_->by_index(i, &gpus[i]) != kSuccess) gpus[i] = nullptr;  // fell off the bus
    }
    for (unsigned a = 0; a < count; ++a) {
      for (unsigned b = a + 1; b < count; ++b) {
        if (gpus[a] == nullptr || gpus[b] == nullptr) continue;
        out.push_back({static_cast<std::int32_t>(a), static_cast<std::int32_t>(b), joined(gpus[a], gpus[b])});
      }
    }
    return out;
  }

 private:
  [[nodiscard]] Join joined(Handle a, Handle b) const {
    constexpr int kByNvlink = 2, kGood = 0;  // nvmlGpuP2PCapsIndex_t, nvmlGpuP2PStatus_t
    if (int status = -1; library_->p2p(a, b, kByNvlink, &status) == kSuccess && status == kGood) return Join::kNvlink;
    int level = 0;
    if (library_->ancestor(a, b, &level) != kSuccess) return Join::kSys;
    return level <= 10   ? Join::kPix
           : level <= 20 ? Join::kPxb
           : level <= 30 ? Join::kPhb
           : level <= 40 ? Join::kNode
                         : Join::kSys;
  }

  Status load() {
    auto library = std::make_unique<Library>();
    library->handle = dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library->handle == nullptr) {
      const char* why = dlerror();
      return fail(Code::kUnavailable, "the driver's library cannot be loaded: {}", why == nullptr ? name_ : why);
    }
    Library& l = *library;
    const bool whole = l.find("nvmlInit_v2", l.init) && l.find("nvmlErrorString", l.error) &&
                       l.find("nvmlDeviceGetCount_v2", l.count) &&
                       l.find("nvmlDeviceGetHandleByIndex_v2", l.by_index) && l.find("nvmlDeviceGetUUID", l.uuid) &&
                       l.find("nvmlDeviceGetName", l.name) && l.find("nvmlDeviceGetMemoryInfo", l.memory) &&
                       l.find("nvmlDeviceGetPciInfo_v3", l.pci) && l.find("nvmlDeviceGetMigMode", l.mig_mode) &&
                       l.find("nvmlDeviceGetMaxMigDeviceCount", l.mig_most) &&
                       l.find("nvmlDeviceGetMigDeviceHandleByIndex", l.mig_by_index);
    if (!whole) return fail(Code::kUnavailable, "{} lacks a function; it is older than MIG", name_);
    if (const int rc = l.init(); rc != kSuccess) {
      return fail(Code::kUnavailable, "the driver does not answer: {}", l.error(rc));
    }
    l.find("nvmlShutdown", l.shutdown);
    l.find("nvmlDeviceGetP2PStatus", l.p2p);
    l.find("nvmlDeviceGetTopologyCommonAncestor", l.ancestor);
    library_ = std::move(library);
    return {};
  }

  tl::unexpected<Error> lost(const char* what, int rc) {
    const std::string why = library_->error(rc);
    library_.reset();  // the driver may be replaced before the next call
    return fail(Code::kUnavailable, "the driver cannot {}: {}", what, why);
  }

  std::vector<Slice> slices(Handle gpu) const {
    std::vector<Slice> out;
    unsigned most = 0;
    if (library_->mig_most(gpu, &most) != kSuccess) return out;
    for (unsigned i = 0; i < most; ++i) {
      Handle instance = nullptr;
      if (library_->mig_by_index(gpu, i, &instance) != kSuccess) continue;
      // Its name ends in the profile: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
      const std::string name = text_of(library_->name, instance);
      const auto mark = name.rfind(" MIG ");
      Slice slice{text_of(library_->uuid, instance), mark == std::string::npos ? "" : name.substr(mark + 5)};
      if (!slice.uuid.empty() && !slice.profile.empty()) out.push_back(std::move(slice));
    }
    return out;
  }

  const std::string name_;
  std::mutex mutex_;
  std::unique_ptr<Library> library_;
};

}  // namespace

std::unique_ptr<DeviceSource> nvml_devices(std::string library) { return std::make_unique<Nvml>(std::move(library)); }

}  // namespace qm::agent
