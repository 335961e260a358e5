#include "qm/placement/policy.hpp"

namespace qm::placement {
namespace {

class BestFit final : public Score {
 public:
  [[nodiscard]] std::string_view name() const override { return "best-fit"; }
  [[nodiscard]] Value of(const Room& room, const PodShape& shape, std::int64_t pods) const override {
    return {room.gpu_milli() - pods * (shape.gpu.whole * 1000 + shape.gpu.milli),
            room.cpu_milli - pods * shape.cpu_milli, room.memory_bytes - pods * shape.memory_bytes};
  }
};

}  // namespace

const Score& best_fit() {
  static const BestFit score;
  return score;
}

}  // namespace qm::placement
