#include "qm/catalog/share.hpp"

#include "qm/catalog/catalog.hpp"
#include "qm/catalog/mig.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace qm::catalog {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30, kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kWhole = 1000;
constexpr std::string_view kMigConfig = "nvidia.com/mig.config", kMigCapable = "nvidia.com/mig.capable";

/// GPUs without MIG. Their SM counts are not in any table here.
struct Uncuttable {
  std::string_view product;
  std::int64_t memory_mib;
};
constexpr std::array<Uncuttable, 8> kUncuttable{{{"Tesla-T4", 16384},
                                                 {"NVIDIA-T4g", 16384},
                                                 {"NVIDIA-A10G", 22888},
                                                 {"NVIDIA-L4", 22888},
                                                 {"NVIDIA-L40S", 45776},
                                                 {"NVIDIA-RTX-PRO-4500", 32768},
                                                 {"Tesla-V100-SXM2-16GB", 16384},
                                                 {"Tesla-V100-SXM2-32GB", 32768}}};

std::int64_t rounded_up(std::int64_t amount, std::int64_t unit) { return amount / unit + (amount % unit > 0 ? 1 : 0); }

std::string shown(const Need& need) {
  const auto memory = Quantity::of(need.memory_bytes, Quantity::Format::kBinarySi).to_string();
  if (need.sms == 0) return fmt::format("{} of GPU memory", memory);
  if (need.memory_bytes == 0) return fmt::format("{} SMs", need.sms);
  return fmt::format("{} of GPU memory and {} SMs", memory, need.sms);
}

/// An error about the need as a whole names the first annotation that specifies it.
std::string field_of(const Need& need) { return std::string(need.memory_bytes > 0 ? kMemoryNeed : kSmsNeed); }

tl::unexpected<Error> sms_not_known(std::string_view product) {
  return fail({Code::kInvalid, fmt::format("the SMs of {} are not known", product), std::string(kSmsNeed),
               fmt::format("set only {}, or request a resource by its name", kMemoryNeed)});
}

Result<Share> share_in(const Need& need, std::string_view product, std::int64_t memory_bytes, std::int64_t sms) {
  if (need.sms > 0 && sms == 0) return sms_not_known(product);
  if (need.memory_bytes > memory_bytes || need.sms > sms) {
    const auto has = Need{memory_bytes, sms};
    return fail({Code::kInvalid, fmt::format("{} are needed, and {} has {}", shown(need), product, shown(has)),
                 std::string(need.memory_bytes > memory_bytes ? kMemoryNeed : kSmsNeed),
                 "need less, or choose a larger model"});
  }
  // In thousandths of the total: both numbers are below it, and memory is below 2^40, so there is no overflow.
  std::int64_t milli = rounded_up(need.memory_bytes * kWhole, memory_bytes);
  if (need.sms > 0) milli = std::max(milli, rounded_up(need.sms * kWhole, sms));
  if (milli >= kWhole) return Share{std::string(words::kGpuResource), 1};
  return Share{std::string(words::kGpuMilliResource), milli};
}

Result<Share> share_of_model(const Need& need, const mig::Model& model, bool uncut) {
  const mig::ModelProfile& whole = model.profiles.back();
  if (uncut) return share_in(need, model.name, whole.memory_gb * kGiB, whole.sms);
  if (need.sms > 0 && whole.sms == 0) return sms_not_known(model.name);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto memory_gb = std::min(rounded_up(need.memory_bytes, kGiB), kMost);
  const auto found = mig::smallest_with(model, static_cast<std::int32_t>(memory_gb),
                                        static_cast<std::int32_t>(std::min(need.sms, kMost)));
  if (found) return Share{mig::resource_of(model, *found), 1};
  return fail(
      {Code::kInvalid,
       fmt::format("{} are needed, and the largest MIG profile of {} is {}", shown(need), model.name, whole.name),
       std::string(memory_gb > whole.memory_gb ? kMemoryNeed : kSmsNeed), "need less, or choose a larger model"});
}

Result<Share> share_of_product(const Need& need, const std::string& product, bool uncut) {
  constexpr std::string_view kShared = "-SHARED", kCut = "-MIG-";
  std::string_view plain = product;
  if (plain.ends_with(kShared)) plain.remove_suffix(kShared.size());
  if (const mig::Model* model = mig::model_of(plain)) {
    const auto cut = plain.find(kCut);
    if (cut == std::string_view::npos) return share_of_model(need, *model, uncut);
    // All instances of such nodes are equal and count as GPUs.
    if (const auto profile = mig::profile_of(*model, plain.substr(cut + kCut.size()))) {
      const mig::ModelProfile& each = model->profiles[*profile];
      QM_TRY(share_in(need, plain, each.memory_gb * kGiB, each.sms));
      return Share{std::string(words::kGpuResource), 1};
    }
  }
  const auto known = std::ranges::find(kUncuttable, plain, &Uncuttable::product);
  if (known != kUncuttable.end()) return share_in(need, plain, known->memory_mib * kMiB, 0);
  return fail({Code::kInvalid,
               fmt::format("{} are requested of {}, which is not in the GPU catalog", shown(need), product),
               field_of(need),
               fmt::format("use a value of the node label {}, or request a resource by its name", words::kGpuProduct)});
}

}  // namespace

bool states_need(const Labels& annotations) {
  const auto first = annotations.lower_bound(std::string(kNeedPrefix));
  return first != annotations.end() && first->first.starts_with(kNeedPrefix);
}

Result<std::optional<Need>> need_of(const Labels& annotations) {
  if (!states_need(annotations)) return std::optional<Need>();
  for (auto at = annotations.lower_bound(std::string(kNeedPrefix));
       at != annotations.end() && at->first.starts_with(kNeedPrefix); ++at) {
    if (at->first == kMemoryNeed || at->first == kSmsNeed) continue;
    return fail({Code::kInvalid, "is not a known requirement of a GPU", at->first,
                 fmt::format("use {} or {}", kMemoryNeed, kSmsNeed)});
  }
  Need out;
  if (const auto annotation = annotations.find(std::string(kMemoryNeed)); annotation != annotations.end()) {
    const auto amount = Quantity::parse(annotation->second);
    if (!amount || *amount < Quantity::of(kMiB)) {  // "10" would be ten bytes, and is probably a mistake
      return fail({Code::kInvalid, fmt::format("\"{}\" is not a valid amount of GPU memory", annotation->second),
                   std::string(kMemoryNeed), "write it as 10Gi"});
    }
    out.memory_bytes = amount->units();
  }
  if (const auto annotation = annotations.find(std::string(kSmsNeed)); annotation != annotations.end()) {
    const char* const end = annotation->second.data() + annotation->second.size();
    const auto read = std::from_chars(annotation->second.data(), end, out.sms);
    if (read.ec != std::errc() || read.ptr != end || out.sms < 1) {
      return fail({Code::kInvalid, fmt::format("\"{}\" is not a valid number of SMs", annotation->second),
                   std::string(kSmsNeed), "give a whole number from 1 on"});
    }
  }
  return std::optional<Need>(out);
}

ForGpus gpus_for(const Labels& node_selector, const std::vector<std::string>& models) {
  const auto chosen = [&](std::string_view key) {
    const auto found = node_selector.find(std::string(key));
    return found == node_selector.end() ? std::string_view() : std::string_view(found->second);
  };
  ForGpus out;
  out.uncut = chosen(kMigConfig) == "all-disabled" || chosen(kMigCapable) == "false";
  out.products = models;
  if (const auto product = chosen(words::kGpuProduct); !product.empty()) {
    out.products = {std::string(product)};
  } else if (models.empty()) {
    const Type* type = find(chosen(words::kInstanceType));
    if (type != nullptr && type->gpus > 0) out.products = {std::string(type->gpu_product)};
  }
  return out;
}

Result<Share> share_of(const Need& need, const ForGpus& gpus) {
  if (gpus.products.empty()) {
    return fail({Code::kInvalid, fmt::format("{} are requested without a GPU model", shown(need)), field_of(need),
                 fmt::format("choose a model with the node selector {}", words::kGpuProduct)});
  }
  std::optional<Share> out;
  for (const std::string& product : gpus.products) {
    QM_ASSIGN(const Share share, share_of_product(need, product, gpus.uncut));
    if (out && *out != share) {
      return fail({Code::kInvalid,
                   fmt::format("{} are {} {} of {} and {} {} of {}", shown(need), out->amount, out->resource,
                               gpus.products.front(), share.amount, share.resource, product),
                   field_of(need), "set one model, or models with the same result"});
    }
    out = share;
  }
  return *out;
}

}  // namespace qm::catalog
