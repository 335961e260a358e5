#include "claims.hpp"

#include <algorithm>
#include <numeric>

namespace qm::agent {
namespace {

constexpr std::int32_t kNoGpu = -1;

std::int32_t gpu(const GpuOf& gpu_of, const std::string& id) {
  const auto known = gpu_of.find(id);
  return known == gpu_of.end() ? kNoGpu : known->second;
}

/// The number of units of each GPU that the claim may still receive: one for each time that its assignment names the
/// GPU. If the claim requests more units than its assignment names GPUs (shares, MIG instances): as many as it
/// requests.
std::map<std::int32_t, std::int32_t> allowance(const Claim& claim, const GpuOf& gpu_of) {
  std::map<std::int32_t, std::int32_t> left;
  const bool several = claim.need() > static_cast<std::int32_t>(claim.gpus.size());
  for (const auto index : claim.gpus) left[index] += several ? claim.need() : 1;
  for (const auto& id : claim.given) --left[gpu(gpu_of, id)];
  return left;
}

bool within(const Claim& claim, const GpuOf& gpu_of, const std::vector<std::string>& ids) {
  auto left = allowance(claim, gpu_of);
  return std::ranges::all_of(ids, [&](const auto& id) { return --left[gpu(gpu_of, id)] >= 0; });
}

std::vector<const Claim*> oldest_first(const std::vector<Claim>& claims) {
  std::vector<const Claim*> out;
  for (const Claim& claim : claims) out.push_back(&claim);
  std::ranges::sort(
      out, [](const Claim* a, const Claim* b) { return std::tie(a->created, a->uid) < std::tie(b->created, b->uid); });
  return out;
}

}  // namespace

std::int32_t Claim::need() const { return std::accumulate(asks.begin(), asks.end(), std::int32_t{0}); }

bool Claim::awaits(std::int32_t count) const {
  return std::ranges::find(asks, count) != asks.end() && static_cast<std::int32_t>(given.size()) + count <= need();
}

std::map<std::string, std::string> drop_unusable(std::vector<Claim>& claims, const GpuOf& gpu_of,
                                                 const std::set<std::string>& schedulers) {
  std::map<std::int32_t, std::int32_t> units;  // of each GPU
  for (const auto& [id, index] : gpu_of) ++units[index];
  std::map<std::string, std::string> out;
  const auto drop = [&](Claim& claim, const char* why) {
    out[claim.uid] = why;
    claim.gpus.clear();
  };
  const auto wanted = [](const Claim& claim) {
    std::map<std::int32_t, std::int32_t> named;
    for (const auto index : claim.gpus) ++named[index];
    return named;
  };
  for (Claim& claim : claims) {
    if (claim.gpus.empty()) continue;
    const auto named = wanted(claim);
    const bool there = std::ranges::all_of(named, [&](const auto& gpu) {
      const auto has = units.find(gpu.first);
      return has != units.end() && gpu.second <= has->second;
    });
    if (!schedulers.contains(claim.scheduler)) {
      drop(claim, "OtherScheduler");
    } else if (!there || static_cast<std::int32_t>(claim.gpus.size()) > claim.need()) {
      drop(claim, "Malformed");
    }
  }
  // Units that the kubelet allocated are not free for other claims; the free units must suffice for all claims that
  // name them.
  std::map<std::int32_t, std::int32_t> free = units, asked;
  for (const Claim& claim : claims) {
    auto left = wanted(claim);
    for (const auto& id : claim.given) {
      --free[gpu(gpu_of, id)];
      --left[gpu(gpu_of, id)];
    }
    for (const auto& [index, count] : left) asked[index] += std::max(count, 0);
  }
  for (Claim& claim : claims) {
    if (!claim.given.empty()) continue;
    const auto named = wanted(claim);
    if (std::ranges::any_of(named, [&](const auto& gpu) { return asked[gpu.first] > free[gpu.first]; }))
      drop(claim, "Conflict");
  }
  return out;
}

std::vector<std::string> prefer(const std::vector<Claim>& claims, const GpuOf& gpu_of,
                                const std::vector<std::string>& available, const std::vector<std::string>& must,
                                std::int32_t size) {
  const auto wanted = static_cast<std::size_t>(std::max(size, 0));
  std::vector<std::string> rest;
  for (const auto& id : available) {
    if (std::ranges::find(must, id) == must.end()) rest.push_back(id);
  }
  std::ranges::sort(rest, [&](const auto& a, const auto& b) {
    return std::pair(gpu(gpu_of, a), std::string_view(a)) < std::pair(gpu(gpu_of, b), std::string_view(b));
  });
  std::set<std::int32_t> promised;
  for (const Claim* claim : oldest_first(claims)) {
    promised.insert(claim->gpus.begin(), claim->gpus.end());
    if (claim->gpus.empty() || !claim->awaits(size) || !within(*claim, gpu_of, must)) continue;
    auto left = allowance(*claim, gpu_of);
    for (const auto& id : must) --left[gpu(gpu_of, id)];
    std::vector<std::string> out = must;
    for (const auto& id : rest) {
      if (out.size() < wanted && left[gpu(gpu_of, id)]-- > 0) out.push_back(id);
    }
    if (out.size() == wanted) return out;
  }
  std::vector<std::string> out = must;
  for (const bool of_others : {false, true}) {
    for (std::size_t i = rest.size(); i-- > 0 && out.size() < wanted;) {
      if (promised.contains(gpu(gpu_of, rest[i])) == of_others) out.push_back(rest[i]);
    }
  }
  return out;
}

Judgement judge(const std::vector<Claim>& claims, const GpuOf& gpu_of, const std::vector<std::string>& ids) {
  const auto count = static_cast<std::int32_t>(ids.size());
  const Claim* foreign = nullptr;
  const Claim* other = nullptr;
  for (const Claim* claim : oldest_first(claims)) {
    if (!claim->awaits(count)) continue;
    if (claim->gpus.empty()) {
      foreign = foreign == nullptr ? claim : foreign;
    } else if (within(*claim, gpu_of, ids)) {
      return {Judgement::Kind::kHonored, claim};
    } else {
      other = other == nullptr ? claim : other;
    }
  }
  if (foreign == nullptr && other != nullptr) return {Judgement::Kind::kDiffers, other};
  return {Judgement::Kind::kFree, foreign};
}

}  // namespace qm::agent
