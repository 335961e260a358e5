#pragma once
#include "qm/placement/engine.hpp"

#include <optional>

namespace qm::placement {

/// The engine's placement for hypothetical requests: on the caller's nodes, by the current preference.
class Engine::WhatIf final : public Trial {
 public:
  explicit WhatIf(const Engine& engine);
  ~WhatIf() override;
  WhatIf(const WhatIf&) = delete;
  WhatIf& operator=(const WhatIf&) = delete;

  /// Free capacity that is available to the workload; `own` stores it if it differs from the engine's.
  [[nodiscard]] Rooms& rooms(const WorkloadUid& uid, std::optional<Rooms>& own) const;

  [[nodiscard]] Demands demands(const Asked& asked, std::size_t position) const override;
  [[nodiscard]] Placed place(const Asked& asked, Rooms& rooms) const override;
  [[nodiscard]] bool fits(const Asked& asked, Rooms& rooms) const override;
  [[nodiscard]] std::optional<Obstacles> near(const Asked& asked, const Rooms& rooms) const override;

 private:
  [[nodiscard]] Placed decide(const Asked& asked, Rooms& rooms, Wanted wanted) const;
  [[nodiscard]] rules::TemplateId hold(const rules::PodTemplate& like) const;

  const Engine& engine_;
  std::optional<Preference> own_;                // set if the known and the scored mix have drifted apart
  mutable std::vector<rules::TemplateId> held_;  // templates of repeated requests, compiled once
};

}  // namespace qm::placement
