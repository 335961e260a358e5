#pragma once
#include "qm/kube_rules/pod_rules.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace qm::kube_rules {

/// Prints values as texts that are equal exactly if the values are equal, to find templates that
/// are already compiled. Not meant to be read by people.
class Print {
 public:
  Print& add(std::string_view text) {
    text_ += fmt::format("{}:", text.size());
    text_ += text;
    return *this;
  }
  Print& add(std::int64_t number) {
    text_ += fmt::format("{};", number);
    return *this;
  }
  Print& add(const Labels& labels) {
    add(size(labels));
    for (const auto& [key, value] : labels) add(key).add(value);
    return *this;
  }
  Print& add(const Amounts& amounts) {
    add(size(amounts));
    for (const auto& [key, value] : amounts) add(key).add(value);
    return *this;
  }
  Print& add(const std::vector<std::string>& words) { return each(words); }
  Print& add(const Requirement& r) { return add(r.key).add(static_cast<std::int64_t>(r.op)).add(r.values); }
  Print& add(const SelectorTerm& term) { return each(term.labels).each(term.fields); }
  Print& add(const PreferredTerm& term) { return add(term.weight).add(term.term); }
  Print& add(const Toleration& t) { return add(t.key).add(t.op).add(t.value).add(t.effect); }
  Print& add(const VolumeReach& volume) { return add(volume.name).each(volume.nodes); }
  Print& add(const OwnClaim& c) {
    add(c.volume).add(std::int64_t{c.storage_class.has_value()});
    return c.storage_class ? add(*c.storage_class) : *this;
  }
  Print& add(const HostPort& p) { return add(std::int64_t{p.port}).add(p.protocol).add(p.ip); }
  Print& add(const LabelRequirement& r) { return add(r.key).add(static_cast<std::int64_t>(r.op)).add(r.values); }
  Print& add(const std::optional<LabelSelector>& selector) {
    add(std::int64_t{selector.has_value()});
    return selector ? each(selector->requirements) : *this;
  }
  Print& add(const PodTerm& t) { return add(t.topology_key).add(t.pods).add(t.namespaces).add(t.namespace_selector); }
  Print& add(const WeightedPodTerm& t) { return add(t.weight).add(t.term); }
  Print& add(const Spread& s) {
    add(s.topology_key).add(s.max_skew).add(s.min_domains).add(std::int64_t{s.required}).add(s.pods);
    return add(std::int64_t{s.honor_affinity}).add(std::int64_t{s.honor_taints});
  }
  template <class T>
  Print& each(const std::vector<T>& items) {
    add(size(items));
    for (const T& item : items) add(item);
    return *this;
  }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  template <class T>
  static std::int64_t size(const T& items) {
    return static_cast<std::int64_t>(items.size());
  }
  std::string text_;
};

}  // namespace qm::kube_rules
