// Fragmentation gradient descent: chooses the device and node where the fragment grows least.
#include "gradient.hpp"

namespace qm::placement::pack {
namespace {

class Fgd final : public Policy {
 public:
  explicit Fgd(const Outlook& outlook) : gradient_(typical(outlook.mix), outlook.capacity) {}
  [[nodiscard]] std::string_view name() const override { return "fgd"; }
  [[nodiscard]] NodeScores scores_of(const NodeState& node) const override { return {gradient_.fragment(node), 0}; }
  [[nodiscard]] Choice weigh(const NodeState& node, const NodeScores& scores, const PodClass& pod) const override {
    return gradient_.best(node, scores.fragment, pod,
                          [&](std::int32_t, std::int64_t less) { return gradient_.level(less); });
  }

 private:
  Gradient gradient_;
};

}  // namespace

std::unique_ptr<Policy> make_fgd(const Outlook& outlook) { return std::make_unique<Fgd>(outlook); }

}  // namespace qm::placement::pack
