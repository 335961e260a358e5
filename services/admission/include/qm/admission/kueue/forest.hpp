#pragma once
#include "qm/admission/kueue/victims.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::admission::kueue {

/// Cohorts and cluster queues by name, as in manifests; converted into one field for each tree.
struct Forest {
  struct Offer {
    Flavor flavor = 0;
    Resource resource = 0;
    Quota quota;
  };
  struct Cohort {
    std::string parent;
    double weight = 1;
    std::vector<Offer> quotas;
  };
  struct Queue {
    std::string cohort;
    double weight = 1;
    QueueRules rules;  ///< plant() sets the cells of its options
    std::vector<Offer> quotas;
  };
  /// Cohorts that are only referenced need no entry.
  std::map<std::string, Cohort> cohorts;
  std::map<std::string, Queue> queues;

  struct Planted {
    std::vector<QuotaState> fields;
    std::map<std::string, std::pair<std::size_t, Node>> queues;  ///< name -> field, node
    std::map<std::string, std::pair<std::size_t, Node>> cohorts;
    std::vector<std::map<std::pair<Flavor, Resource>, Cell>> cells;  ///< by field
  };
  /// Queues and cohorts below a cycle of cohorts are omitted.
  [[nodiscard]] Planted plant() const;
};

}  // namespace qm::admission::kueue
