// A driver's management library for tests: four GPUs. NVLink connects the first two, the third fell off the bus, and
// the last is partitioned into two MIG instances; one of its instances is being created and has no name yet.
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kNotFound = 6, kGpuIsLost = 15;
constexpr std::intptr_t kInstance = 100;

void* handle(std::intptr_t number) { return reinterpret_cast<void*>(number); }
std::intptr_t number(void* handle) { return reinterpret_cast<std::intptr_t>(handle); }

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int) { return "it does not"; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 4;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) {
  *out = handle(index + 1);
  return index == 2 ? kGpuIsLost : 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  const bool instance = number(device) >= kInstance;
  std::snprintf(text, size, instance ? "MIG-%d" : "GPU-%d",
                static_cast<int>(number(device)) - (instance ? kInstance : 1));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 80ULL << 30;
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  constexpr const char* kNames[] = {"NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me",
                                    "NVIDIA H100 80GB HBM3"};
  std::snprintf(text, size, "%s", number(device) >= kInstance ? kNames[number(device) - kInstance] : kNames[2]);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, char* out) {
  std::memset(out, 0, 68);
  std::snprintf(out + 36, 32, "00000000:FF:1%d.7", static_cast<int>(number(device)));
  return 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = number(device) == 4 ? 1 : 0;
  return 0;
}
int nvmlDeviceGetP2PStatus(void* a, void* b, int what, int* status) {
  *status = what == 2 && number(a) == 1 && number(b) == 2 ? 0 : 1;
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void*, int* level) {
  *level = number(a) == 1 ? 30 : 50;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** out) {
  *out = handle(kInstance + index);
  return index < 3 ? 0 : kNotFound;
}
}
