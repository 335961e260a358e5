// The digest of the rows about replicas.
#include "replicas/digest.hpp"

namespace qm::autoscaler {
namespace {

/// Adds values in the order of their fields.
class Adder {
 public:
  explicit Adder(Digest& digest) : digest_(digest) {}
  template <class... Parts>
  void all(const Parts&... parts) {
    (add(parts), ...);
  }

 private:
  void add(const std::string& text) { digest_.add(text); }
  void add(std::int64_t n) { digest_.add(n); }
  void add(std::uint64_t n) { digest_.add(static_cast<std::int64_t>(n)); }
  void add(std::int32_t n) { digest_.add(std::int64_t{n}); }
  void add(bool flag) { digest_.add(std::int64_t{flag ? 1 : 0}); }
  void add(double n) { digest_.add(fmt::format("{}", n)); }
  void add(Instant t) { digest_.add(micros(t)); }
  void add(Duration d) { digest_.add(std::int64_t{d.count()}); }
  template <class E>
  requires std::is_enum_v<E>
  void add(E e) { digest_.add(static_cast<std::int64_t>(e)); }
  template <class T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add(static_cast<std::int64_t>(list.size()));
    for (const auto& item : list) add(item);
  }
  template <class K, class V>
  void add(const std::map<K, V>& map) {
    add(static_cast<std::int64_t>(map.size()));
    for (const auto& [key, value] : map) all(key, value);
  }
  void add(const ScalerId& id) { all(id.kind, id.ns, id.name); }
  void add(const TargetId& id) { all(id.ns, id.group, id.kind, id.name); }
  void add(const replicas::Pod& p) {
    all(p.name, p.phase, p.ready, p.ready_since, p.start, p.deleted, p.containers, p.sidecars, p.pod_requests);
  }
  void add(const replicas::ResourceSample& s) { all(s.pod, s.at, s.window, s.usage); }
  void add(const replicas::PodValue& v) { all(v.pod, v.milli); }
  void add(const replicas::Readings& r) { all(r.resource, r.pods, r.object, r.external); }
  void add(const replicas::PartitionOffsets& o) { all(o.latest, o.committed); }
  void add(const replicas::Reading& reading) {
    add(static_cast<std::int64_t>(reading.index()));
    if (const auto* failed = std::get_if<replicas::FailedReading>(&reading)) add(failed->message);
    if (const auto* queue = std::get_if<replicas::QueueReading>(&reading)) {
      all(queue->visible, queue->in_flight, queue->delayed);
    }
    if (const auto* topic = std::get_if<replicas::TopicReading>(&reading)) add(*topic);
    if (const auto* query = std::get_if<replicas::QueryReading>(&reading)) all(query->elements, query->value);
  }
  void add(const replicas::Recommendation& r) { all(r.at, r.replicas); }
  void add(const replicas::ScaleEvent& e) { all(e.at, e.change, e.outdated); }
  void add(const replicas::Condition& c) { all(c.status, c.reason, c.message); }
  void add(const DecisionRow::Metric& m) { all(m.name, m.replicas, m.ratio, m.rule, m.error); }

  Digest& digest_;
};

}  // namespace

void fold(const ScalerId& id, Digest& digest) { Adder(digest).all(id.kind, id.ns, id.name); }
void fold(const TargetId& id, Digest& digest) { Adder(digest).all(id.ns, id.group, id.kind, id.name); }
void fold(const ScalerRow& r, Digest& digest) {
  Adder(digest).all(r.target, r.api_version, r.manifest, r.uid, r.created, r.suspended, r.generated, r.refused);
}
void fold(const TargetRow& r, Digest& digest) {
  Adder(digest).all(r.api_version, r.uid, r.mode, r.found, r.problem, r.replicas, r.status_replicas, r.pods, r.observed,
                    r.evaluated, r.changed, r.number, r.pending, r.wanted, r.decided_by, r.bound, r.conflict, r.error);
}
void fold(const ReadingsRow& r, Digest& digest) { Adder(digest).all(r.metrics, r.triggers); }
void fold(const HistoryRow& r, Digest& digest) {
  const auto& s = r.state;
  Adder(digest).all(s.created, s.last_active, s.hpa.recommendations, s.hpa.ups, s.hpa.downs, s.hpa.conditions,
                    s.failures, s.offsets, r.synced, r.polled, r.switched);
}
void fold(const DecisionRow& r, Digest& digest) {
  Adder(digest).all(r.at, r.current, r.wanted, r.lower, r.upper, r.abstains, r.rule, r.active, r.metrics, r.fault);
}

}  // namespace qm::autoscaler
