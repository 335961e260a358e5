// Network policies. A policy only adds allowed connections, but its existence denies those that no policy allows.
#include "network_policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace qm::admission_policy {
namespace {

constexpr std::string_view kNamespaceName = "kubernetes.io/metadata.name";  // label that the API server sets
constexpr std::int64_t kDns = 53;

tl::unexpected<Error> bad(const std::string& field, std::string what, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(what), field, std::move(remedy)});
}

Result<LabelSelector> selector(const Json& from, const std::string& field) {
  LabelSelector out;
  for (const auto& [key, value] : from["matchLabels"].members()) {
    out.requirements.push_back({key, LabelRequirement::Op::kIn, {value.string()}});
  }
  for (const auto& one : from["matchExpressions"].items()) {
    using Op = LabelRequirement::Op;
    const auto& word = one["operator"].string();
    LabelRequirement next{one["key"].string(), Op::kExists, {}};
    if (word == "In") {
      next.op = Op::kIn;
    } else if (word == "NotIn") {
      next.op = Op::kNotIn;
    } else if (word == "DoesNotExist") {
      next.op = Op::kDoesNotExist;
    } else if (word != "Exists") {
      return bad(field, fmt::format("{} is not an operator", word), "use In, NotIn, Exists or DoesNotExist");
    }
    for (const auto& value : one["values"].items()) next.values.push_back(value.string());
    out.requirements.push_back(std::move(next));
  }
  return out;
}

struct Block {
  std::uint32_t address = 0;
  int bits = 32;
  [[nodiscard]] bool has(std::uint32_t one) const { return bits == 0 || ((one ^ address) >> (32 - bits)) == 0; }
};

std::optional<std::uint32_t> ipv4(std::string_view text) {
  std::uint32_t out = 0;
  for (int part = 0; part < 4; ++part) {
    std::uint32_t one = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), one);
    if (error != std::errc() || one > 255) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    if (part < 3) {
      if (!text.starts_with('.')) return std::nullopt;
      text.remove_prefix(1);
    }
    out = out << 8 | one;
  }
  return text.empty() ? std::optional(out) : std::nullopt;
}

std::optional<Block> block_of(const std::string& text) {
  const auto slash = text.find('/');
  const auto address = ipv4(std::string_view(text).substr(0, slash));
  if (!address || slash == std::string::npos) return std::nullopt;
  Block out{*address, -1};
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, out.bits);
  if (error != std::errc() || rest != end || out.bits < 0 || out.bits > 32) return std::nullopt;
  return out;
}

bool in_block(const std::string& block, const std::string& ip) {
  const auto one = ipv4(ip);
  const auto all = block_of(block);
  return one && all && all->has(*one);
}

Result<NetworkPolicy::Peer> read_peer(const Json& from, const std::string& field) {
  NetworkPolicy::Peer out;
  if (const auto* namespaces = from.find("namespaceSelector")) {
    QM_ASSIGN(out.namespaces, selector(*namespaces, field + ".namespaceSelector"));
  }
  if (const auto* pods = from.find("podSelector")) {
    QM_ASSIGN(out.pods, selector(*pods, field + ".podSelector"));
  }
  if (const auto* block = from.find("ipBlock")) {
    out.block = (*block)["cidr"].string();
    for (const auto& one : (*block)["except"].items()) out.except.push_back(one.string());
    // An address of the other family is kept; no address here matches it.
    if (out.block.find(':') == std::string::npos && !block_of(out.block)) {
      return bad(field + ".ipBlock.cidr", fmt::format("{} is not a CIDR", out.block), "write one such as 10.0.0.0/8");
    }
  }
  return out;
}

Result<NetworkPolicy::Port> read_port(const Json& from, const std::string& field) {
  NetworkPolicy::Port out;
  out.protocol = from["protocol"].string_or("TCP");
  out.name = from["port"].string();
  out.first = from["port"].integer();
  out.last = from["endPort"].integer(out.first);
  if (out.first < 0 || out.last > 65535 || out.last < out.first)
    return bad(field, "is not a range of ports", "give port and endPort");
  return out;
}

Result<std::vector<NetworkPolicy::Rule>> read_rules(const Json& list, const char* side, const std::string& field) {
  std::vector<NetworkPolicy::Rule> out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto at = fmt::format("{}[{}]", field, i);
    NetworkPolicy::Rule rule;
    for (const auto& peer : list.at(i)[side].items()) {
      QM_ASSIGN(rule.peers.emplace_back(), read_peer(peer, fmt::format("{}.{}", at, side)));
    }
    for (const auto& port : list.at(i)["ports"].items()) {
      QM_ASSIGN(rule.ports.emplace_back(), read_port(port, at + ".ports"));
    }
    out.push_back(std::move(rule));
  }
  return out;
}

bool applies(const NetworkPolicy& policy, const Endpoint& pod) {
  return !pod.ns.empty() && policy.ns == pod.ns && policy.pods.matches(pod.labels);
}

bool is_peer(const NetworkPolicy& policy, const NetworkPolicy::Peer& peer, const Endpoint& end) {
  if (!peer.block.empty()) {
    return in_block(peer.block, end.ip) &&
           std::ranges::none_of(peer.except, [&](const auto& except) { return in_block(except, end.ip); });
  }
  if (end.ns.empty()) return false;  // selectors match pods only
  const bool where = peer.namespaces ? peer.namespaces->matches(end.ns_labels) : end.ns == policy.ns;
  return where && (!peer.pods || peer.pods->matches(end.labels));
}

bool is_port(const NetworkPolicy::Port& port, const Flow& flow) {
  if (port.protocol != flow.protocol) return false;
  if (!port.name.empty()) return port.name == flow.port_name;
  return port.first == 0 || (flow.port >= port.first && flow.port <= port.last);
}

bool allows(const NetworkPolicy& policy, const NetworkPolicy::Rule& rule, const Endpoint& other, const Flow& flow) {
  const bool peer_matches = rule.peers.empty() || std::ranges::any_of(rule.peers, [&](const auto& peer) {
                              return is_peer(policy, peer, other);
                            });
  return peer_matches &&
         (rule.ports.empty() || std::ranges::any_of(rule.ports, [&](const auto& port) { return is_port(port, flow); }));
}

bool open(const std::vector<NetworkPolicy>& policies, const Endpoint& pod, const Endpoint& other, const Flow& flow,
          bool in) {
  bool limited = false;
  for (const auto& policy : policies) {
    if (!applies(policy, pod) || !(in ? policy.limits_ingress : policy.limits_egress)) continue;
    limited = true;
    const auto& rules = in ? policy.ingress : policy.egress;
    if (std::ranges::any_of(rules, [&](const auto& rule) { return allows(policy, rule, other, flow); })) return true;
  }
  return !limited;
}

/// Whether a rule allows DNS queries, even if only within the own namespace, where no DNS server runs.
bool allows_dns(const NetworkPolicy::Rule& rule) {
  const bool port =
      rule.ports.empty() || std::ranges::any_of(rule.ports, [](const auto& p) {
        return p.protocol == "UDP" && p.name.empty() && (p.first == 0 || (p.first <= kDns && kDns <= p.last));
      });
  const bool elsewhere =
      rule.peers.empty() || std::ranges::any_of(rule.peers, [](const auto& p) {
        if (!p.block.empty()) return true;
        if (!p.namespaces) return false;
        const auto& wanted = p.namespaces->requirements;
        return std::ranges::all_of(wanted, [](const auto& r) {
          return r.key == kNamespaceName && std::ranges::find(r.values, "kube-system") != r.values.end();
        });
      });
  return port && elsewhere;
}

}  // namespace

Result<NetworkPolicy> NetworkPolicy::read(const Json& object) {
  NetworkPolicy out;
  out.ns = object["metadata"]["namespace"].string_or("default");
  out.name = object["metadata"]["name"].string();
  const auto& spec = object["spec"];
  QM_ASSIGN(out.pods, selector(spec["podSelector"], "spec.podSelector"));
  QM_ASSIGN(out.ingress, read_rules(spec["ingress"], "from", "spec.ingress"));
  QM_ASSIGN(out.egress, read_rules(spec["egress"], "to", "spec.egress"));
  out.limits_egress = spec.contains("egress");
  if (const auto* types = spec.find("policyTypes")) {
    const auto has = [&](const char* word) {
      return std::ranges::any_of(types->items(), [&](const Json& t) { return t.string() == word; });
    };
    out.limits_ingress = has("Ingress");
    out.limits_egress = has("Egress");
  }
  return out;
}

bool passes(const std::vector<NetworkPolicy>& policies, const Flow& flow) {
  return open(policies, flow.from, flow.to, flow, false) && open(policies, flow.to, flow.from, flow, true);
}

std::vector<Finding> lint(const NetworkPolicy& policy) {
  std::vector<Finding> out;
  const auto add_finding = [&](std::string what, std::string field, std::string remedy) {
    out.push_back({"network-policy", std::move(what), std::move(field), std::move(remedy)});
  };
  if (!policy.limits_egress) {
    add_finding("EGRESS_OPEN: its pods may send to any address", "spec.policyTypes",
                "add Egress, and rules for the allowed destinations");
  } else if (std::ranges::none_of(policy.egress, allows_dns)) {
    add_finding("NO_DNS: its pods cannot resolve names", "spec.egress",
                "allow UDP and TCP port 53 to the namespace kube-system");
  }
  const bool outside = std::ranges::any_of(policy.egress, [](const auto& rule) {
    return rule.peers.empty() || std::ranges::any_of(rule.peers, [](const auto& peer) { return !peer.block.empty(); });
  });
  for (std::size_t i = 0; i < policy.egress.size(); ++i) {
    for (const auto& peer : policy.egress[i].peers) {
      // A podSelector for all pods together with a port is often meant as "anywhere", but selects pods of this
      // namespace only.
      const bool all_pods = peer.pods && peer.pods->requirements.empty() && !peer.namespaces && peer.block.empty();
      if (!all_pods || outside || policy.egress[i].ports.empty()) continue;
      add_finding("ONLY_OWN_NAMESPACE: a podSelector alone reaches pods of the policy's namespace, and nothing outside",
                  fmt::format("spec.egress[{}].to", i), "use an ipBlock for addresses outside of the cluster");
    }
  }
  const auto by_free_label = [&](const std::vector<NetworkPolicy::Rule>& rules, const char* field) {
    for (std::size_t i = 0; i < rules.size(); ++i) {
      for (const auto& peer : rules[i].peers) {
        if (!peer.namespaces) continue;
        const auto& wanted = peer.namespaces->requirements;
        const bool own = std::ranges::any_of(wanted, [](const auto& r) { return r.key == kNamespaceName; });
        if (wanted.empty() || own) continue;
        add_finding(fmt::format("UNTRUSTED_NAMESPACE_LABEL: any user who may label a namespace {} gains access",
                                wanted.front().key),
                    fmt::format("spec.{}[{}]", field, i),
                    fmt::format("select by {}, or restrict who may set the label", kNamespaceName));
      }
    }
  };
  by_free_label(policy.ingress, "ingress");
  return out;
}

}  // namespace qm::admission_policy
