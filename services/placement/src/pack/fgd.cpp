// Fragmentation gradient descent: the place where the fragment grows least.
#include "gradient.hpp"

namespace qm::placement::pack {
namespace {

class Fgd final : public Policy {
 public:
  explicit Fgd(const Outlook& outlook) : gradient_(typical(outlook.mix), outlook.capacity) {}
  [[nodiscard]] std::string_view name() const override { return "fgd"; }
  [[nodiscard]] Choice choose(const NodeState& node, const PodClass& pod) const override {
    return gradient_.best(node, pod, [&](std::int32_t, std::int64_t less) { return gradient_.level(less); });
  }

 private:
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Policy> make_fgd(const Outlook& outlook) { return std::make_unique<Fgd>(outlook); }

}  // namespace qm::placement::pack
