#include "qm/catalog/mig.hpp"

#include "qm/base/assert.hpp"
#include "qm/model/resources.hpp"

#include <algorithm>
#include <array>
#include <tuple>

namespace qm::catalog::mig {
namespace {

using SevenProfiles = std::array<ModelProfile, seven::kProfiles>;
// In the order of the geometry: 1g, 1g+me, 1g with double memory, 2g, 3g, 4g, 7g.
constexpr SevenProfiles kA100_40{{{"1g.5gb", 5, 14},
                                  {"1g.5gb+me", 5, 14},
                                  {"1g.10gb", 10, 14},
                                  {"2g.10gb", 10, 28},
                                  {"3g.20gb", 20, 42},
                                  {"4g.20gb", 20, 56},
                                  {"7g.40gb", 40, 98}}};
constexpr SevenProfiles kA100_80{{{"1g.10gb", 10, 14},
                                  {"1g.10gb+me", 10, 14},
                                  {"1g.20gb", 20, 14},
                                  {"2g.20gb", 20, 28},
                                  {"3g.40gb", 40, 42},
                                  {"4g.40gb", 40, 56},
                                  {"7g.80gb", 80, 98}}};
constexpr SevenProfiles kH100_80{{{"1g.10gb", 10, 16},
                                  {"1g.10gb+me", 10, 16},
                                  {"1g.20gb", 20, 26},
                                  {"2g.20gb", 20, 32},
                                  {"3g.40gb", 40, 60},
                                  {"4g.40gb", 40, 64},
                                  {"7g.80gb", 80, 132}}};
// The same geometry on a chip with fewer SMs; the number of SMs per profile is not known.
constexpr SevenProfiles kH100Pcie{{{"1g.10gb", 10},
                                   {"1g.10gb+me", 10},
                                   {"1g.20gb", 20},
                                   {"2g.20gb", 20},
                                   {"3g.40gb", 40},
                                   {"4g.40gb", 40},
                                   {"7g.80gb", 80}}};
constexpr SevenProfiles kH100_94{{{"1g.12gb", 12, 16},
                                  {"1g.12gb+me", 12, 16},
                                  {"1g.24gb", 24, 26},
                                  {"2g.24gb", 24, 32},
                                  {"3g.47gb", 47, 60},
                                  {"4g.47gb", 47, 64},
                                  {"7g.94gb", 94, 132}}};
constexpr SevenProfiles kH200{{{"1g.18gb", 18},
                               {"1g.18gb+me", 18},
                               {"1g.35gb", 35},
                               {"2g.35gb", 35},
                               {"3g.71gb", 71},
                               {"4g.71gb", 71},
                               {"7g.141gb", 141}}};
constexpr SevenProfiles kB200{{{"1g.23gb", 23},
                               {"1g.23gb+me", 23},
                               {"1g.45gb", 45},
                               {"2g.45gb", 45},
                               {"3g.90gb", 90},
                               {"4g.90gb", 90},
                               {"7g.180gb", 180}}};
constexpr SevenProfiles kGb200{{{"1g.23gb", 23},
                                {"1g.23gb+me", 23},
                                {"1g.47gb", 47},
                                {"2g.47gb", 47},
                                {"3g.93gb", 93},
                                {"4g.93gb", 93},
                                {"7g.186gb", 186}}};
constexpr SevenProfiles kB300{{{"1g.34gb", 34},
                               {"1g.34gb+me", 34},
                               {"1g.67gb", 67},
                               {"2g.67gb", 67},
                               {"3g.135gb", 135},
                               {"4g.135gb", 135},
                               {"7g.269gb", 269}}};
// 1g, 1g+me, 2g, 2g+me, 4g.
constexpr std::array<ModelProfile, 5> kA30{
    {{"1g.6gb", 6, 14}, {"1g.6gb+me", 6, 14}, {"2g.12gb", 12, 28}, {"2g.12gb+me", 12, 28}, {"4g.24gb", 24, 56}}};
constexpr std::array<ModelProfile, 5> kRtxPro6000{{{"1g.24gb", 24}, {}, {"2g.48gb", 48}, {}, {"4g.96gb", 96}}};

constexpr Model kModels[] = {
    {"A100-40GB", Family::kSeven, kA100_40},      {"A100-80GB", Family::kSeven, kA100_80},
    {"H100-80GB", Family::kSeven, kH100_80},      {"H100-PCIe-80GB", Family::kSeven, kH100Pcie},
    {"H100-94GB", Family::kSeven, kH100_94},      {"H200-141GB", Family::kSeven, kH200},
    {"B200-180GB", Family::kSeven, kB200},        {"GB200-186GB", Family::kSeven, kGb200},
    {"B300-269GB", Family::kSeven, kB300},        {"A30-24GB", Family::kFour, kA30},
    {"RTX-PRO-6000", Family::kFour, kRtxPro6000},
};

struct Product {
  std::string_view product;  ///< without the vendor prefix
  std::string_view model;
};
constexpr Product kProducts[] = {
    {"A100-SXM4-40GB", "A100-40GB"},
    {"A100-PCIE-40GB", "A100-40GB"},
    {"A100-SXM4-80GB", "A100-80GB"},
    {"A100-80GB-PCIe", "A100-80GB"},
    {"H100-80GB-HBM3", "H100-80GB"},
    {"H100-PCIe", "H100-PCIe-80GB"},
    {"H100-NVL", "H100-94GB"},
    {"H200", "H200-141GB"},
    {"H200-NVL", "H200-141GB"},
    {"B200", "B200-180GB"},
    {"GB200", "GB200-186GB"},
    {"B300", "B300-269GB"},
    {"A30", "A30-24GB"},
    {"RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"},
    {"RTX-PRO-6000-Blackwell-Workstation-Edition", "RTX-PRO-6000"},
    {"RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", "RTX-PRO-6000"},
    {"RTX-PRO-Server-6000", "RTX-PRO-6000"},  // the name in EC2
};

constexpr std::string_view kMediaInName = "+me", kMediaInResource = ".me";

}  // namespace

const Geometry& geometry_of(Family family) {
  static const Geometry all_seven{7,
                                  8,
                                  {{"1g", 1, 1, 7, false, {0, 1, 2, 3, 4, 5, 6}},
                                   {"1g+me", 1, 1, 1, true, {0, 1, 2, 3, 4, 5, 6}},
                                   {"1g.2m", 1, 2, 4, false, {0, 2, 4, 6}},
                                   {"2g", 2, 2, 3, false, {0, 2, 4}},
                                   {"3g", 3, 4, 2, false, {0, 4}},
                                   {"4g", 4, 4, 1, false, {0}},
                                   {"7g", 7, 8, 1, false, {0}}}};
  static const Geometry all_four{4,
                                 4,
                                 {{"1g", 1, 1, 4, false, {0, 1, 2, 3}},
                                  {"1g+me", 1, 1, 1, true, {0, 1, 2, 3}},
                                  {"2g", 2, 2, 2, false, {0, 2}},
                                  {"2g+me", 2, 2, 1, true, {0, 2}},
                                  {"4g", 4, 4, 1, false, {0}}}};
  return family == Family::kSeven ? all_seven : all_four;
}

std::span<const Model> models() { return kModels; }

const Model* model_of(std::string_view product) {
  for (const std::string_view vendor : {"NVIDIA-", "Tesla-"}) {
    if (product.starts_with(vendor)) product.remove_prefix(vendor.size());
  }
  if (const auto cut = product.find("-MIG-"); cut != std::string_view::npos) product = product.substr(0, cut);
  constexpr std::string_view kShared = "-SHARED";
  if (product.ends_with(kShared)) product.remove_suffix(kShared.size());
  const auto* known = std::ranges::find(kProducts, product, &Product::product);
  const auto* model = std::ranges::find(kModels, known == std::end(kProducts) ? product : known->model, &Model::name);
  return model == std::end(kModels) ? nullptr : model;
}

std::optional<ProfileId> profile_of(const Model& model, std::string_view name) {
  if (name.starts_with(words::kMigPrefix)) name.remove_prefix(words::kMigPrefix.size());
  std::string plain(name);
  if (name.ends_with(kMediaInResource)) {
    plain = std::string(name.substr(0, name.size() - kMediaInResource.size())) + std::string(kMediaInName);
  }
  const auto at = std::ranges::find(model.profiles, plain, &ModelProfile::name);
  if (plain.empty() || at == model.profiles.end()) return std::nullopt;
  return static_cast<ProfileId>(at - model.profiles.begin());
}

std::string resource_of(const Model& model, ProfileId profile) {
  QM_ASSERT(profile < model.profiles.size() && !model.profiles[profile].name.empty(), "{} has no profile {}",
            model.name, profile);
  std::string name(model.profiles[profile].name);
  if (name.ends_with(kMediaInName))
    name.replace(name.size() - kMediaInName.size(), std::string::npos, kMediaInResource);
  return std::string(words::kMigPrefix) + name;
}

std::optional<ProfileId> smallest_with(const Model& model, std::int32_t memory_gb, std::int32_t sms) {
  const Geometry& geometry = geometry_of(model.family);
  std::optional<ProfileId> best;
  const auto size = [&](ProfileId id) {
    return std::tuple(geometry.profiles[id].memory, geometry.profiles[id].compute);
  };
  for (ProfileId id = 0; id < model.profiles.size(); ++id) {
    const ModelProfile& has = model.profiles[id];
    if (has.name.empty() || geometry.profiles[id].media || has.memory_gb < memory_gb || has.sms < sms) continue;
    if (!best || size(id) < size(*best)) best = id;
  }
  return best;
}

}  // namespace qm::catalog::mig
