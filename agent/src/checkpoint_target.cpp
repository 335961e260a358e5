#include "checkpoint_target.hpp"

#include "qm/model/resources.hpp"
#include "sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <optional>

namespace qm::agent {
namespace {

constexpr std::size_t kMaxTarget = 1024;
constexpr std::string_view kPodIp = "{podIP}";
constexpr const char* kTargetForm = "write http://{podIP}:PORT/PATH, as a CheckpointPolicy does";

tl::unexpected<Error> refused(const Rank& rank, Code code, std::string_view why, const char* remedy = kTargetForm) {
  return fail(Error{code, fmt::format("{}/{}: annotation {} {}", rank.ns, rank.name, words::kCheckpoint, why),
                    std::string(words::kCheckpoint), remedy});
}

/// An address in network order. IPv4 is stored as the mapped IPv6 address, so that both spellings compare equal.
using Address = std::array<std::uint8_t, 16>;

std::optional<Address> address_of(const std::string& text) {
  Address out{};
  if (inet_pton(AF_INET6, text.c_str(), out.data()) == 1) return out;
  out = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (inet_pton(AF_INET, text.c_str(), out.data() + 12) == 1) return out;
  return std::nullopt;
}

/// Why the address is forbidden; empty = it may be the address of a pod.
std::string_view forbidden(const Address& a) {
  const bool v4 = std::ranges::all_of(a.begin(), a.begin() + 10, [](auto byte) { return byte == 0; }) &&
                  a[10] == 0xff && a[11] == 0xff;
  if (v4) {
    if (a[12] == 0) return "unspecified";
    if (a[12] == 127) return "loopback";
    if (a[12] == 169 && a[13] == 254) return "link-local";
    if (a[12] >= 224) return "multicast or reserved";
    return {};
  }
  if (std::ranges::all_of(a.begin(), a.begin() + 12, [](auto byte) { return byte == 0; })) {
    return "loopback, unspecified or an embedded IPv4 address";
  }
  if (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) return "link-local";
  if (a[0] == 0xff) return "multicast";
  // fd00:ec2::/32 contains the metadata services of EC2.
  if (a[0] == 0xfd && a[1] == 0 && a[2] == 0x0e && a[3] == 0xc2) return "of a cloud's metadata service";
  return {};
}

/// HOST[:PORT] of an origin. An IPv6 address is in brackets.
struct Authority {
  std::string host;
  std::optional<int> port;
};
std::optional<Authority> authority_of(std::string_view text) {
  Authority out;
  std::string_view rest;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    out.host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    const auto colon = text.find(':');
    out.host = text.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (out.host.empty()) return std::nullopt;
  if (rest.empty()) return out;
  int port = 0;
  const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), port);
  if (rest.front() != ':' || error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  if (port < 1 || port > 65535) return std::nullopt;
  out.port = port;
  return out;
}

bool is_path(std::string_view path) {
  return path.starts_with('/') && std::ranges::all_of(path, [](char c) {
           return c > ' ' && c < 0x7f && std::string_view("\"<>\\^`{|}#").find(c) == std::string_view::npos;
         });
}

}  // namespace

Result<CheckpointTarget> checkpoint_target(const Rank& rank, const std::string& gateway) {
  const std::string& text = rank.checkpoint;
  if (text.empty()) return refused(rank, Code::kFailedPrecondition, "is missing: the rank cannot save");
  if (text.size() > kMaxTarget) {
    return refused(rank, Code::kInvalid, fmt::format("has {} bytes, at most {} are allowed", text.size(), kMaxTarget));
  }
  const auto scheme_end = text.find("://");
  const std::string scheme = text.substr(0, scheme_end == std::string::npos ? 0 : scheme_end);
  if (scheme != "http" && scheme != "https") return refused(rank, Code::kInvalid, "is not an http URL");
  const auto from = scheme_end + 3;
  const auto slash = std::min(text.find_first_of("/?#", from), text.size());
  const std::string_view seen_version = std::string_view(text).substr(from, slash - from);
  if (seen_version.find('@') != std::string_view::npos) return refused(rank, Code::kInvalid, "has user information");
  const auto authority = authority_of(seen_version);
  if (!authority) return refused(rank, Code::kInvalid, fmt::format("has \"{}\" for an address and port", seen_version));
  const std::string path =
      slash == text.size()
          ? "/"
          : fill_template(text.substr(slash),
                          {{"namespace", rank.ns}, {"pod", rank.name}, {"podIP", rank.ips.empty() ? "" : rank.ips[0]}});
  if (!is_path(path)) return refused(rank, Code::kInvalid, "has a path with characters that no URL has");

  if (rank.host_network) {
    return refused(rank, Code::kFailedPrecondition,
                   "cannot be called: the pod has hostNetwork, and its address is the node's",
                   "run the pod without hostNetwork");
  }
  if (rank.ips.empty()) return refused(rank, Code::kFailedPrecondition, "cannot be called: the pod has no address yet");
  const std::string& host = authority->host == kPodIp ? rank.ips.front() : authority->host;
  const auto address = address_of(host);
  if (!address) return refused(rank, Code::kInvalid, fmt::format("names the host \"{}\", and no address", host));
  const auto is_own = [&](const std::string& ip) { return address_of(ip) == address; };
  if (std::ranges::none_of(rank.ips, is_own)) {
    return refused(rank, Code::kInvalid, fmt::format("names {}, and the pod has {}", host, fmt::join(rank.ips, ", ")));
  }
  if (const auto why = forbidden(*address); !why.empty()) {
    return refused(rank, Code::kInvalid, fmt::format("names {}, which is {}", host, why));
  }
  if (!gateway.empty()) {
    const auto filled = fill_template(gateway, {{"namespace", rank.ns}, {"pod", rank.name}});
    const auto end = std::min(filled.find('/', filled.find("://") + 3), filled.size());
    std::string prefix = filled.substr(end);
    while (prefix.ends_with('/')) prefix.pop_back();
    return CheckpointTarget{filled.substr(0, end), prefix + path};
  }
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  const int port = authority->port.value_or(scheme == "https" ? 443 : 80);
  return CheckpointTarget{fmt::format("{}://{}:{}", scheme, shown, port), path};
}

bool is_gateway(std::string_view url) { return is_url(url) && url.find_first_of("?#@ ") == std::string_view::npos; }

}  // namespace qm::agent
