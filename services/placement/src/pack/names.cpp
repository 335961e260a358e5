#include "policies.hpp"

namespace qm::placement::pack {
namespace {

constexpr std::array<std::string_view, 7> kNames{"quartermaster", "fgd",     "bestfit", "dotprod",
                                                 "clustering",    "packing", "spread"};

}  // namespace

std::span<const std::string_view> policy_names() { return kNames; }

std::unique_ptr<Policy> make_policy(std::string_view name, const Outlook& outlook) {
  if (name == "fgd") return make_fgd(outlook);
  if (name == "bestfit") return make_bestfit();
  if (name == "dotprod") return make_dotprod();
  if (name == "clustering") return make_clustering();
  if (name == "packing") return make_packing();
  if (name == "quartermaster") return make_quartermaster(outlook);
  if (name == "spread") return make_spread();
  return nullptr;
}

}  // namespace qm::placement::pack
