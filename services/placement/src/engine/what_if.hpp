#pragma once
#include "qm/placement/engine.hpp"

#include <optional>

namespace qm::placement {

/// The engine's decision for questions: in rooms of the asker's, by what is weighed now.
class Engine::WhatIf final : public Trial {
 public:
  explicit WhatIf(const Engine& engine);
  ~WhatIf() override;
  WhatIf(const WhatIf&) = delete;
  WhatIf& operator=(const WhatIf&) = delete;

  /// The rooms as the workload may have them; `own` holds them where they are not simply the engine's.
  [[nodiscard]] Rooms& rooms(const WorkloadUid& uid, std::optional<Rooms>& own) const;

  [[nodiscard]] Demands demands(const Asked& asked, std::size_t position) const override;
  [[nodiscard]] Placed place(const Asked& asked, Rooms& rooms) const override;
  [[nodiscard]] bool fits(const Asked& asked, Rooms& rooms) const override;
  [[nodiscard]] std::optional<Obstacles> near(const Asked& asked, const Rooms& rooms) const override;

 private:
  [[nodiscard]] Placed decide(const Asked& asked, Rooms& rooms, Wanted wanted) const;
  [[nodiscard]] rules::TemplateId hold(const rules::PodTemplate& like) const;

  const Engine& engine_;
  std::optional<Preference> own_;                // where what is known has drifted from what is weighed
  mutable std::vector<rules::TemplateId> held_;  // what is asked again and again has its parts compiled once
};

}  // namespace qm::placement
