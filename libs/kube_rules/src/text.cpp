// Templates as text: the words and numbers that Print writes, in the order of the members, after the format number.
#include "qm/kube_rules/text.hpp"

#include "print.hpp"

#include <charconv>

namespace qm::kube_rules {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr std::int64_t kWithClaims = 2;     // claims are appended at the end
constexpr std::int64_t kWithOwnClaims = 3;  // own claims are appended after those

/// The format number at the start of a text that Print wrote.
std::int64_t format_of(std::string_view text) { return text.size() > 1 && text[1] == ';' ? text[0] - '0' : 0; }

/// Reads what Print has written. Reading stops at the first error.
class Scan {
 public:
  explicit Scan(std::string_view text) : rest_(text) {}
  [[nodiscard]] bool whole() const { return !bad_ && rest_.empty(); }

  Scan& read(std::int64_t& out) {
    out = number(';');
    return *this;
  }
  Scan& read(bool& out) {
    out = number(';') != 0;
    return *this;
  }
  Scan& read(std::string& out) {
    const auto size = static_cast<std::size_t>(number(':'));
    bad_ = bad_ || size > rest_.size();
    if (bad_) return *this;
    out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return *this;
  }
  template <class Value>
  Scan& read(std::map<std::string, Value>& out) {
    for (auto left = number(';'); left > 0 && !bad_; --left) {
      std::string key;
      read(key).read(out[key]);
    }
    return *this;
  }
  template <class T>
  Scan& read(std::vector<T>& out) {
    for (auto left = number(';'); left > 0 && !bad_; --left) read(out.emplace_back());
    return *this;
  }
  template <class T>
  Scan& read(std::optional<T>& out) {
    if (number(';') != 0 && !bad_) read(out.emplace());
    return *this;
  }
  Scan& read(Requirement& r) { return read(r.key).choose(r.op, Requirement::Op::kLt).read(r.values); }
  Scan& read(SelectorTerm& t) { return read(t.labels).read(t.fields); }
  Scan& read(PreferredTerm& t) { return read(t.weight).read(t.term); }
  Scan& read(Toleration& t) { return read(t.key).read(t.op).read(t.value).read(t.effect); }
  Scan& read(VolumeReach& v) { return read(v.name).read(v.nodes); }
  Scan& read(OwnClaim& c) { return read(c.volume).read(c.storage_class); }
  Scan& read(HostPort& p) {
    std::int64_t port = 0;
    read(port).read(p.protocol).read(p.ip);
    p.port = static_cast<std::int32_t>(port);
    return *this;
  }
  Scan& read(LabelRequirement& r) {
    return read(r.key).choose(r.op, LabelRequirement::Op::kDoesNotExist).read(r.values);
  }
  Scan& read(LabelSelector& s) { return read(s.requirements); }
  Scan& read(PodTerm& t) { return read(t.topology_key).read(t.pods).read(t.namespaces).read(t.namespace_selector); }
  Scan& read(WeightedPodTerm& t) { return read(t.weight).read(t.term); }
  Scan& read(Spread& s) {
    read(s.topology_key).read(s.max_skew).read(s.min_domains).read(s.required).read(s.pods);
    return read(s.honor_affinity).read(s.honor_taints);
  }
  template <class Enum>
  Scan& choose(Enum& out, Enum last) {
    const auto value = number(';');
    bad_ = bad_ || value < 0 || value > static_cast<std::int64_t>(last);
    if (!bad_) out = static_cast<Enum>(value);
    return *this;
  }

 private:
  std::int64_t number(char end) {
    std::int64_t out = 0;
    const auto [at, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    bad_ = bad_ || error != std::errc() || at == rest_.data() + rest_.size() || *at != end;
    if (bad_) return 0;
    rest_.remove_prefix(static_cast<std::size_t>(at - rest_.data()) + 1);
    return out;
  }

  std::string_view rest_;
  bool bad_ = false;
};

}  // namespace

std::string text_of(const PodTemplate& pods) {
  const PodRules& r = pods.rules;
  Print print;
  const auto format = !r.own_claims.empty() ? kWithOwnClaims : !r.claims.empty() ? kWithClaims : kFormat;
  print.add(format).add(pods.ns.value()).add(pods.labels).add(r.node_selector);
  print.add(std::int64_t{r.required.has_value()});
  if (r.required) print.each(*r.required);
  print.each(r.preferred).each(r.tolerations).each(r.volumes).each(r.spread).each(r.affinity).each(r.anti_affinity);
  print.each(r.preferred_affinity).each(r.preferred_anti_affinity).each(r.ports).add(r.requests);
  if (format >= kWithClaims) print.add(r.claims);
  if (format >= kWithOwnClaims) print.each(r.own_claims);
  return print.text();
}

std::optional<PodTemplate> template_of(std::string_view text) {
  Scan scan(text);
  std::int64_t format = 0;
  std::string ns;
  PodTemplate out;
  PodRules& r = out.rules;
  scan.read(format).read(ns).read(out.labels).read(r.node_selector).read(r.required).read(r.preferred);
  scan.read(r.tolerations).read(r.volumes).read(r.spread).read(r.affinity).read(r.anti_affinity);
  scan.read(r.preferred_affinity).read(r.preferred_anti_affinity).read(r.ports).read(r.requests);
  if (format >= kWithClaims) scan.read(r.claims);
  if (format >= kWithOwnClaims) scan.read(r.own_claims);
  if (!scan.whole() || format < kFormat || format > kWithOwnClaims) return std::nullopt;
  out.ns = Namespace(ns);
  return out;
}

PodTemplate template_of(const PodSet& set, const Namespace& ns) {
  PodTemplate out = template_of(set.rules).value_or(PodTemplate{});
  out.ns = ns;
  out.rules.node_selector = set.shape.node_selector;
  out.rules.tolerations = set.shape.tolerations;
  out.rules.requests = set.shape.extended;
  out.rules.requests["cpu"] = set.shape.cpu_milli;
  out.rules.requests["memory"] = set.shape.memory_bytes;
  if (set.shape.gpu.whole > 0) out.rules.requests[std::string(words::kGpuResource)] = set.shape.gpu.whole;
  return out;
}

bool names_own_claims(std::string_view text) { return format_of(text) == kWithOwnClaims; }

bool names_claims(std::string_view text) { return format_of(text) == kWithClaims || names_own_claims(text); }

}  // namespace qm::kube_rules
