#pragma once
#include "qm/topology/topology.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::topology {

using LabelId = std::int32_t;
inline constexpr LabelId kNoLabel = -1;

/// Labels and taints of hosts as small numbers: words are interned, and equal lists of taints are one class.
struct Matcher {
  struct Label {
    LabelId key = kNoLabel;
    LabelId value = kNoLabel;
  };

  explicit Matcher(DomainId first) : first_leaf(first) {}
  /// Leaves are added in their order.
  void add(const Node& node);
  [[nodiscard]] LabelId find(std::string_view label) const;
  /// The value of a label of the leaf; kNoLabel where it has none.
  [[nodiscard]] LabelId value_of(DomainId leaf, LabelId key) const;
  [[nodiscard]] std::size_t index(DomainId leaf) const { return static_cast<std::size_t>(leaf - first_leaf); }

  DomainId first_leaf;
  std::vector<std::string> words;
  std::map<std::string, LabelId, std::less<>> ids;
  std::vector<Label> labels;  ///< leaf by leaf, by key
  std::vector<std::size_t> labels_end;
  std::vector<LabelId> name;
  std::vector<std::vector<Taint>> taint_classes;
  std::vector<std::int32_t> taint_class;

 private:
  LabelId intern(const std::string& label);
  std::map<std::vector<Taint>, std::int32_t> class_ids_;
};

}  // namespace qm::topology
